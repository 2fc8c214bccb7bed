//===- KernelStore.cpp ----------------------------------------------------===//

#include "KernelStore.h"

#include "tilewright/Import/Importer.h"
#include "tilewright/Support/Hash.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace tilewright::compiler {

namespace {

struct Store {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const KernelCode>> kernels; // by level + key
};

Store &store() {
  static Store instance;
  return instance;
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void dumpText(const CompileOptions &options, const std::string &name, const std::string &text) {
  std::error_code ignored; // the file below says it
  std::filesystem::create_directories(options.dump, ignored);
  std::ofstream out(std::filesystem::path(options.dump) / name);
  out << text;
  if (!out)
    llvm::errs() << "tilewright: TILEWRIGHT_DUMP: cannot write " << options.dump << "/" << name << "\n";
}

KernelOutcome build(const loop::PlannedStep &step, const CompileOptions &options) {
  const loop::Nest &first = step.group->members.front();
  auto start = std::chrono::steady_clock::now();
  const host::HostTarget &target = host::HostTarget::get(options.level);
  host::PooledContext context;
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler(context.get(), [&](mlir::Diagnostic &diagnostic) {
    if (!diagnostics.empty())
      diagnostics += "; ";
    diagnostics += diagnostic.str();
    return mlir::success();
  });
  auto fail = [&](const std::string &kind, const std::string &message,
                  const std::string &hint) -> importer::ImportError {
    return {kind, first.op, first.source, message + (diagnostics.empty() ? "" : ": " + diagnostics), hint};
  };
  uint64_t hash = hash64(options.level + '\n' + step.key);
  char suffix[24];
  std::snprintf(suffix, sizeof suffix, "_%08x", unsigned(hash >> 32));
  std::string symbol = "tw_" + step.name + suffix;

  mlir::OwningOpRef<mlir::ModuleOp> module;
  try {
    module = step.emit(*context, symbol);
  } catch (const loop::EmitError &e) {
    throw fail("unsupported", e.what(), "run the operator outside of the compiled function, or on another dtype");
  }
  if (mlir::failed(mlir::verify(*module)))
    throw fail("internal", "the kernel " + step.name + " is not valid",
               "report it with the graph that TILEWRIGHT_DUMP writes");
  if (!options.dump.empty()) {
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    dumpText(options, symbol + ".tile.mlir", text);
  }
  host::DumpOptions dump;
  dump.debug = options.debug;
  dump.assembly = !options.dump.empty();
  std::string passes;
  llvm::raw_string_ostream passText(passes);
  if (!options.dump.empty()) {
    dump.debug = std::max(dump.debug, 3);
    dump.out = &passText;
  }
  llvm::Expected<host::ObjectCode> object = host::compileKernel(*module, target, dump);
  if (!object)
    throw fail("internal", "compiling kernel " + step.name + " failed: " + llvm::toString(object.takeError()),
               "report it with the graph that TILEWRIGHT_DUMP writes");
  if (!options.dump.empty()) {
    dumpText(options, symbol + ".passes.mlir", passes);
    dumpText(options, symbol + ".s", object->assembly);
  }
  auto code = std::make_shared<KernelCode>();
  code->name = step.name + suffix;
  code->symbol = object->symbol;
  code->object = std::move(object->bytes);
  code->hash = hash64(std::string_view(reinterpret_cast<const char *>(code->object.data()), code->object.size()), hash);
  return {code, true, since(start), std::move(object->phases)};
}

} // namespace

std::vector<KernelOutcome> provideKernels(const std::vector<loop::PlannedStep> &steps, const CompileOptions &options) {
  std::vector<KernelOutcome> outcomes(steps.size());
  std::vector<size_t> missing;
  std::unordered_map<std::string, size_t> firstWithKey;
  std::vector<size_t> same(steps.size());
  {
    std::lock_guard lock(store().mutex);
    for (size_t i = 0; i < steps.size(); ++i) {
      same[i] = i;
      if (steps[i].isExternal())
        continue;
      std::string key = options.level + '\n' + steps[i].key;
      auto [it, fresh] = firstWithKey.try_emplace(key, i);
      same[i] = it->second;
      if (!fresh)
        continue;
      // What is to be dumped is made again.
      if (auto found = store().kernels.find(key); found != store().kernels.end() && options.dump.empty())
        outcomes[i].code = found->second;
      else
        missing.push_back(i);
    }
  }
  std::atomic<size_t> next{0};
  std::mutex errorMutex;
  std::exception_ptr error;
  auto work = [&] {
    for (size_t at; (at = next.fetch_add(1)) < missing.size();)
      try {
        outcomes[missing[at]] = build(steps[missing[at]], options);
      } catch (...) { // carried to the caller below
        std::lock_guard lock(errorMutex);
        if (!error)
          error = std::current_exception();
        next = missing.size();
      }
  };
  unsigned helpers = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), missing.size());
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < helpers; ++t)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  if (error)
    std::rethrow_exception(error);
  {
    std::lock_guard lock(store().mutex);
    for (size_t i : missing)
      store().kernels.try_emplace(options.level + '\n' + steps[i].key, outcomes[i].code);
  }
  for (size_t i = 0; i < steps.size(); ++i)
    if (same[i] != i)
      outcomes[i].code = outcomes[same[i]].code;
  return outcomes;
}

} // namespace tilewright::compiler
