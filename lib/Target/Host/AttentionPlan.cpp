//===- AttentionPlan.cpp - block sizes and scratch memory of attention ----------------------------------------===//

#include "AttentionInts.h"

#include <cstdio>

namespace tilewright::host {

std::string AttentionKind::key() const {
  char text[96];
  std::snprintf(text, sizeof text, "attention f32 mask=%d contiguous=%d out=%d causal=%d scale=%a", int(mask),
                int(maskContiguous), int(outContiguous), int(causal), scale);
  return text;
}

AttentionLaunch planAttention(const AttentionKind &kind, const AttentionSizes &s, const MatrixTarget &target,
                              unsigned threads) {
  const MatrixShape shape = *MatrixShape::get(DType::F32, target);
  const SizeExpr width = shape.width, lanes = shape.lanes, rows = shape.rows;
  auto roundUp = [](const SizeExpr &x, const SizeExpr &to) { return SizeExpr::ceildiv(x, to) * to; };

  // Some four points for each thread, of equal numbers of rows; a block of few rows would pack its keys for little.
  SizeExpr heads = SizeExpr::max(s.batch * s.heads, 1);
  SizeExpr blocks =
      SizeExpr::max(SizeExpr::ceildiv(s.queries, kAttentionRows), SizeExpr::ceildiv(int64_t(threads) * 4, heads));
  blocks = SizeExpr::min(blocks, SizeExpr::ceildiv(s.queries, rows * SizeExpr(4)));
  SizeExpr rowBlock = roundUp(SizeExpr::ceildiv(s.queries, SizeExpr::max(blocks, 1)), rows);
  rowBlock = SizeExpr::max(rowBlock, rows);
  SizeExpr keyBlock = SizeExpr::max(SizeExpr::min(roundUp(s.keys, width), kAttentionKeys), width);

  // Scratch, in bytes: each part starts at a multiple of 64. A line of scores has 16 more than its columns, so that
  // rows do not meet in one set of the cache.
  SizeExpr scoreLine = keyBlock + SizeExpr(16), outLine = SizeExpr::max(roundUp(s.valueSize, width), width);
  SizeExpr at = 0;
  auto part = [&](const SizeExpr &floats) {
    SizeExpr begin = at;
    at = at + roundUp(floats, 16) * SizeExpr(4);
    return begin;
  };
  AttentionLaunch launch;
  launch.ints.resize(kAttentionInts);
  auto set = [&](AttentionInt which, const SizeExpr &value) { launch.ints[which] = value; };
  set(Batch, s.batch), set(Heads, s.heads), set(Queries, s.queries), set(Keys, s.keys);
  set(HeadSize, s.headSize), set(ValueSize, s.valueSize);
  for (int d = 0; d < 4; ++d) {
    set(AttentionInt(QStride + d), s.q[d]), set(AttentionInt(KStride + d), s.k[d]),
        set(AttentionInt(VStride + d), s.v[d]);
    set(AttentionInt(OutStride + d), s.out[d]);
    set(AttentionInt(MaskStride + d), kind.mask == AttentionKind::None ? SizeExpr(0) : s.mask[d]);
  }
  set(RowBlock, rowBlock), set(KeyBlock, keyBlock), set(ScoreLine, scoreLine), set(OutLine, outLine);
  set(KeyPanels, part(keyBlock * s.headSize));
  set(ValuePanels, part(keyBlock * outLine));
  set(Scores, part(rowBlock * scoreLine));
  set(Sums, part(rowBlock * outLine));
  set(Statistics, part(rowBlock * (lanes + SizeExpr(2))));
  launch.scratchBytes = at;

  launch.grid = s.batch * s.heads * SizeExpr::ceildiv(s.queries, rowBlock);
  launch.flops = s.batch * s.heads * s.queries * s.keys * (s.headSize + s.valueSize) * SizeExpr(2);
  // 20 us of work at a hundred operations a nanosecond.
  SizeExpr perPoint = SizeExpr::max(rowBlock * s.keys * (s.headSize + s.valueSize) * SizeExpr(2), 1);
  launch.grain = SizeExpr::max(SizeExpr::floordiv(2'000'000, perPoint), 1);
  launch.bytesMoved =
      s.batch * s.heads * SizeExpr(4) * (s.queries * (s.headSize + s.valueSize) + s.keys * (s.headSize + s.valueSize));
  return launch;
}

} // namespace tilewright::host
