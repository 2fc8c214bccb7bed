//===- ContractKernels.h - the functions that matrix products call -*- C++ -*-===//
//
// Machine code for products lives in a few internal functions per module and operand type, so that a kernel holds each
// of them once, however many rows, tails and epilogues it has:
//
//   panel product   rows of A times one panel of B: a loop over register blocks of MR rows, then 4, 2 and 1 rows (MR =
//   12, 6
//                   or 4). All row counts come from four blocks; the smaller ones cost what their latency costs, and
//                   a tail of 11 rows (8 + 2 + 1 in blocks of 4, 4, 2, 1) takes the time of a full block or little
//                   more.
//   pack            one panel from strided memory
//   copy rows       A in panel type on the stack, where it cannot be read in place
//
// The accumulators of a block go to a tile in memory, where the epilogue picks them up: 48 stores and loads for MR * k
// multiplications of vectors, which cannot be measured from k = 64 on, and the epilogue is compiled once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Target/Host/ContractPlan.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace tilewright::host {

/// Creates the functions on demand at the end of the module. All are (LLVM dialect) internal, never inlined, return
/// nothing; strides are in bytes.
class ContractKernels {
public:
  ContractKernels(mlir::ModuleOp module, const MatrixTarget &target, const MatrixShape &shape)
      : module(module), target(target), shape(shape) {}

  /// (a, sm, sk, b, sb, m, steps, c, ldc, accumulate): C[m, NR] (+)= A[m, k] * B[k, NR] with k = steps * depth; `sb` is
  /// the distance between the rows of a panel, `accumulate` an i1. A is in panel type; with depth 2, sk is the distance
  /// of pairs. k = 0 gives zeros.
  mlir::LLVM::LLVMFuncOp panelProduct();

  /// (source, sk, sn, k, n, panel): 1 <= n <= NR.
  mlir::LLVM::LLVMFuncOp pack();

  /// (source, sm, sk, m, k, target, ldt): rows of A from operand to panel type; k is rounded up to the depth with
  /// zeros.
  mlir::LLVM::LLVMFuncOp copyRows();

private:
  mlir::LLVM::LLVMFuncOp block(unsigned rows);
  std::string name(llvm::StringRef what) const;

  mlir::ModuleOp module;
  MatrixTarget target;
  MatrixShape shape;
};

} // namespace tilewright::host
