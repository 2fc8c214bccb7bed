//===- Kernel.cpp - tilewright kernel show FILE.py:NAME --------------------------===//
//
// Which Python and which arguments; what needs the kernel is done by `python -m tilewright.language.show`.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Python.h"

#include <cstdlib>
#include <memory>

namespace tilewright::cli {

void addKernel(CLI::App &app, Run &run) {
  struct Options {
    std::string spec, stage = "explain", python;
    std::vector<std::string> dtypes, constants;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand("kernel", "Tile kernels (docs/language.md).");
  command->require_subcommand(1);
  CLI::App *show = command->add_subcommand("show", "Shows what a kernel becomes: tiles, loops, code.");
  show->add_option("SPEC", options->spec, "path/to/file.py:name or package.module:name")->required();
  show->add_option("--stage", options->stage,
                   "explain (default), program, nests, fusion, groups, structure, tile, a pass, passes, or asm");
  show->add_option("--dtype", options->dtypes, "X=bf16: the dtype of a parameter that leaves it open; f32 by default");
  show->add_option("--const", options->constants, "causal=True: the value of a compile-time constant");
  show->add_option("--python", options->python, "The Python to use: a program or an environment's folder");
  show->callback([options, &run] {
    run = [options] {
      std::optional<PythonChoice> python = findPython(options->python);
      if (!python) {
        printError("no Python was found", "", "Activate an environment with Tilewright, or give --python");
        return static_cast<int>(Environment);
      }
      std::vector<std::string> arguments = {"-m", "tilewright.language.show", options->spec, options->stage};
      for (const std::string &dtype : options->dtypes)
        arguments.insert(arguments.end(), {"--dtype", dtype});
      for (const std::string &constant : options->constants)
        arguments.insert(arguments.end(), {"--const", constant});
      std::map<std::string, std::string> environment;
      if (std::filesystem::path folder = packageFolder(); !folder.empty()) {
        const char *existing = std::getenv("PYTHONPATH");
        environment["PYTHONPATH"] = folder.string() + (existing && *existing ? std::string(":") + existing : "");
      }
      Outcome outcome = runPython(python->executable, arguments, environment);
      return outcome.signal ? static_cast<int>(Crash) : outcome.exitCode;
    };
  });
}

} // namespace tilewright::cli
