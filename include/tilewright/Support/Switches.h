//===- Switches.h - the environment variables of the project -----*- C++ -*-===//
//
// The only C++ module that reads the environment. Every switch stands once in the table of Switches.cpp (name, values,
// default, meaning), from which docs/switches.md is written. A value that a switch does not know is an error that names
// the switch, the value and the values that would do; it is never ignored.
//
// A value is read when it is asked for, except debugLevel() and check(), which are cheap enough for every launch: they
// keep their value until setSwitch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

struct Switch {
  const char *name;         // "TILEWRIGHT_THREADS"
  const char *values;       // what may be written, for documentation and messages
  const char *defaultValue; // in words where it is computed
  const char *meaning;
};

/// All switches, sorted by name.
std::span<const Switch> allSwitches();
/// The table as Markdown: the contents of docs/switches.md.
std::string switchesMarkdown();
/// Names in the environment that begin with TILEWRIGHT_ and are no switch: likely misspelt.
std::vector<std::string> unknownSwitches();

/// The text of a switch: what setSwitch gave, else the environment; nothing if neither is there or the text is empty.
/// Throws std::logic_error for a name that is not in the table.
std::optional<std::string> switchText(std::string_view name);
/// Overrides the environment in this process (nothing: back to the environment). For tests and for Python's
/// tilewright.switches. What was already derived from the old value (the pool's size, the allocator) stays.
void setSwitch(std::string_view name, std::optional<std::string> value);

/// Typed values. All throw std::invalid_argument for a value the switch does not know.
namespace switches {

enum class AllocatorKind : uint8_t { Caching, Guard };
enum class Fallback : uint8_t { Warn, Silent, Error };
enum class DeviceMode : uint8_t { Auto, Force, Off };

/// TILEWRIGHT_MEMORY_LIMIT: bytes, or a share of the memory this process may use.
struct MemoryLimit {
  size_t bytes = 0;      // 0: see percent
  double percent = 75.0; // of physical memory or the cgroup's limit, whichever is less
};

AllocatorKind alloc();                 // TILEWRIGHT_ALLOC
std::optional<std::string> cache();    // TILEWRIGHT_CACHE: the directory, resolved; nothing if switched off
bool check();                          // TILEWRIGHT_CHECK
std::optional<std::string> compiler(); // TILEWRIGHT_COMPILER: path of the compiler library, if forced
std::optional<std::string> cpu();      // TILEWRIGHT_CPU: the text; Runtime/Cpu.h checks it against the machine
int debugLevel();                      // TILEWRIGHT_DEBUG: 0..4
DeviceMode device();                   // TILEWRIGHT_DEVICE
std::optional<std::string> dump();     // TILEWRIGHT_DUMP: a directory
Fallback fallback();                   // TILEWRIGHT_FALLBACK
bool gdb();                            // TILEWRIGHT_GDB
MemoryLimit memoryLimit();             // TILEWRIGHT_MEMORY_LIMIT
bool perf();                           // TILEWRIGHT_PERF
unsigned threads();                    // TILEWRIGHT_THREADS; 0: not set

} // namespace switches
} // namespace tilewright
