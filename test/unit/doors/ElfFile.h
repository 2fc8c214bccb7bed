//===- ElfFile.h - what a built library asks for and offers -----------------------------------------*- C++ -*-===//
#pragma once

#include <set>
#include <string>

namespace tilewright::test {

/// The dynamic section and dynamic symbols of a 64-bit little-endian ELF file.
struct ElfFile {
  std::set<std::string> needed;    // DT_NEEDED
  std::set<std::string> undefined; // mangled names of dynamic symbols without a definition
  std::set<std::string> exported;  // mangled names of defined dynamic symbols with global or weak binding

  /// Throws std::runtime_error if `path` is not such a file.
  static ElfFile read(const std::string &path);
};

} // namespace tilewright::test
