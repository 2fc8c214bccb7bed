//===- Env.cpp - tilewright env: the machine as Tilewright sees it ---------------===//

#include "Commands.h"
#include "Probe.h"

#include <cstdio>
#include <memory>

namespace tilewright::cli {

void addEnv(CLI::App &app, Run &run) {
  struct Options {
    std::string python;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand("env", "Shows the machine, the Python and the switches that would be used.");
  command->add_option("--python", options->python, "The Python to look at: a program or an environment's folder");
  command->add_flag("--json", options->json, "As JSON");
  command->callback([options, &run] {
    run = [options] {
      Probe found = probe(options->python);
      std::fputs((options->json ? asJson(found) + "\n" : asText(found)).c_str(), stdout);
      return static_cast<int>(Success);
    };
  });
}

} // namespace tilewright::cli
