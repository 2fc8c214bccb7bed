//===- Python.cpp - which Python runs the model, and running it -----------------===//

#include "Python.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace tilewright::cli {
namespace {

bool canRun(const fs::path &path) {
  std::error_code missing;
  return fs::is_regular_file(path, missing) && access(path.c_str(), X_OK) == 0;
}

std::string environmentText(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

fs::path ownFolder() {
  std::error_code unknown;
  return fs::read_symlink("/proc/self/exe", unknown).parent_path();
}

std::optional<fs::path> onPath(const std::string &name) {
  std::string path = environmentText("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    fs::path candidate = fs::path(path.substr(begin, end - begin)) / name;
    if (canRun(candidate))
      return candidate;
    begin = end + 1;
  }
  return std::nullopt;
}

} // namespace

std::optional<PythonChoice> findPython(const std::string &wanted) {
  if (!wanted.empty()) {
    fs::path given = wanted;
    if (fs::is_directory(given)) // an environment's folder
      given /= "bin/python";
    else if (wanted.find('/') == std::string::npos)
      given = onPath(wanted).value_or(given);
    if (!canRun(given))
      throw std::invalid_argument("--python " + wanted + ": there is no program that can be run");
    return PythonChoice{fs::absolute(given), "--python"};
  }
  std::vector<PythonChoice> candidates;
  if (std::string active = environmentText("VIRTUAL_ENV"); !active.empty())
    candidates.push_back({fs::path(active) / "bin/python", "$VIRTUAL_ENV"});
  candidates.push_back({fs::absolute(".venv/bin/python"), ".venv"});
  for (fs::path folder = ownFolder(); folder.has_relative_path(); folder = folder.parent_path())
    candidates.push_back({folder / ".venv/bin/python", ".venv of this build"});
  candidates.push_back({ownFolder() / "python3", "beside this command"});
  if (std::optional<fs::path> found = onPath("python3"))
    candidates.push_back({*found, "PATH"});
  for (const PythonChoice &candidate : candidates)
    if (canRun(candidate.executable))
      return candidate;
  return std::nullopt;
}

std::map<std::string, std::string> installedPackages(const fs::path &python) {
  std::map<std::string, std::string> versions;
  std::error_code ignored; // a folder that cannot be read lists nothing
  for (const fs::directory_entry &version : fs::directory_iterator(python.parent_path().parent_path() / "lib", ignored))
    if (version.path().filename().string().starts_with("python3"))
      for (const char *folder : {"site-packages", "dist-packages"})
        for (const fs::directory_entry &entry : fs::directory_iterator(version.path() / folder, ignored)) {
          std::string name = entry.path().filename();
          size_t dash = name.find('-');
          if (!name.ends_with(".dist-info") || dash == std::string::npos)
            continue;
          std::string package = name.substr(0, dash);
          std::ranges::transform(package, package.begin(),
                                 [](unsigned char c) { return c == '_' ? '-' : std::tolower(c); });
          versions[package] = name.substr(dash + 1, name.size() - dash - 1 - std::strlen(".dist-info"));
        }
  return versions;
}

fs::path packageFolder() {
  fs::path folder = ownFolder().parent_path() / "python";
  return fs::exists(folder / "tilewright/__init__.py") ? folder : fs::path();
}

Outcome runPython(const fs::path &python, const std::vector<std::string> &arguments,
                  const std::map<std::string, std::string> &environment) {
  std::vector<char *> argv{const_cast<char *>(python.c_str())};
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t child = fork();
  if (child < 0)
    throw std::runtime_error(std::string("cannot start a process: ") + std::strerror(errno));
  if (child == 0) {
    for (const auto &[name, value] : environment)
      setenv(name.c_str(), value.c_str(), 1);
    execv(python.c_str(), argv.data());
    _exit(127);
  }
  // Ctrl-C goes to the whole group: the child writes its report and ends, and we wait for it.
  void (*previous)(int) = std::signal(SIGINT, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      throw std::runtime_error(std::string("cannot wait for Python: ") + std::strerror(errno));
  std::signal(SIGINT, previous);
  if (WIFSIGNALED(status))
    return {0, WTERMSIG(status)};
  if (WEXITSTATUS(status) == 127)
    throw std::runtime_error("cannot run " + python.string());
  return {WEXITSTATUS(status), 0};
}

} // namespace tilewright::cli
