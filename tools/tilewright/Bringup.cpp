//===- Bringup.cpp - tilewright bringup SPEC ------------------------------------===//
//
// The native part of bringing a model up: arguments, the machine, which Python. What needs the model is done by
// `python -m tilewright.bringup`, in a process of its own, so that a model that crashes its process still leaves a
// report.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Probe.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

namespace fs = std::filesystem;

namespace tilewright::cli {
namespace {

struct Options {
  std::string spec, out = "tilewright-report", python, memoryLimit;
  std::vector<int> batches;
  std::vector<std::string> skip;
  double tolerance = 0, seconds = 4, searchSeconds = 30;
  bool quiet = false;
};

constexpr const char *exitCodes = R"(SPEC
  package.module:factory   a function in a module that can be imported from here
  path/to/file.py:factory  a function in a file
  hf:DIRECTORY             a local folder of a transformers model
The function returns (model, inputs) or (model, inputs, batch sizes). See docs/bringup.md.

Exit codes
  0 all is well               14 unsupported dtype
  1 a bug of Tilewright       15 out of device memory
  2 wrong arguments           16 NaN or infinity in the outputs
 10 environment unfit         17 numerics beyond tolerance
 11 wrong SPEC                18 the model does not compile
 12 missing package           19 the model does not run on the CPU
 13 the factory failed        20 the model does not run on npu
                              21 the model's process crashed
report.json and report.html are written in every case, up to where it went wrong.)";

/// What Python runs. Importing the package loads PyTorch and the device: where that fails, nothing of ours runs, so the
/// message comes back in a file.
constexpr const char *bootstrap = R"(import sys, warnings
try:
    with warnings.catch_warnings():
        warnings.simplefilter('ignore') # the device's warning says what the error says
        import tilewright.bringup.__main__ as command
except ImportError as error:
    with open(sys.argv[1], 'w', encoding='utf-8') as file:
        file.write(' '.join(str(error).split()).rstrip('.'))
    sys.exit(10)
sys.exit(command.main(sys.argv[2:])))";

/// Where Python cannot write it: the report of a machine on which nothing could be started.
void writeBareReport(const Options &options, const Probe &found, const std::string &what, const std::string &whatToDo) {
  fs::create_directories(options.out);
  std::ofstream json(fs::path(options.out) / "report.json");
  json
      << "{\"schema\": {\"name\": \"tilewright.bringup\", \"version\": 1}, \"status\": \"failed\", \"spec\": "
      << jsonString(options.spec) << ", \"environment\": {\"probe\": " << asJson(found)
      << "}, \"steps\": [{\"name\": \"environment\", \"status\": \"failed\", \"seconds\": 0}], \"errors\": [{\"code\": "
      << Environment << ", \"kind\": \"environment\", \"step\": \"environment\", \"what\": " << jsonString(what)
      << ", \"where\": \"\", \"what_to_do\": " << jsonString(whatToDo) << "}], \"exit_code\": " << Environment << "}\n";
  std::ofstream html(fs::path(options.out) / "report.html");
  html
      << "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'><title>Tilewright</title>"
      << "<style>body{font:16px/1.5 sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;color-scheme:light "
         "dark}</style>"
      << "<h1>Not started</h1><p>";
  for (char c : what + ". " + whatToDo + ".")
    c == '<' ? html << "&lt;" : c == '&' ? html << "&amp;" : html << c;
  html << "</p>\n";
  if (!json || !html)
    throw std::runtime_error("cannot write to " + options.out);
}

int fail(const Options &options, const Probe &found, const std::string &what, const std::string &whatToDo) {
  writeBareReport(options, found, what, whatToDo);
  printError(what, "", whatToDo);
  return Environment;
}

std::vector<std::string> pythonArguments(const Options &options, const fs::path &probeFile,
                                         const fs::path &importError) {
  std::vector<std::string> arguments{"-c",    bootstrap,   importError, options.spec,
                                     "--out", options.out, "--probe",   probeFile};
  auto add = [&](const char *name, const std::string &value) {
    arguments.emplace_back(name);
    arguments.push_back(value);
  };
  if (!options.batches.empty())
    add("--batches", CLI::detail::join(options.batches, ","));
  if (!options.skip.empty())
    add("--skip", CLI::detail::join(options.skip, ","));
  if (options.tolerance > 0)
    add("--tolerance", std::to_string(options.tolerance));
  add("--seconds", std::to_string(options.seconds));
  add("--search-seconds", std::to_string(options.searchSeconds));
  if (options.quiet)
    arguments.emplace_back("--quiet");
  return arguments;
}

int bringup(const Options &options) {
  if (!options.memoryLimit.empty())
    setenv("TILEWRIGHT_MEMORY_LIMIT", options.memoryLimit.c_str(), 1);
  Probe found = probe(options.python);
  if (!found.python)
    return fail(options, found, "no Python was found", "Give one by --python, or activate a virtual environment");
  if (auto torch = found.packages.find("torch");
      torch != found.packages.end() && torch->second.substr(0, torch->second.find('+')) != torchVersion)
    return fail(options, found, "PyTorch is " + torch->second + ", and this Tilewright is built for " + torchVersion,
                "Install torch==" + std::string(torchVersion) + " for " + found.python->executable.string());

  fs::create_directories(options.out);
  fs::path probeFile = fs::path(options.out) / "probe.json";
  if (!(std::ofstream(probeFile) << asJson(found) << "\n"))
    throw std::runtime_error("cannot write to " + options.out);

  // PyTorch's profiler prints two lines about itself on standard error where its level allows; errors are the report's.
  std::map<std::string, std::string> environment{{"KINETO_LOG_LEVEL", "99"}};
  if (fs::path package = packageFolder(); !package.empty()) {
    const char *others = std::getenv("PYTHONPATH");
    environment["PYTHONPATH"] = package.string() + (others && *others ? std::string(":") + others : "");
  }
  fs::path importError = fs::path(options.out) / "import-error.txt";
  Outcome outcome = runPython(found.python->executable, pythonArguments(options, probeFile, importError), environment);
  if (outcome.exitCode == Environment && fs::exists(importError)) {
    std::string message;
    std::getline(std::ifstream(importError), message);
    fs::remove(importError);
    fs::remove(probeFile);
    return fail(options, found, "Tilewright does not work with " + found.python->executable.string() + ": " + message,
                "Install its wheel and torch==" + std::string(torchVersion) +
                    " there, or choose another Python by --python");
  }
  if (outcome.signal == 0) {
    fs::remove(probeFile);
    return outcome.exitCode;
  }
  // The partial report is on disk; a second process, which does not load the model, says in it how the first one ended.
  Outcome closing = runPython(
      found.python->executable,
      {"-m", "tilewright.bringup", options.spec, "--out", options.out, "--crashed", std::to_string(outcome.signal)},
      environment);
  fs::remove(probeFile);
  if (closing.signal != 0)
    throw std::runtime_error("Python ended by signal " + std::to_string(outcome.signal) +
                             ", and so did the process that was to report it");
  return closing.exitCode;
}

} // namespace

void addBringup(CLI::App &app, Run &run) {
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand("bringup", "Brings a model up on npu and writes a report.");
  command->add_option("SPEC", options->spec, "The model: package.module:factory, file.py:factory or hf:DIRECTORY")
      ->required();
  command->add_option("--out,--output", options->out, "Folder for report.json and report.html")->capture_default_str();
  command->add_option("--python", options->python,
                      "The Python that runs the model: a program or an environment's folder");
  command->add_option("--batches", options->batches, "Batch sizes to measure, e.g. 1,8,32")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--memory-limit", options->memoryLimit,
                      "Memory of the device (TILEWRIGHT_MEMORY_LIMIT), e.g. 2G or 60%");
  command
      ->add_option("--tolerance", options->tolerance,
                   "Largest error of a layer relative to its largest value; by default from the dtype")
      ->check(CLI::PositiveNumber);
  command->add_option("--seconds", options->seconds, "Time to measure each batch size")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--search-seconds", options->searchSeconds, "Time to search the largest batch")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--skip", options->skip, "Steps to leave out: numerics, coverage, memory, speed")
      ->delimiter(',')
      ->check(CLI::IsMember({"numerics", "coverage", "memory", "speed"}));
  command->add_flag("--quiet", options->quiet, "Show no progress");
  command->footer(exitCodes);
  command->callback([options, &run] { run = [options] { return bringup(*options); }; });
}

} // namespace tilewright::cli
