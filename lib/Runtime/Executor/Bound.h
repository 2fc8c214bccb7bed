//===- Bound.h - a program at certain sizes ----------------------*- C++ -*-===//
#pragma once

#include "LoadedProgram.h"
#include "tilewright/Runtime/Executable.h"

#include <memory>
#include <mutex>
#include <vector>

namespace tilewright {

struct BoundKernelStep {
  int64_t grid, grain, scratch, bytes, flops;
  std::vector<int64_t> offsets, ints;
};

struct BoundView {
  int64_t offset;
  std::vector<int64_t> sizes, strides;
};

struct BoundExternalStep {
  std::vector<BoundView> inputs, outputs;
  std::vector<int64_t> ints;
};

/// One allocation of a call: several buffers that share it.
struct TemporaryPlan {
  size_t bytes = 0;
  std::vector<std::pair<uint32_t, size_t>> buffers; // index and offset
};

class Bound final : public BoundSizes {
public:
  /// Throws std::invalid_argument where the arguments, from which the symbols' values come, do not agree with each
  /// other, and where the program does not work at these sizes.
  Bound(const LoadedProgram &program, std::vector<int64_t> symbols, std::span<const Argument> arguments);

  /// Whether the arguments have exactly the sizes and strides of this.
  bool matches(std::span<const Argument> arguments) const;
  const LoadedProgram *const owner;
  const std::vector<int64_t> symbols;
  std::vector<std::variant<BoundKernelStep, BoundExternalStep>> steps;
  std::vector<int64_t> bufferBytes;
  std::vector<bool> spared;               // per buffer: see BufferSpec
  std::vector<TemporaryPlan> temporaries; // one for all, or one each (TILEWRIGHT_ALLOC=guard)
  std::vector<Digest> recipes;            // per buffer: how it is packed, if it is Attached
  std::vector<bool> tinySegment;          // per step that begins a segment of kernel steps: little work up to its end

private:
  /// Throws std::invalid_argument that says what differs.
  void explain(std::span<const Argument> arguments) const;
  void checkRelations() const;
  void bindOutputs(const SizeTable::Values &values);
  void bindSteps(const SizeTable::Values &values);
  void planMemory();
  void describeRecipes();
  void estimateWork();
  struct Expected {
    std::vector<int64_t> sizes, strides;
    bool empty = false;
    int64_t scalar = 0;
    bool bindsScalar = false;
  };
  std::vector<Expected> expected; // per input
};

/// The last sets of sizes of one program.
class BoundCache {
public:
  /// Throws std::invalid_argument (see Executable::bind).
  std::shared_ptr<const Bound> get(const LoadedProgram &program, std::span<const Argument> arguments);

private:
  static constexpr size_t kCapacity = 16;
  std::mutex mutex;
  std::vector<std::shared_ptr<const Bound>> recent; // the last used first
};

} // namespace tilewright
