//===- Codegen.h - LLVM dialect to an ELF object -------------------*- C++ -*-===//
#pragma once

#include "tilewright/Target/Host/HostTarget.h"

namespace tilewright::host {

/// `module` holds LLVM dialect only; `symbol` names its one visible function. Fills bytes, phases and, if asked for, assembly.
llvm::Error generateObject(mlir::ModuleOp module, llvm::StringRef symbol, const HostTarget &target,
                           const DumpOptions &options, ObjectCode &code);

/// An error that names the first symbol that an object needs and Runtime's table does not have.
llvm::Error checkUndefinedSymbols(llvm::ArrayRef<uint8_t> object);

} // namespace tilewright::host
