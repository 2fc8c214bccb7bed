//===- Commands.h - the subcommands of `tilewright` ----------------*- C++ -*-===//
//
// One file a subcommand. Each registers itself with the parser and leaves in `run` what is to be done once the
// arguments are read, so that nothing happens while they are being parsed.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace tilewright::cli {

/// What the command ends with. docs/bringup.md explains each; python/tilewright/bringup/failure.py has the same
/// numbers.
enum ExitCode : int {
  Success = 0,
  Internal = 1,     // a fault of Tilewright
  Usage = 2,        // wrong arguments
  Environment = 10, // no Python, no PyTorch or another version of it, no device
  Crash = 21,       // the process that ran the model died
  Interrupted = 130,
};

/// The chosen subcommand; gives the exit code.
using Run = std::function<int()>;

void addBringup(CLI::App &app, Run &run);
void addEnv(CLI::App &app, Run &run);
void addKernel(CLI::App &app, Run &run);

/// "tilewright: error: WHAT (WHERE). WHAT TO DO", the one line that every failure gives.
void printError(const std::string &what, const std::string &where, const std::string &whatToDo);

} // namespace tilewright::cli
