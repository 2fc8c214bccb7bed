//===- HostMemory.h - how much memory this process may use -------*- C++ -*-===//
#pragma once

#include <cstddef>
#include <string>

namespace tilewright {

/// Physical memory, or the limit of the process's control group (v1 or v2, any level) if that is less. Bytes.
size_t usableHostMemory();

/// The least memory limit of the control groups that `membership` (the text of /proc/self/cgroup) names, looked up
/// under `root`
/// (/sys/fs/cgroup); SIZE_MAX if there is none.
size_t cgroupMemoryLimit(const std::string &membership, const std::string &root);

/// The device's limit: TILEWRIGHT_MEMORY_LIMIT, else 75% of usableHostMemory(). Throws std::invalid_argument.
size_t defaultMemoryLimit();

} // namespace tilewright
