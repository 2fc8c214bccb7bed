//===- HostMemory.cpp - how much memory this process may use ---------------===//

#include "tilewright/Runtime/HostMemory.h"

#include "tilewright/Support/Switches.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace tilewright {
namespace {

std::string readText(const std::string &path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// SIZE_MAX for "max", an absent file and v1's "no limit" (nearly 2^63).
size_t readLimit(const std::string &path) {
  std::string text = readText(path);
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value < (uint64_t(1) << 60) ? value : SIZE_MAX;
}

} // namespace

size_t cgroupMemoryLimit(const std::string &membership, const std::string &root) {
  size_t least = SIZE_MAX;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    // hierarchy:controllers:path; v2 is the hierarchy without controllers
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    bool v2 = controllers == ",,", v1 = controllers.find(",memory,") != std::string::npos;
    if (!v1 && !v2)
      continue;
    std::string base = root + (v1 ? "/memory" : ""), file = v1 ? "/memory.limit_in_bytes" : "/memory.max";
    // A limit of any level above holds too. In a container the path may not be visible and the root is the own group.
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      while (!path.empty() && path.back() == '/')
        path.pop_back();
      least = std::min(least, readLimit(base + path + file));
      if (path.empty() || path.find('/') == std::string::npos)
        break;
    }
  }
  return least;
}

size_t usableHostMemory() {
  size_t physical = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return std::min(physical, cgroupMemoryLimit(readText("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

size_t defaultMemoryLimit() {
  switches::MemoryLimit asked = switches::memoryLimit();
  if (asked.bytes)
    return asked.bytes;
  return static_cast<size_t>(static_cast<double>(usableHostMemory()) * (asked.percent / 100));
}

} // namespace tilewright
