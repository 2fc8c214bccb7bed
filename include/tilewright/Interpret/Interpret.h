//===- Interpret.h - runs a kernel at any stage of its lowering ----*- C++ -*-===//
//
// A slow, plain interpreter of what a kernel is between the tile dialect and machine code: tile, arith, math, scf,
// vector, func, cf and the LLVM dialect as far as our passes make it. It works on real memory with the kernel ABI
// (Runtime/KernelContext.h), one operation and one lane after another, with the host's own arithmetic rounded to the
// type. An operation that it does not know is an error that names it, never skipped; so is an access outside the memory
// of the call, and a division that would trap.
//
// What machine code may choose, it chooses as x86-64 does: a float beyond the range of an integer type becomes the
// smallest integer. A shift by the width or more gives 0.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/KernelContext.h"
#include "tilewright/Target/Host/ContractPlan.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::interpret {

/// Memory that a call may touch.
struct Extent {
  void *data;
  size_t bytes;
};

/// One call of the kernel's function: grid points [begin, end).
struct Call {
  std::vector<void *> buffers;
  std::vector<int64_t> ints;
  int64_t begin = 0, end = 0;
  KernelContext *context = nullptr;
  size_t scratchBytes = 0;    // at context->scratch
  std::vector<Extent> memory; // of the buffers; anything else is out of bounds
};

/// What another right implementation may do differently. Results that are moved about within it show how far those of
/// right implementations may lie apart.
struct Freedom {
  bool functions = false; // elementary functions of f32, bf16 and f16 are off by up to 2 units of f32's last place
  bool sums = false;      // reductions and matrix products sum in another order, products are fused or not
  bool rounding = false;  // f32 and f64 arithmetic whose result is not exact may give the next number up or down
  uint64_t seed = 0;
};

struct Options {
  host::MatrixTarget target; // says how tile.pack lays panels out
  Freedom freedom;
  uint64_t mostOperations = UINT64_MAX; // more are a Fault: a loop without an end
};

/// The kernel does what it must not: touches memory that is not its own, divides by zero, does not come to an end.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The interpreter does not know an operation, or not with these types.
struct Unknown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Outcome {
  int64_t status = 0;      // of the function: 1 after an error of data, which the context has
  uint64_t operations = 0; // that were executed
};

/// Runs the tile.kernel, or what it has become: the func.func or llvm.func named `symbol`. Throws Fault and Unknown,
/// both with the operation and its location.
Outcome run(mlir::ModuleOp module, llvm::StringRef symbol, const Call &call, const Options &options);

} // namespace tilewright::interpret
