//===- Steps.cpp ----------------------------------------------------------===//

#include "tilewright/Transforms/Steps.h"
#include "tilewright/Transforms/Domain.h"

namespace tilewright::loop {

namespace {

class StepPlanner {
public:
  StepPlanner(Module &module, std::vector<Group> &groups, const TileTarget &target) : module(module), target(target) {
    for (Group &group : groups)
      for (const Nest &nest : group.members)
        for (BufferId b : writesOf(nest))
          written.insert(b);
    for (Group &group : groups)
      plan(group);
  }

  std::vector<PlannedStep> steps;

private:
  Module &module;
  const TileTarget &target;
  std::set<BufferId> written;

  void add(const Group &group, const KernelKey &key, const std::string &prefix, const LaunchPlan &launch,
           decltype(PlannedStep::emit) emit, int64_t packs = -1) {
    steps.push_back({&group, key.text(), prefix + kernelName(group), std::move(emit), key.arguments(), launch, packs});
  }

  void plan(Group &group) {
    switch (group.kind) {
    case Group::Loops: {
      LoopPlan loops = planLoops(module.pool, group);
      KernelKey key(group, module);
      add(group, key, "", launchOf(group, loops, target),
          [&group, loops, key, target = target](mlir::MLIRContext &context, llvm::StringRef symbol) {
            return emitLoops(context, group, loops, key, target, symbol);
          });
      return;
    }
    case Group::Contraction:
      planProduct(group);
      return;
    case Group::External:
      steps.push_back({&group, "", "", nullptr, {}, {}, -1});
      return;
    case Group::Attention:
      break; // lowered before fusion
    }
    throw EmitError(group.members.front().op + ": a group of this kind has no kernel");
  }

  void planProduct(Group &group) {
    ContractionPlan contraction = planContraction(module, group, target);
    BufferId operand = group.members.front().rhs.buffer;
    const Buffer &weight = module.buffers[operand];
    bool parameter = weight.kind == Buffer::Input && module.inputs[weight.input].parameter && !written.count(operand);
    KernelKey pack = packKey(group, contraction);
    add(group, pack, "pack_", packLaunch(group, contraction),
        [&group, contraction, pack](mlir::MLIRContext &context, llvm::StringRef symbol) {
          return emitPack(context, group, contraction, pack, symbol);
        },
        parameter ? int64_t(contraction.panels) : -1);
    KernelKey key = contractKey(group, module, contraction);
    add(group, key, "", contractLaunch(group, contraction),
        [&group, contraction, key](mlir::MLIRContext &context, llvm::StringRef symbol) {
          return emitContract(context, group, contraction, key, symbol);
        });
  }
};

} // namespace

std::vector<PlannedStep> planSteps(Module &module, std::vector<Group> &groups, const TileTarget &target) {
  return StepPlanner(module, groups, target).steps;
}

TileTarget tileTarget(llvm::StringRef level, unsigned threads) {
  auto matrix = host::MatrixTarget::forLevel(std::string_view(level));
  if (!matrix)
    throw EmitError("unknown CPU level " + level.str());
  return {matrix->vectorBytes / 4, threads, *matrix};
}

} // namespace tilewright::loop
