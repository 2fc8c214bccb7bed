//===- TileTarget.h - what Transforms must know of a CPU level -----*- C++ -*-===//
#pragma once

#include "tilewright/Transforms/Emit.h"

namespace tilewright::host {

/// For programs that `threads` threads will run. Throws loop::EmitError for an unknown level.
loop::TileTarget tileTarget(llvm::StringRef level, unsigned threads);

} // namespace tilewright::host
