//===- Executable.h - a loaded Program and how it is called -----*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/Program.h"
#include "tilewright/Runtime/Stream.h"

#include <functional>
#include <memory>
#include <span>

namespace tilewright {

/// One argument of a call. For scalars only `scalarInt` or `scalarFloat` is read.
struct Argument {
  void *data = nullptr;
  std::span<const int64_t> sizes, strides; // strides in elements
  DType dtype = DType::F32;
  int64_t scalarInt = 0;
  double scalarFloat = 0;
  /// Token that changes whenever the memory may have been written (an allocator block's write epoch, or a
  /// frozen parameter's identity). 0: unknown, nothing derived from it may be kept.
  uint64_t epoch = 0;
};

/// Where an output is to be written, in the order of Program::outputs (data is ignored for aliases).
struct OutputMemory {
  void *data;
};

/// What binding the symbols of a call gives; valid for these sizes, shared and immutable.
class BoundSizes {
public:
  std::vector<std::vector<int64_t>> outputSizes, outputStrides; // per output
  std::vector<int64_t> outputOffsets;                           // elements
  size_t arenaBytes = 0;                                        // temporary memory of a call: the peak of the plan
  size_t temporaryBytes = 0;                                    // what the temporaries would take without sharing
  size_t attachedBytes = 0;                                     // packed weights
  virtual ~BoundSizes() = default;
};

/// Thread-safe after load. A call: bind, allocate the outputs, run.
///
/// Errors of data that a kernel finds (an index out of range) are DataError (Errors.h), raised at the next wait on the
/// stream, or by run itself when stream is nullptr; the rest of that call is skipped. Whoever owns the memory raises
/// the write epoch of what a call writes (outputs and inputs with `mutated`): Executable sees pointers only.
class Executable : public std::enable_shared_from_this<Executable> {
public:
  /// Maps the kernels (shared by hash across the process) and resolves external functions. Throws std::runtime_error if
  /// the program's target is above this CPU or a relocation or symbol is not allowed.
  static std::shared_ptr<Executable> load(Program program);
  virtual ~Executable() = default;

  virtual const Program &program() const = 0;

  /// Checks dtypes, ranks, sizes, strides and the program's checks. Throws std::invalid_argument (the argument's name,
  /// what was wanted and what came). Strides are not looked at where the size is 0 or 1, or the tensor is empty. An
  /// integer that binds a symbol must not be negative. The results for the last 16 sets of sizes are kept.
  virtual std::shared_ptr<const BoundSizes> bind(std::span<const Argument> arguments) = 0;

  /// Runs on `stream` (returns at once; memory of arguments and outputs must stay allocated in stream order), or, with
  /// stream == nullptr, on the calling thread and the pool, complete on return. Temporary memory comes from the
  /// device's allocator (stream) or a host cache of its own (nullptr). External steps run on the calling thread after
  /// the stream is drained (errors recorded on it are raised there); their exceptions propagate. `sizes` must come from
  /// this executable's bind; data may be null for empty tensors only.
  virtual void run(const std::shared_ptr<const BoundSizes> &sizes, std::span<const Argument> arguments,
                   std::span<const OutputMemory> outputs, Stream *stream) = 0;
};

/// Called after each kernel step when set (TILEWRIGHT_DEBUG>=1, profiler, bringup): kernel name, seconds, bytes, flops,
/// source.
struct KernelRecord {
  const char *name;
  const char *source;
  double seconds;
  int64_t bytes, flops;
};
/// Process wide; called on the thread that ran the step, possibly by several at once. An empty function takes it away.
void setKernelObserver(std::function<void(const KernelRecord &)> observer);

} // namespace tilewright
