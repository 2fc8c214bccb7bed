//===- AttentionInts.h - integers of the attention kernel, in order -*- C++ -*-===//
#pragma once

#include "tilewright/Target/Host/AttentionPlan.h"

namespace tilewright::host {

/// Strides are four integers each; the last five are byte offsets in scratch memory.
enum AttentionInt : unsigned {
  Batch,
  Heads,
  Queries,
  Keys,
  HeadSize,
  ValueSize,
  QStride,
  KStride = QStride + 4,
  VStride = KStride + 4,
  MaskStride = VStride + 4,
  OutStride = MaskStride + 4,
  RowBlock = OutStride + 4, // query rows of a grid point
  KeyBlock,                 // keys at a time, a multiple of NR
  ScoreLine,                // elements between rows of scores
  OutLine,                  // elements between rows of sums, a multiple of NR
  KeyPanels,
  ValuePanels,
  Scores,
  Sums,       // of p * v, f32
  Statistics, // per row W equal factors; then maxima; then sums of p
  kAttentionInts
};

constexpr int64_t kAttentionRows = 192, kAttentionKeys = 256;

} // namespace tilewright::host
