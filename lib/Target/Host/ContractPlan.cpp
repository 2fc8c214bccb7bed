//===- ContractPlan.cpp - shapes and block sizes of matrix products on the host -----------------------------------===//

#include "tilewright/Target/Host/ContractPlan.h"

namespace tilewright::host {

std::optional<MatrixTarget> MatrixTarget::forLevel(std::string_view level) {
  if (level == "x86-64")
    return MatrixTarget{16, false, false};
  if (level == "avx2")
    return MatrixTarget{32, true, false};
  if (level == "avx512")
    return MatrixTarget{64, true, false};
  if (level == "avx512bf16")
    return MatrixTarget{64, true, true};
  return std::nullopt;
}

std::optional<MatrixShape> MatrixShape::get(DType operand, const MatrixTarget &target) {
  MatrixShape shape{operand, operand, operand, 0, 0, 0, 1};
  switch (operand) {
  case DType::F32:
  case DType::F64:
  case DType::I32:
  case DType::I64:
    break;
  case DType::BF16:
    shape.accumulator = DType::F32;
    if (target.bf16Dot)
      shape.depth = 2;
    else
      shape.panel = DType::F32;
    break;
  case DType::F16:
    shape.accumulator = shape.panel = DType::F32;
    break;
  default:
    return std::nullopt;
  }
  shape.lanes = target.vectorBytes / sizeOf(shape.accumulator);
  shape.width = 2 * shape.lanes;
  // 24 of 32, 12 of 16 and 8 of 16 registers hold sums; two hold a row of B and one a broadcast. Without FMA a product
  // needs one more.
  shape.rows = target.vectorBytes == 64 ? 12 : target.fma ? 6 : 4;
  return shape;
}

std::vector<unsigned> MatrixShape::blockRows() const {
  std::vector<unsigned> all{rows};
  for (unsigned r : {4u, 2u, 1u})
    if (r < rows)
      all.push_back(r);
  return all;
}

SizeExpr panelElements(const MatrixShape &shape, const SizeExpr &k) {
  SizeExpr depth = shape.depth;
  SizeExpr padded = shape.depth == 1 ? k : SizeExpr::ceildiv(k, depth) * depth;
  return padded * SizeExpr(shape.width);
}

SizeExpr packedElements(const MatrixShape &shape, const SizeExpr &k, const SizeExpr &n) {
  return SizeExpr::ceildiv(n, shape.width) * panelElements(shape, k);
}

SizeExpr packedBytes(const MatrixShape &shape, const SizeExpr &k, const SizeExpr &n) {
  return packedElements(shape, k, n) * SizeExpr(static_cast<int64_t>(sizeOf(shape.panel)));
}

// Panels come from memory once for so many rows.
static constexpr unsigned kRowsOfBlock = 96;

ContractBlocks planContract(const MatrixShape &shape, const SizeExpr &m, const SizeExpr &n, const SizeExpr &k,
                            unsigned threads) {
  // Equal row blocks, each a multiple of MR but for the last.
  const SizeExpr rows = shape.rows, width = shape.width, target = int64_t(kRowsOfBlock / shape.rows * shape.rows);
  const SizeExpr points = int64_t(threads) * 8;
  SizeExpr wantedRowBlocks = SizeExpr::max(SizeExpr::ceildiv(m, target), 1);
  SizeExpr mc = SizeExpr::max(SizeExpr::ceildiv(SizeExpr::ceildiv(m, wantedRowBlocks), rows) * rows, rows);
  SizeExpr rowBlocks = SizeExpr::ceildiv(m, mc);
  SizeExpr panels = SizeExpr::max(SizeExpr::ceildiv(n, width), 1);
  SizeExpr wantedColBlocks =
      SizeExpr::min(panels, SizeExpr::max(SizeExpr::ceildiv(points, SizeExpr::max(rowBlocks, 1)), 1));
  SizeExpr nc = SizeExpr::ceildiv(panels, wantedColBlocks) * width;
  return {mc, nc, rowBlocks, SizeExpr::ceildiv(n, nc)};
}

} // namespace tilewright::host
