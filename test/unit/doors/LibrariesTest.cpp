//===- LibrariesTest.cpp - what the built libraries need ----------------------------------------------------------===//
//
// The doors of docs/architecture.md, read from the ELF files: CMake's link dependencies are meant to keep them, this
// shows that they did.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "doors/ElfFile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>

using namespace tilewright::test;
using testing::IsEmpty;

namespace {

// What every C++ program on Linux needs. Sanitizer builds add their run-time library.
const std::regex systemLibraries(
    "(libstdc\\+\\+|libm|libgcc_s|libc|libpthread|libdl|librt|ld-linux-x86-64|libclang_rt\\..*)\\.so.*");

/// Symbols of others that a room must not use, by their (mangled) names.
const std::regex mlirOrLlvm("(_Z(T[VTIS])?N[KVRO]*4(llvm|mlir)|LLVM[A-Z]|mlir[A-Z]).*");
const std::regex torchOrPython("(_Z(T[VTIS])?N[KVRO]*(2at|3c10|5torch|8pybind11|8nanobind)|_?Py[A-Z_]).*");

std::set<std::string> matching(const std::set<std::string> &names, const std::regex &pattern) {
  std::set<std::string> found;
  for (const std::string &name : names)
    if (std::regex_match(name, pattern))
      found.insert(name);
  return found;
}

/// The libraries that `file` needs beyond the system's and those of ours that are named.
std::set<std::string> foreign(const ElfFile &file, const std::set<std::string> &ours) {
  std::set<std::string> found;
  for (const std::string &name : file.needed)
    if (!std::regex_match(name, systemLibraries) && !ours.contains(name))
      found.insert(name);
  return found;
}

TEST(ElfFile, RefusesWhatIsNoElfFile) { EXPECT_THROW(ElfFile::read("/dev/null"), std::runtime_error); }

TEST(ElfFile, ReadsThisTest) {
  ElfFile file = ElfFile::read("/proc/self/exe");
  EXPECT_TRUE(file.needed.contains("libc.so.6"));
  EXPECT_FALSE(file.undefined.empty());
}

TEST(Doors, PatternsKnowForeignSymbols) {
  std::set<std::string> symbols = {"_ZN4llvm11raw_ostream5writeEPKcm",
                                   "_ZNK4mlir5Value4dumpEv",
                                   "_ZTVN4llvm5ErrorE",
                                   "LLVMInitializeX86Target",
                                   "_ZN2at6Tensor5cloneEv",
                                   "_ZN3c105ErrorC1Ev",
                                   "PyObject_Call",
                                   "_Py_Dealloc",
                                   "malloc",
                                   "_ZNSt6vectorIiSaIiEED2Ev"};
  EXPECT_EQ(matching(symbols, mlirOrLlvm).size(), 4u);
  EXPECT_EQ(matching(symbols, torchOrPython).size(), 4u);
}

#ifdef TILEWRIGHT_RUNTIME
TEST(Doors, RuntimeNeedsNeitherMlirNorTorchNorPython) {
  ElfFile file = ElfFile::read(TILEWRIGHT_RUNTIME);
  EXPECT_THAT(foreign(file, {}), IsEmpty());
  EXPECT_THAT(matching(file.undefined, mlirOrLlvm), IsEmpty());
  EXPECT_THAT(matching(file.undefined, torchOrPython), IsEmpty());
}
#endif

#ifdef TILEWRIGHT_OPS
TEST(Doors, OpsNeedsTheRuntimeAlone) {
  ElfFile file = ElfFile::read(TILEWRIGHT_OPS);
  EXPECT_THAT(foreign(file, {"libtilewright_runtime.so"}), IsEmpty());
  EXPECT_THAT(matching(file.undefined, mlirOrLlvm), IsEmpty());
  EXPECT_THAT(matching(file.undefined, torchOrPython), IsEmpty());
}
#endif

#ifdef TILEWRIGHT_COMPILER
TEST(Doors, CompilerNeedsTheRuntimeAlone) {
  ElfFile file = ElfFile::read(TILEWRIGHT_COMPILER);
  EXPECT_THAT(foreign(file, {"libtilewright_runtime.so"}), IsEmpty());
  EXPECT_THAT(matching(file.undefined, mlirOrLlvm), IsEmpty()) << "MLIR and LLVM are linked statically";
  EXPECT_THAT(matching(file.undefined, torchOrPython), IsEmpty());
}

TEST(Doors, CompilerShowsItsCInterfaceOnly) {
  for (const std::string &name : ElfFile::read(TILEWRIGHT_COMPILER).exported)
    EXPECT_TRUE(name.starts_with("tw_compiler_")) << name;
}
#endif

#ifdef TILEWRIGHT_TOOL
TEST(Doors, ToolNeedsTheRuntimeAlone) {
  ElfFile file = ElfFile::read(TILEWRIGHT_TOOL);
  EXPECT_THAT(foreign(file, {"libtilewright_runtime.so"}), IsEmpty());
  EXPECT_THAT(matching(file.undefined, torchOrPython), IsEmpty());
}
#endif

#ifdef TILEWRIGHT_EXTENSION
TEST(Doors, ExtensionNeedsNoMlir) {
  ElfFile file = ElfFile::read(TILEWRIGHT_EXTENSION);
  EXPECT_THAT(matching(file.needed, std::regex(".*(LLVM|MLIR|compiler).*")), IsEmpty());
  EXPECT_THAT(matching(file.undefined, mlirOrLlvm), IsEmpty());
}
#endif

} // namespace
