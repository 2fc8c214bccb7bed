//===- main.cpp - the command `tilewright` ----------------------------------===//
//
// Native: it parses, probes the machine and answers within milliseconds. A Python process is started only where a model
// is run.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include <cstdio>
#include <exception>

namespace tilewright::cli {

void printError(const std::string &what, const std::string &where, const std::string &whatToDo) {
  std::string line = "tilewright: error: " + what;
  if (!where.empty())
    line += " (" + where + ")";
  if (!whatToDo.empty())
    line += ". " + whatToDo;
  std::fprintf(stderr, "%s\n", line.c_str());
}

} // namespace tilewright::cli

int main(int argc, char **argv) {
  using namespace tilewright::cli;
  CLI::App app{"Brings PyTorch models up on the device npu."};
  app.name("tilewright");
  app.set_version_flag("--version", "tilewright " TILEWRIGHT_VERSION);
  app.require_subcommand(1);
  Run run;
  addBringup(app, run);
  addEnv(app, run);
  addKernel(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // --help, --version
      return app.exit(error);
    printError(error.what(), "", "See tilewright --help and tilewright bringup --help");
    return Usage;
  }
  try {
    return run();
  } catch (const std::invalid_argument &error) { // a switch that is wrong
    printError(error.what(), "", "docs/switches.md lists the switches and their values");
    return Usage;
  } catch (const std::exception &error) {
    printError(error.what(), "", "This is a bug of Tilewright: please report it");
    return Internal;
  }
}
