//===- Switches.cpp - the environment variables of the project -------------===//

#include "tilewright/Support/Switches.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <stdexcept>

extern char **environ;

namespace tilewright {
namespace {

constexpr Switch kSwitches[] = {
    {"TILEWRIGHT_ALLOC", "`caching`, `guard`", "`caching`",
     "Allocator of the device. `guard` finds wrong accesses: each block ends at an unreadable page, fresh memory is "
     "NaN, "
     "freed memory is unmapped."},
    {"TILEWRIGHT_CACHE", "a directory, `off`", "`$XDG_CACHE_HOME/tilewright`, else `~/.cache/tilewright`",
     "Where compiled programs are kept between processes."},
    {"TILEWRIGHT_CHECK", "`0`, `1`", "`0`",
     "1: calls of hand-written kernels run in the interpreter first, which raises what it finds wrong: races, elements "
     "that are never written, accesses out of bounds. Slow."},
    {"TILEWRIGHT_COMPILER", "a path", "`libtilewright_compiler.so` beside the runtime library",
     "The compiler library that is opened at the first program that is not cached."},
    {"TILEWRIGHT_CPU", "`x86-64`, `avx2`, `avx512`, `avx512bf16`", "the highest that the machine has",
     "CPU level for which code is generated. A level above the machine's is an error."},
    {"TILEWRIGHT_DEBUG", "`0` .. `4`", "`0`",
     "1: each kernel with time and GFLOP/s; 2: fusion decisions too; 3: the IR after each pass too; 4: assembly too."},
    {"TILEWRIGHT_DEVICE", "`auto`, `force`, `off`", "`auto`",
     "`auto`: the device `npu` is registered unless another PrivateUse1 back end or accelerator is there; `force`: it "
     "is "
     "registered in any case; `off`: never (the compiler works on `cpu`)."},
    {"TILEWRIGHT_DUMP", "a directory", "nothing is written",
     "Graphs, IR after each pass, objects and reports of each compilation are written there."},
    {"TILEWRIGHT_FALLBACK", "`warn`, `silent`, `error`", "`warn`",
     "What happens when an operator is not native and PyTorch's CPU kernel does it: one warning per operator, nothing, "
     "or "
     "an error."},
    {"TILEWRIGHT_GDB", "`0`, `1`", "`0`", "Compiled code is registered with debuggers (GDB's JIT interface)."},
    {"TILEWRIGHT_MEMORY_LIMIT", "bytes, with `K`, `M` or `G` (powers of 1024), or a percentage such as `60%`", "`75%`",
     "Memory that the device may hold. A percentage is of physical memory or the cgroup's limit, whichever is less."},
    {"TILEWRIGHT_PERF", "`0`, `1`", "`0`",
     "Compiled kernels are listed in `/tmp/perf-PID.map`, so that `perf` names them."},
    {"TILEWRIGHT_THREADS", "`1` .. `1024`", "the number of CPUs in the affinity mask",
     "Threads of the compute pool, the calling thread included."},
};

const Switch *findSwitch(std::string_view name) {
  auto it = std::find_if(std::begin(kSwitches), std::end(kSwitches), [&](const Switch &s) { return name == s.name; });
  return it == std::end(kSwitches) ? nullptr : it;
}

// Overrides are rare and read without a lock, so that a forked child never finds a lock taken: each change links a new
// immutable table before the old one, which stays reachable.
struct Overrides {
  std::map<std::string, std::string, std::less<>> values;
  const Overrides *previous = nullptr;
};
std::atomic<const Overrides *> overrides{nullptr};
std::atomic<int> cachedDebugLevel{-1}, cachedCheck{-1};

[[noreturn]] void reject(const char *name, const std::string &value) {
  throw std::invalid_argument(std::string(name) + "=" + value + " is not understood; it takes " +
                              findSwitch(name)->values);
}

/// The index of the value among the names, 0 if the switch is not set.
size_t choice(const char *name, std::initializer_list<const char *> names) {
  auto text = switchText(name);
  if (!text)
    return 0;
  auto it = std::find_if(names.begin(), names.end(), [&](const char *n) { return *text == n; });
  if (it == names.end())
    reject(name, *text);
  return static_cast<size_t>(it - names.begin());
}

std::optional<int64_t> integer(const char *name, int64_t low, int64_t high) {
  auto text = switchText(name);
  if (!text)
    return std::nullopt;
  int64_t value = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < low || value > high)
    reject(name, *text);
  return value;
}

} // namespace

std::span<const Switch> allSwitches() { return kSwitches; }

std::string switchesMarkdown() {
  std::string out = "# Switches\n\n"
                    "Environment variables that Tilewright reads. An unknown value is an error. The table is kept in\n"
                    "`lib/Support/Switches.cpp`; a test holds this page equal to it.\n\n"
                    "| variable | values | default | meaning |\n|---|---|---|---|\n";
  for (const Switch &s : kSwitches)
    out += std::string("| `") + s.name + "` | " + s.values + " | " + s.defaultValue + " | " + s.meaning + " |\n";
  return out;
}

std::vector<std::string> unknownSwitches() {
  std::vector<std::string> unknown;
  for (char **entry = environ; entry && *entry; ++entry) {
    std::string_view text = *entry;
    std::string_view name = text.substr(0, text.find('='));
    if (name.starts_with("TILEWRIGHT_") && !findSwitch(name))
      unknown.emplace_back(name);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

std::optional<std::string> switchText(std::string_view name) {
  const Switch *known = findSwitch(name);
  if (!known)
    throw std::logic_error("switch " + std::string(name) + " is not in the table of lib/Support/Switches.cpp");
  if (const Overrides *table = overrides.load(std::memory_order_acquire))
    if (auto it = table->values.find(name); it != table->values.end())
      return it->second.empty() ? std::nullopt : std::optional(it->second);
  const char *text = std::getenv(known->name);
  return text && *text ? std::optional<std::string>(text) : std::nullopt;
}

void setSwitch(std::string_view name, std::optional<std::string> value) {
  if (!findSwitch(name))
    throw std::logic_error("switch " + std::string(name) + " is not in the table of lib/Support/Switches.cpp");
  auto *next = new Overrides;
  const Overrides *current = overrides.load(std::memory_order_acquire);
  do {
    next->values = current ? current->values : decltype(next->values)();
    next->previous = current;
    if (value)
      next->values.insert_or_assign(std::string(name), *value);
    else
      next->values.erase(std::string(name));
  } while (!overrides.compare_exchange_weak(current, next, std::memory_order_acq_rel));
  cachedDebugLevel.store(-1, std::memory_order_relaxed);
  cachedCheck.store(-1, std::memory_order_relaxed);
}

namespace switches {

AllocatorKind alloc() { return static_cast<AllocatorKind>(choice("TILEWRIGHT_ALLOC", {"caching", "guard"})); }
Fallback fallback() { return static_cast<Fallback>(choice("TILEWRIGHT_FALLBACK", {"warn", "silent", "error"})); }
DeviceMode device() { return static_cast<DeviceMode>(choice("TILEWRIGHT_DEVICE", {"auto", "force", "off"})); }
bool gdb() { return choice("TILEWRIGHT_GDB", {"0", "1"}) != 0; }
bool perf() { return choice("TILEWRIGHT_PERF", {"0", "1"}) != 0; }
std::optional<std::string> compiler() { return switchText("TILEWRIGHT_COMPILER"); }
std::optional<std::string> cpu() { return switchText("TILEWRIGHT_CPU"); }
std::optional<std::string> dump() { return switchText("TILEWRIGHT_DUMP"); }
unsigned threads() { return static_cast<unsigned>(integer("TILEWRIGHT_THREADS", 1, 1024).value_or(0)); }

int debugLevel() {
  int level = cachedDebugLevel.load(std::memory_order_relaxed);
  if (level < 0) {
    level = static_cast<int>(integer("TILEWRIGHT_DEBUG", 0, 4).value_or(0));
    cachedDebugLevel.store(level, std::memory_order_relaxed);
  }
  return level;
}

bool check() {
  int value = cachedCheck.load(std::memory_order_relaxed);
  if (value < 0) {
    value = static_cast<int>(choice("TILEWRIGHT_CHECK", {"0", "1"}));
    cachedCheck.store(value, std::memory_order_relaxed);
  }
  return value != 0;
}

std::optional<std::string> cache() {
  if (auto text = switchText("TILEWRIGHT_CACHE"))
    return *text == "off" ? std::nullopt : text;
  if (const char *xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg == '/')
    return std::string(xdg) + "/tilewright";
  if (const char *home = std::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.cache/tilewright";
  return std::nullopt; // no home: nothing outlives the process
}

MemoryLimit memoryLimit() {
  constexpr const char *name = "TILEWRIGHT_MEMORY_LIMIT";
  auto text = switchText(name);
  if (!text)
    return {};
  double value = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value, std::chars_format::fixed);
  std::string_view unit(end, static_cast<size_t>(text->data() + text->size() - end));
  if (error != std::errc() || !std::isfinite(value) || value <= 0)
    reject(name, *text);
  if (unit == "%") {
    if (value > 100)
      reject(name, *text);
    return {0, value};
  }
  double scale = unit.empty() ? 1 : unit == "K" ? 0x1p10 : unit == "M" ? 0x1p20 : unit == "G" ? 0x1p30 : 0;
  double bytes = std::floor(value * scale);
  if (bytes < 1 || bytes > 0x1p62)
    reject(name, *text);
  return {static_cast<size_t>(bytes), 0};
}

} // namespace switches
} // namespace tilewright
