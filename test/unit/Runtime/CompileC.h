//===- CompileC.h - objects for tests, from C --------------------*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/KernelContext.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace tilewright::test {

/// A folder that is gone with the object.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tilewright-test-XXXXXX").string();
    if (!mkdtemp(pattern.data()))
      throw std::runtime_error("mkdtemp failed");
    path = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

inline std::vector<uint8_t> readFile(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The relocatable object that clang makes of C source, which sees the kernel ABI's context.
inline std::vector<uint8_t> compileC(const std::string &source, const std::string &flags = "-fPIC") {
  TemporaryDirectory folder;
  std::ofstream(folder.path / "kernel.c") << R"(
#include <stddef.h>
#include <stdint.h>
typedef struct { void *scratch; int64_t errorCode, errorIndex, errorBound, thread; } Context;
#define KERNEL(name) int64_t name(void *const *buffers, const int64_t *ints, int64_t begin, int64_t end, Context *context)
)" << source;
  std::string command = "clang-19 -O2 -fno-math-errno -c " + flags + " -o " + (folder.path / "kernel.o").string() +
                        " " + (folder.path / "kernel.c").string();
  if (std::system(command.c_str()) != 0)
    throw std::runtime_error("clang-19 failed on:\n" + source);
  return readFile(folder.path / "kernel.o");
}

} // namespace tilewright::test
