//===- Pipeline.h - the compiler, from a graph description to a Program -*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/Program.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace tilewright::compiler {

struct CompileOptions {
  std::string level = "x86-64"; // CPU level
  unsigned threads = 1;         // that will run the program: a hint for block sizes
  int debug = 0;                // 2: fusion decisions, 3: IR after each step, 4: assembly
  std::string dump;             // directory for graph, nests, groups and kernels; empty: none
  bool islands = true;          // false: an operator without native code is an error
};

struct CompileResult {
  Program program;
  nlohmann::json report; // see docs/compile-report.md
};

/// Throws importer::ImportError (kind, operator, source line, hint), graph::FormatError. Thread-safe.
CompileResult compileGraph(std::string_view graph, const CompileOptions &options);

} // namespace tilewright::compiler
