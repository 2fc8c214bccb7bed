//===- FallbackLog.cpp - fallbacks are counted, announced or refused ----------------------------------------------===//

#include "tilewright/Torch/Fallback.h"

#include "tilewright/Support/Switches.h"
#include "tilewright/Torch/DeviceState.h"

#include <c10/util/Exception.h>

#include <mutex>
#include <set>

namespace tilewright::npu {
namespace {

struct Log {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
  std::set<std::string> announced; // stays over resets: once per process is what a reader wants
};

Log &log() {
  static auto *instance = new Log;
  return *instance;
}

} // namespace

std::map<std::string, int64_t> fallbackCounts() {
  std::lock_guard lock(log().mutex);
  return log().counts;
}

void resetFallbackCounts() {
  std::lock_guard lock(log().mutex);
  log().counts.clear();
}

void noteFallback(const std::string &name) {
  switches::Fallback mode = translated([] { return switches::fallback(); });
  TORCH_CHECK_NOT_IMPLEMENTED(mode != switches::Fallback::Error, name,
                              " has no native kernel on npu for these arguments, and TILEWRIGHT_FALLBACK=error refuses "
                              "PyTorch's CPU kernel in its place. Set TILEWRIGHT_FALLBACK=warn to allow it.");
  bool first;
  {
    std::lock_guard lock(log().mutex);
    ++log().counts[name];
    first = mode == switches::Fallback::Warn && log().announced.insert(name).second;
  }
  if (!first)
    return;
  TORCH_WARN(name,
             " has no native kernel on npu: PyTorch's CPU kernel computes it on the same memory, after waiting for the "
             "stream. Said once per operator; see torch.npu.fallback_counts() and TILEWRIGHT_FALLBACK=silent|error.");
}

} // namespace tilewright::npu
