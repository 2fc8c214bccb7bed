//===- KernelProfile.cpp - times of compiled kernels for Python
//-----------------------------------------------------===//

#include "tilewright/Runtime/Executable.h"
#include "tilewright/Torch/Bind.h"

#include <nanobind/stl/string.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace nb = nanobind;

namespace tilewright::npu {
namespace {

struct Sum {
  int64_t calls = 0, bytes = 0, flops = 0;
  double seconds = 0;
};

/// Sums by (kernel, source line). Kernels run on streams' workers, so the sums have a lock and know nothing of Python.
struct Profile {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Sum> sums;
};

Profile &profile() {
  static Profile *instance = new Profile; // a worker may still report while the process ends
  return *instance;
}

void start() {
  {
    std::lock_guard lock(profile().mutex);
    profile().sums.clear();
  }
  setKernelObserver([](const KernelRecord &record) {
    std::lock_guard lock(profile().mutex);
    Sum &sum = profile().sums[{record.name, record.source}];
    ++sum.calls;
    sum.seconds += record.seconds;
    sum.bytes += record.bytes;
    sum.flops += record.flops;
  });
}

nb::list stop() {
  setKernelObserver({});
  std::lock_guard lock(profile().mutex);
  nb::list result;
  for (const auto &[key, sum] : profile().sums) {
    nb::dict entry;
    entry["kernel"] = key.first;
    entry["source"] = key.second;
    entry["calls"] = sum.calls;
    entry["seconds"] = sum.seconds;
    entry["bytes"] = sum.bytes;
    entry["flops"] = sum.flops;
    result.append(entry);
  }
  profile().sums.clear();
  return result;
}

} // namespace

void bindKernelProfile(nb::module_ &m) {
  m.def("start_kernel_profile", &start, "Sums the time of every kernel step of the process, from here on.");
  m.def("stop_kernel_profile", &stop,
        "What was summed since the start, one dictionary per kernel and source line. Wait for the device first: a step "
        "that still runs is missed.");
}

} // namespace tilewright::npu
