//===- Symbols.cpp - what emitted code may call ------------------------------------------------------------------===//

#include "Codegen.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Object/ELFObjectFile.h"

namespace tilewright::host {

/// A part of the table of Runtime/ObjectLoader.h: what this target's own lowerings call. Functions of f32 are missing:
/// they would be a lowering that was forgotten.
llvm::ArrayRef<llvm::StringRef> allowedSymbols() {
  static const llvm::StringRef names[] = {"memset", "memcpy", "memmove", "exp",    "exp2", "expm1", "log",   "log2",
                                          "log10",  "log1p",  "pow",     "sin",    "cos",  "tan",   "asin",  "acos",
                                          "atan",   "atan2",  "sinh",    "cosh",   "tanh", "asinh", "acosh", "atanh",
                                          "erf",    "erfc",   "lgamma",  "tgamma", "cbrt", "fmod"};
  return names;
}

llvm::Error checkUndefinedSymbols(llvm::ArrayRef<uint8_t> object) {
  llvm::StringRef bytes(reinterpret_cast<const char *>(object.data()), object.size());
  auto file = llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, "kernel"));
  if (!file)
    return file.takeError();
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined) || (*flags & llvm::object::SymbolRef::SF_FormatSpecific))
      continue;
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    if (!name->empty() && !llvm::is_contained(allowedSymbols(), *name))
      return llvm::createStringError(
          "compiled code would call '" + *name +
          "', which is not in the runtime's table of symbols: the host target lacks a lowering of its own "
          "for what became this call");
  }
  return llvm::Error::success();
}

} // namespace tilewright::host
