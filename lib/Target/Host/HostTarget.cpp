//===- HostTarget.cpp - the CPU levels ---------------------------------------------------------------------------===//

#include "tilewright/Target/Host/HostTarget.h"

#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

namespace tilewright::host {

llvm::ArrayRef<HostTarget> HostTarget::all() {
  // bf16 adds neither VNNI nor AMX: a level promises only what Runtime's detection looks for.
  static const HostTarget levels[] = {
      {"x86-64", "x86-64", "", 128, false, false, false, false, false, false},
      {"avx2", "x86-64-v3", "", 256, true, true, true, true, false, false},
      {"avx512", "x86-64-v4", "", 512, true, true, true, true, true, false},
      {"avx512bf16", "x86-64-v4", "+avx512bf16", 512, true, true, true, true, true, true},
  };
  return levels;
}

const HostTarget *HostTarget::find(llvm::StringRef level) {
  for (const HostTarget &target : all())
    if (target.level == level)
      return &target;
  return nullptr;
}

const HostTarget &HostTarget::get(llvm::StringRef level) {
  if (const HostTarget *target = find(level))
    return *target;
  llvm::report_fatal_error("no CPU level '" + llvm::Twine(level) + "': x86-64, avx2, avx512 or avx512bf16");
}

std::unique_ptr<llvm::TargetMachine> HostTarget::createTargetMachine() const {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  const char *triple = "x86_64-unknown-linux-gnu";
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    llvm::report_fatal_error(llvm::StringRef(error));
  llvm::TargetOptions options;
  // Only fused multiply-adds that were written (math.fma): results must not depend on what the optimiser finds.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpu, features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

} // namespace tilewright::host
