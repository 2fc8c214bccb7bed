//===- Probe.h - what can be known of a machine without Python -----*- C++ -*-===//
#pragma once

#include "Python.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::cli {

struct Probe {
  std::string version;
  std::string system; // kernel and distribution
  std::string cpu, cpuLevel;
  unsigned vectorBits = 0, threads = 0;
  uint64_t memoryLimit = 0;                       // bytes, as TILEWRIGHT_MEMORY_LIMIT says
  uint64_t l1Bytes = 0, l2Bytes = 0, l3Bytes = 0; // data cache of a core, second and last level
  std::string compiler;                           // path of the compiler library; empty: not found
  std::optional<PythonChoice> python;
  std::map<std::string, std::string> packages; // of that Python; empty: unknown
  std::map<std::string, std::string> switches; // those that are set
  std::vector<std::string> unknownSwitches;    // TILEWRIGHT_ variables that are no switch
};

/// Throws std::invalid_argument for a switch or a --python that is wrong.
Probe probe(const std::string &wantedPython);

std::string asText(const Probe &probe);
std::string asJson(const Probe &probe);

/// A string as a JSON literal, quotes included.
std::string jsonString(const std::string &text);

/// The version of PyTorch that this build works with.
inline constexpr const char *torchVersion = "2.13.0";

} // namespace tilewright::cli
