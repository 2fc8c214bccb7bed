//===- CodeRegistry.h - which code lies where --------------------*- C++ -*-===//
//
// Loaded objects by address, for the fault handler, perf and debuggers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tilewright {

struct CodeRegion; // one registration

/// Makes a loaded object known: to the fault handler always, to perf and to debuggers if TILEWRIGHT_PERF and
/// TILEWRIGHT_GDB ask. `object` is the ELF file with each loaded section's address filled in (only read for debuggers).
CodeRegion *registerCode(const std::string &name, std::span<const uint8_t> code, std::span<const uint8_t> object);
void unregisterCode(CodeRegion *region);

/// What a thread is running, for the fault handler. Strings outlive the scope.
class RunningKernel {
public:
  RunningKernel(const char *program, const char *kernel, const char *source);
  ~RunningKernel();
  RunningKernel(const RunningKernel &) = delete;
  RunningKernel &operator=(const RunningKernel &) = delete;

  const char *program, *kernel, *source;

private:
  const RunningKernel *outer;
};

/// Before the first registration, with no lock held (Fork.h). Installs a handler of SIGSEGV, SIGBUS, SIGILL and SIGFPE
/// that says which kernel was running if the fault is in compiled code, and hands the signal on to the handler before
/// it. Installed once, at the first load, if TILEWRIGHT_DEBUG >= 1, TILEWRIGHT_ALLOC=guard, TILEWRIGHT_PERF or
/// TILEWRIGHT_GDB is set: a library changes no handlers unasked.
void prepareCodeRegistry();

} // namespace tilewright
