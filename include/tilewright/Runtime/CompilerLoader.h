//===- CompilerLoader.h - opens the compiler when it is needed ---*- C++ -*-===//
//
// libtilewright_compiler.so holds MLIR and LLVM: some 100 MB that a process whose programs are all cached never maps.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// The compiler refused a graph. what() is a whole message: operator, source line, what is wrong, what to do.
class CompileError : public std::runtime_error {
public:
  CompileError(std::string kind, std::string op, std::string source, std::string message, std::string hint);

  const std::string
      kind; // "unsupported": PyTorch could run it; "invalid": it has no meaning; "internal": a fault of ours
  const std::string op, source, message, hint; // empty where unknown
};

struct CompileResult {
  std::vector<uint8_t> program; // Program::serialize
  std::string report;           // JSON, docs/compile-report.md
};

/// Options as the compiler takes them (Compiler/CompilerApi.h).
struct CompileOptions {
  std::string cpu;               // CPU level
  unsigned threads = 1;          // that will run the program: a hint
  int debug = 0;                 // TILEWRIGHT_DEBUG
  std::string dump;              // TILEWRIGHT_DUMP
  std::string fallback = "warn"; // TILEWRIGHT_FALLBACK: "error" refuses islands

  /// What the switches and this machine say.
  static CompileOptions current();
  std::string json() const;
};

class Compiler {
public:
  virtual ~Compiler() = default;
  /// Thread-safe. Throws CompileError; std::runtime_error if there is no compiler.
  virtual CompileResult compile(std::string_view graph, std::string_view options) = 0;
};

/// The process's compiler. The library is opened by the first compile: TILEWRIGHT_COMPILER, else beside the library
/// that this function is in. Its symbols stay its own (RTLD_LOCAL). A library of another ABI or version is refused with
/// both versions.
Compiler &nativeCompiler();

/// Runs a kernel program after every pass of the compiler (tw_compiler_verify), whose options, report and pointers
/// these are; `arguments` and `expected` have one pointer per parameter. Throws as Compiler::compile does.
std::string verifyKernel(std::string_view program, std::string_view options, std::span<const void *const> arguments,
                         std::span<const void *const> expected);

/// Whether the library has been opened.
bool compilerIsLoaded();

/// The version of the compiler that was built with this runtime; takes part in cache keys. Known without opening the
/// library: a hash of the compiler's sources that the build makes.
std::string_view compilerVersion();

} // namespace tilewright
