//===- EmitMode.cpp - compile a kernel to the end ----------------------------------------------------------------===//

#include "EmitMode.h"

#include "tilewright/Target/Host/HostTarget.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace llvm;

namespace tilewright {

int emitMain(int argc, char **argv) {
  InitLLVM init(argc, argv);
  // MLIR registers no options of its own before it is asked to; these live as long as this function.
  cl::opt<std::string> emit("emit", cl::desc("asm, object or time"), cl::init("asm"));
  cl::opt<std::string> input(cl::Positional, cl::desc("input file"), cl::init("-"));
  cl::opt<std::string> output("o", cl::desc("output file"), cl::init("-"));
  cl::opt<std::string> level("level", cl::desc("CPU level"), cl::init("avx512"));
  cl::opt<int> debug("debug-level", cl::desc("3: IR after each pass; 4: assembly too"), cl::init(0));
  cl::ParseCommandLineOptions(argc, argv, "Compiles one tile.kernel\n");

  const host::HostTarget *target = host::HostTarget::find(level);
  if (!target) {
    errs() << "no CPU level '" << level << "': x86-64, avx2, avx512 or avx512bf16\n";
    return 1;
  }
  // "time" compiles several times and keeps the shortest of each phase: others' work on the machine only adds.
  host::ObjectCode code;
  std::vector<host::Phase> best;
  for (int turn = 0; turn < (emit == "time" ? 30 : 1); ++turn) {
    host::PooledContext context;
    auto module = mlir::parseSourceFile<mlir::ModuleOp>(input, context.get());
    if (!module)
      return 1;
    host::DumpOptions options;
    options.debug = debug;
    options.assembly = emit == "asm";
    Expected<host::ObjectCode> compiled = host::compileKernel(*module, *target, options);
    if (!compiled) {
      errs() << "error: " << toString(compiled.takeError()) << "\n";
      return 1;
    }
    code = std::move(*compiled);
    if (best.empty())
      best = code.phases;
    for (auto [shortest, phase] : zip(best, code.phases))
      shortest.cpuSeconds = std::min(shortest.cpuSeconds, phase.cpuSeconds);
  }
  std::error_code failed;
  ToolOutputFile file(output, failed, sys::fs::OF_None);
  if (failed) {
    errs() << "cannot write " << output << ": " << failed.message() << "\n";
    return 1;
  }
  if (emit == "time") {
    for (const host::Phase &phase : best)
      file.os() << phase.name << " " << format("%.2f", phase.cpuSeconds * 1e3) << " ms\n";
    file.os() << "object " << code.bytes.size() << " bytes\n";
  } else if (emit == "asm") {
    file.os() << code.assembly;
  } else {
    file.os().write(reinterpret_cast<const char *>(code.bytes.data()), code.bytes.size());
  }
  file.keep();
  return 0;
}

} // namespace tilewright
