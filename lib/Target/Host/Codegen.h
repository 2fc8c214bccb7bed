//===- Codegen.h - LLVM dialect to an ELF object -------------------*- C++ -*-===//
#pragma once

#include "tilewright/Target/Host/HostTarget.h"

namespace tilewright::host {

/// Appends a phase to what is measured when it goes out of scope.
class PhaseTimer {
public:
  PhaseTimer(ObjectCode &code, const char *name);
  ~PhaseTimer();

private:
  ObjectCode &code;
  const char *name;
  double start, cpuStart;
};

/// `module` holds LLVM dialect only; `symbol` names its one visible function. Fills bytes, phases and, if asked for,
/// assembly.
llvm::Error generateObject(mlir::ModuleOp module, llvm::StringRef symbol, const HostTarget &target,
                           const DumpOptions &options, ObjectCode &code);

/// An error that names the first symbol that an object needs and Runtime's table does not have.
llvm::Error checkUndefinedSymbols(llvm::ArrayRef<uint8_t> object);

} // namespace tilewright::host
