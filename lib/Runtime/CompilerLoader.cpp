//===- CompilerLoader.cpp - opens the compiler when it is needed ----------===//
#include "tilewright/Runtime/CompilerLoader.h"

#include "FlatJson.h"
#include "tilewright/Compiler/CompilerApi.h"
#include "tilewright/Compiler/CompilerVersion.h" // made by the build
#include "tilewright/Runtime/Cpu.h"
#include "tilewright/Runtime/ThreadPool.h"
#include "tilewright/Support/Switches.h"

#include <atomic>
#include <dlfcn.h>
#include <mutex>

namespace tilewright {

std::string_view compilerVersion() { return TILEWRIGHT_COMPILER_VERSION; }

static std::string describe(const std::string &kind, const std::string &op, const std::string &source,
                            const std::string &message, const std::string &hint) {
  std::string text = op.empty() ? message : op + ": " + message;
  if (kind == "internal")
    text = "internal error of the compiler: " + text;
  if (!source.empty())
    text += "\n  at " + source;
  if (!hint.empty())
    text += "\n  " + hint;
  return text;
}

CompileError::CompileError(std::string kind, std::string op, std::string source, std::string message, std::string hint)
    : std::runtime_error(describe(kind, op, source, message, hint)), kind(std::move(kind)), op(std::move(op)),
      source(std::move(source)), message(std::move(message)), hint(std::move(hint)) {}

CompileOptions CompileOptions::current() {
  CompileOptions options;
  options.cpu = cpuLevel();
  options.threads = ThreadPool::instance().size();
  options.debug = switches::debugLevel();
  options.dump = switches::dump().value_or("");
  switch (switches::fallback()) {
  case switches::Fallback::Warn:
    options.fallback = "warn";
    break;
  case switches::Fallback::Silent:
    options.fallback = "silent";
    break;
  case switches::Fallback::Error:
    options.fallback = "error";
    break;
  }
  return options;
}

std::string CompileOptions::json() const {
  return "{\"cpu\": " + quoteJson(cpu) + ", \"threads\": " + std::to_string(threads) +
         ", \"debug\": " + std::to_string(debug) + ", \"dump\": " + quoteJson(dump) +
         ", \"fallback\": " + quoteJson(fallback) + "}";
}

namespace {

std::atomic<bool> loaded{false};

/// Beside the library that holds this function, so that a wheel and a build folder both work.
std::string libraryPath() {
  if (auto path = switches::compiler())
    return *path;
  Dl_info info;
  if (!dladdr(reinterpret_cast<const void *>(&compilerVersion), &info) || !info.dli_fname)
    throw std::runtime_error("cannot find where the Tilewright runtime library is; set TILEWRIGHT_COMPILER to the path "
                             "of libtilewright_compiler.so");
  std::string self = info.dli_fname;
  size_t slash = self.rfind('/');
  return (slash == std::string::npos ? std::string() : self.substr(0, slash + 1)) + "libtilewright_compiler.so";
}

class LibraryCompiler final : public Compiler {
public:
  CompileResult compile(std::string_view graph, std::string_view options) override {
    open();
    tw_buffer program{}, report{}, error{};
    int status =
        compileEntry.load()(graph.data(), graph.size(), options.data(), options.size(), &program, &report, &error);
    CompileResult result;
    std::string text = take(program);
    result.program.assign(text.begin(), text.end());
    result.report = take(report);
    check(status, error);
    return result;
  }

  std::string verify(std::string_view program, std::string_view options, std::span<const void *const> arguments,
                     std::span<const void *const> expected) {
    open();
    auto entry = reinterpret_cast<decltype(&tw_compiler_verify)>(dlsym(library, "tw_compiler_verify"));
    if (!entry)
      throw std::runtime_error("the compiler library " + path + " lacks the function tw_compiler_verify");
    tw_buffer report{}, error{};
    int status = entry(program.data(), program.size(), options.data(), options.size(), arguments.data(),
                       expected.data(), &report, &error);
    std::string text = take(report);
    check(status, error);
    return text;
  }

private:
  std::string take(tw_buffer &buffer) {
    std::string text(reinterpret_cast<const char *>(buffer.data), buffer.size);
    freeEntry(&buffer);
    return text;
  }

  void check(int status, tw_buffer &error) {
    std::string text = take(error);
    if (status == 0)
      return;
    auto members = parseFlatJson(text);
    if (!members)
      throw CompileError("internal", "", "", "the compiler failed and said: " + text, "");
    auto &m = *members;
    throw CompileError(m["kind"], m["op"], m["source"], m["message"], m["hint"]);
  }

  void open() {
    if (compileEntry.load())
      return;
    std::lock_guard lock(mutex);
    if (compileEntry.load())
      return;
    path = libraryPath();
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *reason = dlerror();
      throw std::runtime_error("cannot open the compiler: " + std::string(reason ? reason : path) +
                               "; install Tilewright anew, or set TILEWRIGHT_COMPILER to the library's path");
    }
    auto abi = reinterpret_cast<decltype(&tw_compiler_abi)>(symbol(library, path, "tw_compiler_abi"))();
    if (abi != TW_COMPILER_ABI)
      refuse(library, path,
             "has ABI " + std::to_string(abi) + ", this runtime needs " + std::to_string(TW_COMPILER_ABI));
    // Another version would fill the cache with programs under this version's name.
    std::string version =
        reinterpret_cast<decltype(&tw_compiler_version)>(symbol(library, path, "tw_compiler_version"))();
    if (version != compilerVersion())
      refuse(library, path,
             "is version " + version + ", this runtime was built with " + std::string(compilerVersion()));
    freeEntry = reinterpret_cast<decltype(freeEntry)>(symbol(library, path, "tw_compiler_free"));
    auto entry = reinterpret_cast<decltype(&tw_compiler_compile)>(symbol(library, path, "tw_compiler_compile"));
    loaded.store(true, std::memory_order_relaxed);
    compileEntry = entry; // last: it says that all is there
  }

  [[noreturn]] static void refuse(void *library, const std::string &path, const std::string &what) {
    dlclose(library);
    throw std::runtime_error("the compiler library " + path + " " + what + "; build or install both together");
  }

  static void *symbol(void *library, const std::string &path, const char *name) {
    if (void *address = dlsym(library, name))
      return address;
    refuse(library, path, std::string("lacks the function ") + name);
  }

  std::mutex mutex;
  std::string path; // of the library, and its handle
  void *library = nullptr;
  std::atomic<decltype(&tw_compiler_compile)> compileEntry{nullptr};
  decltype(&tw_compiler_free) freeEntry = nullptr;
};

} // namespace

static LibraryCompiler &libraryCompiler() {
  static auto *compiler = new LibraryCompiler; // never unloaded: code of other threads may run in it at exit
  return *compiler;
}

Compiler &nativeCompiler() { return libraryCompiler(); }

std::string verifyKernel(std::string_view program, std::string_view options, std::span<const void *const> arguments,
                         std::span<const void *const> expected) {
  return libraryCompiler().verify(program, options, arguments, expected);
}

bool compilerIsLoaded() { return loaded.load(std::memory_order_relaxed); }

} // namespace tilewright
