//===- ContractPlan.h - shapes and block sizes of matrix products on the host -*- C++ -*-===//
//
// What builders of kernels must know about tile.pack and tile.contract on the host target: the type and width of
// panels, their size in memory, and how to cut C[m, n] = A[m, k] * B[k, n] into grid points. Pure C++: Transforms and
// the lowering share it. All sizes are run-time values, so that a kernel stays generic in m, n and k; block sizes are
// integers of the step.
//
// The product of one grid point (`tile.contract` over mc x nc) runs as
//
//   for each 96 rows:                       fewer where A is copied and k > 1024; sums in a tile of 96 x NR on the
//   stack
//     copy the rows of A, if that pays:     not contiguous in k, or rows in one set of L1 (multiples of 4 KiB apart)
//     for each panel of NR columns:         k x NR of B, one sequential stream
//       for each 2048 of k:                 bounds the part of B that is live to what L2 holds
//         panel product: register blocks of MR x NR, A read in place by broadcast loads with any strides
//       for each row, for each vector: the epilogue
//
// Measured on one core of a Zen 4 class EPYC against a loop of FMA on registers (CPU time on a busy machine, panels
// packed ahead, bias as epilogue): 256^3 0.96, 512^3 0.92, 1024^3 0.90, 2048^3 0.88, 4096x384x384 0.87,
// 4096x1536x384 0.89, 4096x384x1536 0.94, 16x1536x384 0.96. Prefetching the rows of A that follow had no effect.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/DType.h"
#include "tilewright/Support/SizeExpr.h"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tilewright::host {

/// What matrix kernels need to know of a CPU level.
struct MatrixTarget {
  unsigned vectorBytes = 16; // of the widest vector
  bool fma = false;          // else products are rounded before they are added
  bool bf16Dot = false;      // AVX512-BF16: pairs of bf16 products are added to an f32 lane

  /// "x86-64", "avx2" (with FMA), "avx512", "avx512bf16"; nothing for another name.
  static std::optional<MatrixTarget> forLevel(std::string_view level);
};

/// How operands of one type are multiplied on one target.
struct MatrixShape {
  DType operand; // of A and B in memory
  DType panel;   // elements of packed panels: bf16 stays where there is a dot instruction; else bf16 and f16 become f32
  DType accumulator; // f32 for bf16 and f16, else the operand's type
  unsigned lanes;    // W: accumulator elements of a vector
  unsigned width;    // NR: columns of a panel, 2 W
  unsigned rows;     // MR: rows of the largest register block
  unsigned depth;    // consecutive k that one step takes: 2 for bf16 dot products, else 1

  /// Nothing for types that have no matrix product (bool, 8 and 16 bit integers, complex).
  static std::optional<MatrixShape> get(DType operand, const MatrixTarget &target);

  /// Rows of the register blocks, largest first, ending in 1.
  std::vector<unsigned> blockRows() const;

  /// Whether A is copied to the stack in pieces to become f32.
  bool widens() const { return panel != operand; }
};

/// Elements of panel type that n columns of depth k take when packed: panel q starts at q * panelElements(k).
SizeExpr panelElements(const MatrixShape &shape, const SizeExpr &k);
SizeExpr packedElements(const MatrixShape &shape, const SizeExpr &k, const SizeExpr &n);
SizeExpr packedBytes(const MatrixShape &shape, const SizeExpr &k, const SizeExpr &n);

/// Block sizes of a product as integers of a kernel step. The grid is (row blocks, column blocks), row-major or
/// column-major as the builder likes: `rowBlocks * colBlocks` points, block (r, c) covers rows [r * mc, min(m, r * mc +
/// mc)) and columns likewise.
struct ContractBlocks {
  SizeExpr mc, nc;               // rows, columns of a grid point; nc is a multiple of NR
  SizeExpr rowBlocks, colBlocks; // ceil(m / mc), ceil(n / nc)
};

/// Chooses blocks for sizes that are known at the call only. Rows: about 96 (a multiple of MR), so that A's block of K
/// up to 2048 stays in L2; with few rows the columns are cut instead so that there are some 8 points for each of
/// `threads`.
ContractBlocks planContract(const MatrixShape &shape, const SizeExpr &m, const SizeExpr &n, const SizeExpr &k,
                            unsigned threads);

} // namespace tilewright::host
