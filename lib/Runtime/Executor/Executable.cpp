//===- Executable.cpp - a loaded program and how it is called -------------===//
#include "tilewright/Runtime/Executable.h"

#include "CallFrame.h"
#include "ExternalLaunch.h"
#include "KernelLaunch.h"
#include "tilewright/Runtime/PackedWeights.h"

#include <stdexcept>

namespace tilewright {

namespace {

class ExecutableImpl final : public Executable {
public:
  explicit ExecutableImpl(Program program) : loaded(std::move(program)) {
    for (const BufferSpec &buffer : loaded.program.buffers)
      packs |= buffer.kind == BufferSpec::Attached;
  }
  ~ExecutableImpl() override {
    identity.reset();
    if (packs)
      releasePackedWeights();
  }

  const Program &program() const override { return loaded.program; }

  std::shared_ptr<const BoundSizes> bind(std::span<const Argument> arguments) override {
    return cache.get(loaded, arguments);
  }

  void run(const std::shared_ptr<const BoundSizes> &sizes, std::span<const Argument> arguments,
           std::span<const OutputMemory> outputs, Stream *stream) override {
    auto bound = std::dynamic_pointer_cast<const Bound>(sizes);
    if (!bound || bound->owner != &loaded)
      throw std::invalid_argument(loaded.program.name + ": run was given sizes that another program bound");
    if (stream)
      runOnStream(std::move(bound), arguments, outputs, *stream);
    else
      runHere(std::move(bound), arguments, outputs);
  }

private:
  /// The steps [begin, end) are kernels.
  static void runKernels(CallFrame &frame, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const auto &step = std::get<LoadedKernelStep>(frame.bound->owner->steps[i]);
      if (!frame.isSkipped(*step.spec))
        launchKernel(frame, step, std::get<BoundKernelStep>(frame.bound->steps[i]));
    }
  }

  void runExternal(const CallFrame &frame, size_t i) const {
    launchExternal(frame, std::get<LoadedExternalStep>(loaded.steps[i]),
                   std::get<BoundExternalStep>(frame.bound->steps[i]));
  }

  size_t segmentEnd(size_t begin) const {
    while (begin < loaded.steps.size() && std::holds_alternative<LoadedKernelStep>(loaded.steps[begin]))
      ++begin;
    return begin;
  }

  void runHere(std::shared_ptr<const Bound> bound, std::span<const Argument> arguments,
               std::span<const OutputMemory> outputs) {
    CallFrame frame(std::move(bound), arguments, outputs);
    if (!packs && frame.bound->temporaries.empty()) {
      runSteps(frame);
      return;
    }
    TemporaryBlocks blocks(TemporaryMemory::host());
    frame.allocate(blocks, nullptr, identity);
    runSteps(frame);
    frame.publish(nullptr, identity);
  }

  void runSteps(CallFrame &frame) {
    for (size_t i = 0; i < loaded.steps.size();) {
      size_t end = segmentEnd(i);
      runKernels(frame, i, end);
      if (end < loaded.steps.size())
        runExternal(frame, end++);
      i = end;
    }
  }

  /// Consecutive kernels are one task: handing over costs more than a small kernel.
  void runOnStream(std::shared_ptr<const Bound> bound, std::span<const Argument> arguments,
                   std::span<const OutputMemory> outputs, Stream &stream) {
    auto frame = std::make_shared<CallFrame>(std::move(bound), arguments, outputs);
    frame->executable = shared_from_this();
    TemporaryBlocks blocks(TemporaryMemory::device(stream));
    frame->allocate(blocks, &stream, identity);
    for (size_t i = 0; i < loaded.steps.size();) {
      size_t end = segmentEnd(i);
      if (end > i) {
        bool tiny = frame->bound->tinySegment[i];
        stream.enqueue([frame, i, end] { runTask(*frame, i, end); }, /*inlineIfIdle=*/tiny);
      }
      if (end < loaded.steps.size()) {
        try {
          stream.synchronize();
          runExternal(*frame, end++);
        } catch (...) {
          frame->abandon();
          throw;
        }
      }
      i = end;
    }
    frame->publish(&stream, identity);
  }

  static void runTask(CallFrame &frame, size_t begin, size_t end) {
    if (frame.failed.load(std::memory_order_relaxed))
      return;
    try {
      runKernels(frame, begin, end);
    } catch (...) {
      frame.abandon();
      throw; // recorded by the stream, raised at the next wait
    }
  }

  LoadedProgram loaded;
  BoundCache cache;
  bool packs = false;
  std::shared_ptr<const void> identity = std::make_shared<char>(); // packed weights are kept while some user lives
};

} // namespace

std::shared_ptr<Executable> Executable::load(Program program) {
  return std::make_shared<ExecutableImpl>(std::move(program));
}

} // namespace tilewright
