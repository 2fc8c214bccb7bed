//===- LoadedProgram.h - a program with its code and constants ---*- C++ -*-===//
//
// What does not depend on sizes: mapped kernels, aligned constants, resolved functions, and the program's expressions
// as numbers in one table. Immutable.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "SizeTable.h"
#include "tilewright/Runtime/ExternalCall.h"
#include "tilewright/Runtime/ObjectLoader.h"
#include "tilewright/Runtime/Program.h"
#include "tilewright/Support/Hash.h"

#include <memory>
#include <variant>
#include <vector>

namespace tilewright {

struct LoadedKernelStep {
  KernelFunction function = nullptr;
  const KernelStep *spec = nullptr;
  const KernelCode *code = nullptr;
  std::vector<SizeTable::Id> offsets, ints;
  SizeTable::Id grid, grain, scratch, bytes, flops;
};

struct LoadedView {
  const TensorView *spec = nullptr;
  SizeTable::Id offset;
  std::vector<SizeTable::Id> sizes, strides;
};

struct LoadedExternalStep {
  ExternalFunction function = nullptr;
  const ExternalStep *spec = nullptr;
  std::vector<LoadedView> inputs, outputs;
  std::vector<SizeTable::Id> ints;
};

using LoadedStep = std::variant<LoadedKernelStep, LoadedExternalStep>;

struct LoadedTensorSpec {
  std::vector<SizeTable::Id> sizes, strides;
  SizeTable::Id offset = 0; // outputs
};

class LoadedProgram {
public:
  /// Throws std::runtime_error: see Executable::load.
  explicit LoadedProgram(Program program);
  ~LoadedProgram();
  LoadedProgram(const LoadedProgram &) = delete;
  LoadedProgram &operator=(const LoadedProgram &) = delete;

  const Program program;
  SizeTable sizes;
  std::vector<LoadedTensorSpec> inputs, outputs;
  std::vector<SizeTable::Id> bufferBytes, bufferSpared;
  std::vector<LoadedStep> steps;
  std::vector<std::shared_ptr<const LoadedObject>> objects; // per kernel
  std::vector<Digest> kernelDigests;                        // of the objects' contents, per kernel
  std::vector<void *> constants;                            // aligned copies
  std::vector<std::vector<uint32_t>> prologues;             // per buffer: the steps that fill it, if it is Attached
  bool hasExternalSteps = false;
};

} // namespace tilewright
