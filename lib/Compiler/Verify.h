//===- Verify.h - a kernel program, run after every pass ----------*- C++ -*-===//
#pragma once

#include "tilewright/Compiler/Pipeline.h"

namespace tilewright::compiler {

/// What a kernel program is verified with, beside CompileOptions.
struct VerifyRequest {
  struct Argument {
    const void *data = nullptr;          // a tensor's first element
    const void *expected = nullptr;      // memory of the same layout after a right run, of tensors that are written
    std::vector<int64_t> sizes, strides; // in elements
    int64_t integer = 0;                 // scalars
    double number = 0;
  };
  std::vector<Argument> arguments; // in the program's order
  bool machine = true;             // run the machine code too; false where the CPU lacks the level
  /// For tests: the constant or comparison of this number is changed after this pass ("tile": as emitted).
  std::string faultAfter;
  unsigned faultNumber = 0;
};

/// Runs the program on copies of the arguments: as emitted, which must give what is expected; then every step after
/// each of its passes, which must give what the stage before gave; then as machine code. Stops at the first difference.
/// The report (docs/kernel-programs.md, "Verification") has the stages that were run and the difference, or null.
/// Throws as compileGraph does, and std::runtime_error for an operation that the interpreter does not know.
nlohmann::json verifyKernel(std::string_view program, const CompileOptions &options, const VerifyRequest &request);

} // namespace tilewright::compiler
