//===- Lower.cpp - from a tile.kernel to an object, top to bottom ------------------------------------------------===//

#include "tilewright/Target/Host/Lowering.h"

#include "Codegen.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tilewright::host {

namespace {

/// Runs steps, keeps their times, and prints and verifies after each if asked.
class Steps {
public:
  Steps(ModuleOp module, const DumpOptions &options) : module(module), options(options) {}

  LogicalResult operator()(const char *name, llvm::function_ref<LogicalResult()> step) {
    if (failed(step()))
      return failure();
    if (options.after)
      options.after(name, module);
    if (options.debug < 3)
      return success();
    llvm::raw_ostream &out = options.out ? *options.out : llvm::errs();
    out << "// ---- after " << name << "\n" << module << "\n";
    return verify(module);
  }

private:
  ModuleOp module;
  const DumpOptions &options;
};

} // namespace

static LogicalResult lower(ModuleOp module, tile::KernelOp kernel, const HostTarget &target,
                           const DumpOptions &options) {
  Steps step(module, options);
  return success(succeeded(step("tile-peel-tails", [&] { return peelTails(kernel), success(); })) &&
                 succeeded(step("tile-unroll", [&] { return unrollTiles(kernel); })) &&
                 succeeded(step("tile-to-vector", [&] { return tileToVector(kernel, target); })) &&
                 succeeded(step("tile-lower-contract", [&] { return lowerContract(kernel, target); })) &&
                 succeeded(step("tile-lower-grid", [&] { return lowerGrid(kernel); })) &&
                 succeeded(step("expand-math", [&] { return expandMath(module, target); })) &&
                 succeeded(step("tile-to-llvm", [&] { return convertToLlvm(module); })));
}

/// A diagnostic with its notes as text.
static void append(std::string &text, Diagnostic &diagnostic) {
  llvm::raw_string_ostream stream(text);
  if (!text.empty())
    stream << "\n";
  if (!isa<UnknownLoc>(diagnostic.getLocation()))
    stream << diagnostic.getLocation() << ": ";
  stream << diagnostic;
}

llvm::Expected<ObjectCode> compileKernel(ModuleOp module, const HostTarget &target, const DumpOptions &options) {
  std::string problems;
  ScopedDiagnosticHandler collect(module.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      append(problems, diagnostic);
    return success();
  });
  auto refuse = [&](const char *otherwise) {
    return llvm::createStringError(problems.empty() ? otherwise : problems.c_str());
  };

  auto kernels = llvm::to_vector(module.getOps<tile::KernelOp>());
  if (kernels.size() != 1)
    return llvm::createStringError("a module for the host target has one tile.kernel, this one has " +
                                   llvm::Twine(kernels.size()));
  ObjectCode code;
  std::string symbol = kernels.front().getSymName().str();
  {
    PhaseTimer timer(code, "lower");
    if (failed(verify(module)) || failed(lower(module, kernels.front(), target, options)))
      return refuse("the kernel cannot be lowered, and no operation said why");
  }
  if (llvm::Error error = generateObject(module, symbol, target, options, code)) {
    if (problems.empty())
      return std::move(error);
    llvm::consumeError(std::move(error));
    return refuse("");
  }
  return code;
}

} // namespace tilewright::host
