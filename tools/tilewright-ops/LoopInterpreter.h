//===- LoopInterpreter.h - the graph level, element by element ----*- C++ -*-===//
//
// Runs a module as it was imported: slow, and plain enough to be believed. Tests compare importer entries with PyTorch
// through it, apart from fusion and code generation. Islands cannot be run.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Import/LoopIR.h"

#include <vector>

namespace tilewright::loop {

using Bytes = std::vector<uint8_t>;

/// `inputs` holds the memory of each input from its first element on; mutated inputs are written. Returns the outputs,
/// contiguous. Throws std::runtime_error for errors of data (with the site's message), failed checks and accesses out
/// of bounds.
std::vector<Bytes> interpret(const Module &module, std::vector<Bytes> &inputs, const std::vector<int64_t> &symbols);

} // namespace tilewright::loop
