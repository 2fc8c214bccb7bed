//===- ObjectLoader.h - machine code without a linker ------------*- C++ -*-===//
//
// Maps an x86-64 ELF *relocatable* object, as LLVM emits it for position-independent code of the small code model, and
// makes it executable. What it does not know it refuses by name:
//
//   sections     executable and read-only ones, and `.data.rel.ro*`. Writable data, zero-initialised data, thread-local
//                data and initialisers are refused: kernels keep no state. Unwind tables are left out (no exception
//                crosses a kernel; debuggers read them from the object, see TILEWRIGHT_GDB).
//   relocations  R_X86_64_{NONE, 64, PC64, PC32, PLT32, GOTPCREL, GOTPCRELX, REX_GOTPCRELX}
//   symbols      the object's own, and the functions of `externalSymbols()`
//
// Memory is written before it is made executable and never both (W^X). Objects of equal contents are loaded once per
// process.
//
// Why not dlopen: it needs a linker in the process and a file per kernel. Why not ORC: it is LLVM, and this library
// must run saved programs without it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/KernelContext.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tilewright {

/// Mapped code; unmapped when the last owner is gone.
class LoadedObject {
public:
  virtual ~LoadedObject() = default;
  /// Address of a function that the object defines. Throws std::runtime_error with its name if there is none.
  virtual KernelFunction function(const std::string &symbol) const = 0;
  /// The executable part.
  virtual std::span<const uint8_t> code() const = 0;
};

/// Loads an object, or finds the loaded one of equal contents. `name` is for messages, profiles and debuggers. Throws
/// std::runtime_error that names the object and what is refused. Thread-safe.
std::shared_ptr<const LoadedObject> loadObject(std::span<const uint8_t> object, const std::string &name);

/// A function that emitted code may call: the mem* functions that LLVM makes of loops, and libm's functions for what is
/// too rare for code of our own. Rounding (floor, ceil, rint, ...), fma and conversions are missing on purpose: LLVM
/// turns these into calls, one per element, where the CPU level lacks the instruction, and that must be noticed.
struct ExternalSymbol {
  std::string_view name;
  const void *address;
};
/// Sorted by name.
std::span<const ExternalSymbol> externalSymbols();

} // namespace tilewright
