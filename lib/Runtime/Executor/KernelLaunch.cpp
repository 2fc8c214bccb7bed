//===- KernelLaunch.cpp - runs one kernel step ----------------------------===//
#include "KernelLaunch.h"

#include "../CodeRegistry.h"
#include "ArenaPlan.h"
#include "KernelObserver.h"
#include "Scratch.h"
#include "tilewright/Runtime/Errors.h"
#include "tilewright/Runtime/ThreadPool.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace tilewright {

namespace {

struct Launch {
  Launch(const CallFrame &frame, const LoadedKernelStep &step, const BoundKernelStep &bound, void *const *buffers)
      : frame(frame), step(step), bound(bound), buffers(buffers) {}

  const CallFrame &frame;
  const LoadedKernelStep &step;
  const BoundKernelStep &bound;
  void *const *buffers;

  std::mutex mutex;
  int64_t errorBegin = INT64_MAX; // of the chunk that the error below is from
  KernelContext error{};

  void run(int64_t begin, int64_t end, unsigned thread) {
    KernelContext context{};
    context.thread = thread;
    ScratchMemory scratch(bound.scratch);
    context.scratch = scratch.data();
    RunningKernel running(frame.bound->owner->program.name.c_str(), step.code->name.c_str(), step.spec->source.c_str());
    int64_t status = step.function(buffers, bound.ints.data(), begin, end, &context);
    if (status == 0 && context.errorCode == 0)
      return;
    std::lock_guard lock(mutex);
    if (begin < errorBegin) {
      errorBegin = begin;
      error = context;
    }
  }
};

[[noreturn]] void raise(const LoadedKernelStep &step, const KernelContext &error) {
  const auto &sites = step.spec->errorSites;
  if (error.errorCode < 1 || error.errorCode > int64_t(sites.size()))
    throw DataError(step.code->name, step.spec->source, error.errorIndex, error.errorBound,
                    "value " + std::to_string(error.errorIndex) + " is out of range (" +
                        std::to_string(error.errorBound) + ")");
  const ErrorSiteSpec &site = sites[error.errorCode - 1];
  std::string message = site.message;
  for (auto [mark, value] : {std::pair("{index}", error.errorIndex), std::pair("{bound}", error.errorBound)})
    for (size_t at; (at = message.find(mark)) != std::string::npos;)
      message.replace(at, 7, std::to_string(value));
  throw DataError(site.op, site.source.empty() ? step.spec->source : site.source, error.errorIndex, error.errorBound,
                  message, site.kind);
}

} // namespace

void launchKernel(const CallFrame &frame, const LoadedKernelStep &step, const BoundKernelStep &bound) {
  if (bound.grid <= 0)
    return;
  size_t count = step.spec->buffers.size();
  std::array<void *, 16> few;
  std::vector<void *> many;
  void **buffers = few.data();
  if (count > few.size()) {
    many.resize(count);
    buffers = many.data();
  }
  for (size_t i = 0; i < count; ++i)
    buffers[i] = static_cast<char *>(frame.pointer(step.spec->buffers[i])) + bound.offsets[i];

  Launch launch(frame, step, bound, buffers);
  KernelTimer timer(*step.code, *step.spec, bound.bytes, bound.flops);
  if (bound.grid <= bound.grain)
    launch.run(0, bound.grid, 0); // the pool would do the same, after some checks
  else
    ThreadPool::instance().parallelFor(
        bound.grid, bound.grain, [&](int64_t begin, int64_t end, unsigned thread) { launch.run(begin, end, thread); });
  timer.stop();
  if (launch.errorBegin != INT64_MAX)
    raise(step, launch.error);
}

} // namespace tilewright
