//===- AttentionPlan.h - what a fused attention kernel needs to be launched -*- C++ -*-===//
//
// Pure C++, shared by Transforms and the lowering; Attention.h builds the kernel.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Target/Host/ContractPlan.h"

#include <array>
#include <string>

namespace tilewright::host {

/// What an attention kernel is specialised on.
struct AttentionKind {
  enum Mask : uint8_t {
    None,
    Additive, // f32, added to the scaled score
    Boolean   // bool: false means -inf
  } mask = None;
  bool maskContiguous = true; // the mask's last stride is 1; else it is an integer of the step
  bool outContiguous = true;  // the result's last stride is 1
  bool causal = false;        // key j is seen by query i if j <= i, in addition to the mask
  double scale = 1;

  /// Equal texts mean equal kernels (for one target).
  std::string key() const;
};

/// Sizes and strides (in elements) of [batch, heads, rows, columns] operands; a broadcast dimension has stride 0.
struct AttentionSizes {
  SizeExpr batch, heads, queries, keys;
  SizeExpr headSize, valueSize; // D of q and k, E of v and the result
  std::array<SizeExpr, 4> q, k, v, mask, out;
};

/// The launch of the kernel: buffers are q, k, v, (mask,) out, each at its first element.
struct AttentionLaunch {
  std::vector<SizeExpr> ints; // of the step, in the kernel's order
  SizeExpr grid, grain, scratchBytes, flops, bytesMoved;
};

/// Block sizes: up to 192 rows (fewer where that leaves threads idle) and 256 keys, so that scores and packed keys stay
/// in L2.
AttentionLaunch planAttention(const AttentionKind &kind, const AttentionSizes &sizes, const MatrixTarget &target,
                              unsigned threads);

} // namespace tilewright::host
