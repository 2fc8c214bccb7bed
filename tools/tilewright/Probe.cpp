//===- Probe.cpp - what can be known of a machine without Python -----------------===//

#include "Probe.h"

#include "tilewright/Runtime/Cpu.h"
#include "tilewright/Runtime/Device.h"
#include "tilewright/Support/Switches.h"

#include <cstdio>
#include <fstream>
#include <sys/utsname.h>

namespace fs = std::filesystem;

namespace tilewright::cli {
namespace {

constexpr const char *shownPackages[] = {"torch", "numpy", "transformers", "safetensors", "tilewright", "torch-npu"};

std::string systemName() {
  std::ifstream release("/etc/os-release");
  std::string name = "Linux";
  for (std::string line; std::getline(release, line);)
    if (line.starts_with("PRETTY_NAME=")) {
      name = line.substr(line.find('=') + 1);
      std::erase(name, '"');
    }
  utsname kernel;
  return uname(&kernel) == 0 ? name + ", kernel " + kernel.release : name;
}

std::string compilerLibrary() {
  if (std::optional<std::string> forced = switches::compiler())
    return fs::exists(*forced) ? *forced : "";
  fs::path beside = packageFolder() / "tilewright/libtilewright_compiler.so";
  return fs::exists(beside) ? beside.string() : "";
}

std::string gigabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1ull << 30));
  return text;
}

std::string kilobytes(uint64_t bytes) { return std::to_string(bytes >> 10) + " KiB"; }

} // namespace

Probe probe(const std::string &wantedPython) {
  Probe result;
  result.version = TILEWRIGHT_VERSION;
  result.system = systemName();
  result.cpu = cpuBrand();
  const DeviceCapabilities &device = Device::instance().capabilities();
  result.cpuLevel = device.cpuLevel;
  result.vectorBits = device.vectorBits;
  result.threads = device.threads;
  result.memoryLimit = device.totalMemory;
  result.l1Bytes = device.l1Bytes;
  result.l2Bytes = device.l2Bytes;
  result.l3Bytes = device.l3Bytes;
  result.compiler = compilerLibrary();
  result.python = findPython(wantedPython);
  if (result.python) {
    std::map<std::string, std::string> all = installedPackages(result.python->executable);
    for (const char *name : shownPackages)
      if (auto found = all.find(name); found != all.end())
        result.packages.insert(*found);
  }
  for (const Switch &entry : allSwitches())
    if (std::optional<std::string> text = switchText(entry.name))
      result.switches[entry.name] = *text;
  result.unknownSwitches = unknownSwitches();
  return result;
}

std::string asText(const Probe &p) {
  std::string text;
  auto line = [&](const std::string &name, const std::string &value) {
    text += name + std::string(name.size() < 14 ? 14 - name.size() : 1, ' ') + value + "\n";
  };
  line("tilewright", p.version + ", for PyTorch " + torchVersion);
  line("system", p.system);
  line("cpu", p.cpu);
  line("level", p.cpuLevel + ", vectors of " + std::to_string(p.vectorBits) + " bits");
  line("caches", kilobytes(p.l1Bytes) + ", " + kilobytes(p.l2Bytes) + ", " + kilobytes(p.l3Bytes));
  line("threads", std::to_string(p.threads));
  line("memory limit", gigabytes(p.memoryLimit));
  line("compiler", p.compiler.empty() ? "not found beside this command" : p.compiler);
  line("python", p.python ? p.python->executable.string() + " (" + p.python->why + ")" : "not found");
  for (const auto &[name, version] : p.packages)
    line("  " + name, version);
  for (const auto &[name, value] : p.switches)
    line(name, value);
  for (const std::string &name : p.unknownSwitches)
    line(name, "is no switch; docs/switches.md lists them");
  return text;
}

std::string jsonString(const std::string &text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

std::string asJson(const Probe &p) {
  auto object = [](const std::map<std::string, std::string> &map) {
    std::string text;
    for (const auto &[key, value] : map)
      text += (text.empty() ? "" : ", ") + jsonString(key) + ": " + jsonString(value);
    return "{" + text + "}";
  };
  std::string unknown;
  for (const std::string &name : p.unknownSwitches)
    unknown += (unknown.empty() ? "" : ", ") + jsonString(name);
  return "{\"tilewright\": " + jsonString(p.version) + ", \"system\": " + jsonString(p.system) +
         ", \"cpu\": " + jsonString(p.cpu) + ", \"cpu_level\": " + jsonString(p.cpuLevel) +
         ", \"vector_bits\": " + std::to_string(p.vectorBits) + ", \"threads\": " + std::to_string(p.threads) +
         ", \"cache_bytes\": [" + std::to_string(p.l1Bytes) + ", " + std::to_string(p.l2Bytes) + ", " +
         std::to_string(p.l3Bytes) + "], \"memory_limit_bytes\": " + std::to_string(p.memoryLimit) +
         ", \"compiler\": " + (p.compiler.empty() ? "null" : jsonString(p.compiler)) +
         ", \"python\": " + (p.python ? jsonString(p.python->executable.string()) : "null") +
         ", \"python_found_by\": " + (p.python ? jsonString(p.python->why) : "null") +
         ", \"packages\": " + object(p.packages) + ", \"switches\": " + object(p.switches) +
         ", \"unknown_switches\": [" + unknown + "]}";
}

} // namespace tilewright::cli
