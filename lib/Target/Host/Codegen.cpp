//===- Codegen.cpp - LLVM dialect to an ELF object ---------------------------------------------------------------===//

#include "Codegen.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/GVN.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Cloning.h"

#include <ctime>

namespace tilewright::host {

static double now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

PhaseTimer::PhaseTimer(ObjectCode &code, const char *name)
    : code(code), name(name), start(now(CLOCK_MONOTONIC)), cpuStart(now(CLOCK_THREAD_CPUTIME_ID)) {}

PhaseTimer::~PhaseTimer() {
  code.phases.push_back({name, now(CLOCK_MONOTONIC) - start, now(CLOCK_THREAD_CPUTIME_ID) - cpuStart});
}

static void prepare(llvm::Module &module, llvm::StringRef symbol, const llvm::TargetMachine &machine,
                    const HostTarget &target) {
  module.setTargetTriple(machine.getTargetTriple().str());
  module.setDataLayout(machine.createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  for (llvm::Function &function : module) {
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (function.isDeclaration())
      continue;
    // Calls of libm must not be taken for what LLVM knows of them: it would turn pow(x, 0.5) into a call of sqrt, or
    // narrow a call to its float form, and these are not in Runtime's table.
    function.addFnAttr("no-builtins");
    function.addFnAttr("target-cpu", target.cpu);
    if (!target.features.empty())
      function.addFnAttr("target-features", target.features);
    // The default for x86-64-v4 is 256: LLVM fears the lower clock of Skylake's first AVX-512.
    function.addFnAttr("prefer-vector-width", std::to_string(target.vectorBits));
    if (function.getName() != symbol)
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
}

/// A short pipeline of our own. Tiles are vectors already, so that vectorisers have nothing to do; the unroller spills
/// the accumulators of micro-kernels (measured: half the speed). What is left to win is common subexpressions (masks,
/// addresses), invariant code and branches. A second InstCombine before the loop passes changed no instruction of
/// softmax, GELU or layer norm and took 1 ms of 19.
static void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::LoopPassManager loopPasses;
  loopPasses.addPass(llvm::LoopRotatePass());
  loopPasses.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loopPasses), /*UseMemorySSA=*/true));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager all;
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  all.run(module, modules);
}

static llvm::Error emit(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType kind,
                        llvm::SmallVectorImpl<char> &bytes) {
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, kind, /*DisableVerify=*/true))
    return llvm::createStringError("LLVM's X86 back end cannot write this kind of file");
  passes.run(module);
  return llvm::Error::success();
}

llvm::Error generateObject(mlir::ModuleOp module, llvm::StringRef symbol, const HostTarget &target,
                           const DumpOptions &options, ObjectCode &code) {
  llvm::raw_ostream &out = options.out ? *options.out : llvm::errs();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> ir;
  std::unique_ptr<llvm::TargetMachine> machine = target.createTargetMachine();
  {
    PhaseTimer timer(code, "llvm-ir");
    ir = mlir::translateModuleToLLVMIR(module, context, symbol);
    if (!ir)
      return llvm::createStringError("the LLVM dialect of kernel " + symbol + " does not translate to LLVM IR");
    prepare(*ir, symbol, *machine, target);
  }
  {
    PhaseTimer timer(code, "optimise");
    optimise(*ir, *machine);
  }
  if (options.debug >= 3)
    out << "; ---- LLVM IR of " << symbol << " for " << target.level << "\n" << *ir;
  if (options.assembly || options.debug >= 4) {
    llvm::SmallString<0> text;
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*ir);
    if (llvm::Error error = emit(*copy, *machine, llvm::CodeGenFileType::AssemblyFile, text))
      return error;
    if (options.debug >= 4)
      out << text;
    code.assembly = std::string(text);
  }
  PhaseTimer timer(code, "codegen");
  llvm::SmallVector<char, 0> bytes;
  if (llvm::Error error = emit(*ir, *machine, llvm::CodeGenFileType::ObjectFile, bytes))
    return error;
  code.bytes.assign(bytes.begin(), bytes.end());
  code.symbol = symbol.str();
  return checkUndefinedSymbols(code.bytes);
}

} // namespace tilewright::host
