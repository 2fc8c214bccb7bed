//===- Python.h - which Python runs the model, and running it ------*- C++ -*-===//
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::cli {

struct PythonChoice {
  std::filesystem::path executable;
  std::string why; // "--python", "$VIRTUAL_ENV", ".venv", "beside this command", "PATH"
};

/// The first of: `wanted` (--python), $VIRTUAL_ENV, .venv in the working directory or above this command, the Python
/// beside this command (a wheel's scripts folder), python3 on PATH. Nothing if there is none. Throws
/// std::invalid_argument if `wanted` cannot be run.
std::optional<PythonChoice> findPython(const std::string &wanted);

/// Versions of installed packages by normalised name ("torch" -> "2.13.0+cpu"), read from the names of .dist-info
/// folders, without starting Python. Empty if the folder of packages is not where it usually is.
std::map<std::string, std::string> installedPackages(const std::filesystem::path &python);

/// The folder to put before PYTHONPATH so that this build's package is found; empty for an installed command.
std::filesystem::path packageFolder();

/// How a process ended.
struct Outcome {
  int exitCode = 0;
  int signal = 0; // the signal that ended it; 0: it ended by itself
};

/// Runs `python arguments...` with this process's streams and waits. `environment` is set besides ours.
/// Throws std::runtime_error if it cannot be started.
Outcome runPython(const std::filesystem::path &python, const std::vector<std::string> &arguments,
                  const std::map<std::string, std::string> &environment);

} // namespace tilewright::cli
