//===- HostTarget.h - CPU levels and compiling a kernel for one ----*- C++ -*-===//
//
// The host target's door: a module with one tile.kernel becomes a relocatable ELF object. lib/Target/Host/Lower.cpp
// lists the passes in between.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/DType.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class TargetMachine;
}

namespace tilewright::host {

/// A CPU level: code of a level runs on every CPU that has its features.
struct HostTarget {
  std::string level;    // "x86-64", "avx2", "avx512", "avx512bf16"
  std::string cpu;      // LLVM's name of the base feature set
  std::string features; // added to it, in LLVM's notation
  unsigned vectorBits;
  bool fma;        // fused multiply-add instructions
  bool f16c;       // conversions between f16 and f32
  bool roundInsn;  // SSE4.1: floor, ceil, trunc, round to even
  bool maskedMove; // masked loads and stores of 32 and 64 bits
  bool avx512;     // F, BW, DQ, VL, CD: mask registers, masked access of every width
  bool bf16;       // conversion to bf16 and dot products

  /// Elements of one full vector register.
  unsigned lanes(DType type) const { return vectorBits / 8 / static_cast<unsigned>(sizeOf(type)); }
  /// NR of tile.pack and tile.contract: columns of a packed panel, in elements of the accumulator (f32: 2 vectors).
  unsigned panelWidth(DType accumulator = DType::F32) const { return 2 * lanes(accumulator); }
  /// Whether masked loads and stores of such elements are single instructions.
  bool hasMaskedAccess(unsigned elementBits) const { return avx512 || (maskedMove && elementBits >= 32); }
  bool hasGather(unsigned elementBits) const { return (avx512 || maskedMove) && elementBits >= 32; }

  /// nullptr for an unknown name.
  static const HostTarget *find(llvm::StringRef level);
  /// As find; an unknown level is a programming error.
  static const HostTarget &get(llvm::StringRef level);
  /// Lowest first.
  static llvm::ArrayRef<HostTarget> all();

  std::unique_ptr<llvm::TargetMachine> createTargetMachine() const;
};

/// What to print while compiling. IR after each pass at debug >= 3, assembly at debug >= 4.
struct DumpOptions {
  int debug = 0;
  llvm::raw_ostream *out = nullptr;                                       // llvm::errs() if null
  bool assembly = false;                                                  // fill ObjectCode::assembly
  std::function<void(llvm::StringRef pass, mlir::ModuleOp module)> after; // called after each pass
};

struct Phase {
  std::string name; // "lower", "llvm-ir", "optimise", "codegen"
  double seconds;
  double cpuSeconds = 0; // of the calling thread: what a busy machine does not disturb
};

struct ObjectCode {
  std::vector<uint8_t> bytes; // ELF, relocatable
  std::string symbol;         // the function, ABI of Runtime/KernelContext.h
  std::string assembly;       // if asked for
  std::vector<Phase> phases;
};

/// Dialects that a module for compileKernel may use, and all that its lowering needs.
void registerDialects(mlir::DialectRegistry &registry);

/// Compiles a module with one tile.kernel; the module is consumed (it holds LLVM dialect afterwards). An error says
/// which operation at which location is not supported, or names a symbol outside Runtime's table that the code would
/// need. Thread-safe for modules of different contexts.
llvm::Expected<ObjectCode> compileKernel(mlir::ModuleOp module, const HostTarget &target,
                                         const DumpOptions &options = {});

/// Functions outside of an object that its code may call; all are in Runtime's table.
llvm::ArrayRef<llvm::StringRef> allowedSymbols();

/// A context with the dialects loaded and multithreading off, borrowed from a process-wide pool: making one takes
/// about 1 ms, as much as lowering a small kernel. Operations of a borrowed context must be destroyed before it is
/// given back.
class PooledContext {
public:
  PooledContext();
  ~PooledContext();
  PooledContext(PooledContext &&) = default;
  PooledContext &operator=(PooledContext &&) = delete;
  mlir::MLIRContext &operator*() const { return *context; }
  mlir::MLIRContext *operator->() const { return context.get(); }
  mlir::MLIRContext *get() const { return context.get(); }

private:
  std::unique_ptr<mlir::MLIRContext> context;
};

} // namespace tilewright::host
