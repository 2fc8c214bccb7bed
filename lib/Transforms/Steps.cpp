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
           decltype(PlannedStep::emit) emit) {
    PlannedStep step;
    step.group = &group;
    step.key = key.text();
    step.name = prefix + kernelName(group);
    step.emit = std::move(emit);
    step.arguments = key.arguments();
    step.launch = launch;
    steps.push_back(std::move(step));
  }

  void plan(Group &group) {
    switch (group.kind) {
    case Group::Loops: {
      LoopPlan loops = planLoops(module.pool, group);
      KernelKey key(group, module);
      LaunchPlan launch = launchOf(group, loops, target);
      if (target.streaming && mayStream(group, loops)) {
        loops.streamed = launch.bytesMoved;
        key.addText(" streamed");
        key.addSize(launch.bytesMoved);
      }
      add(group, key, "", launch,
          [&group, loops, key, target = target](mlir::MLIRContext &context, llvm::StringRef symbol) {
            return emitLoops(context, group, loops, key, target, symbol);
          });
      return;
    }
    case Group::Contraction:
      planProduct(group);
      return;
    case Group::External:
      steps.emplace_back().group = &group;
      return;
    case Group::Attention:
      planFusedAttention(group);
      return;
    case Group::Kernel:
      planStructured(group);
      return;
    }
  }

  void planFusedAttention(Group &group) {
    const Nest &nest = group.members.front();
    const Tensor &q = nest.operands[0], &k = nest.operands[1], &v = nest.operands[2];
    const Tensor *mask = nest.operands.size() > 3 ? &nest.operands[3] : nullptr;
    auto strides = [](const Tensor &t) {
      std::array<SizeExpr, 4> result;
      for (int d = 0; d < 4; ++d)
        result[d] = t.sizes[d].isConstant(1) ? SizeExpr(0) : t.strides[d];
      return result;
    };
    auto contiguous = [](const Tensor &t) { return t.strides[3].isConstant(1); };
    host::AttentionKind kind;
    if (mask) {
      kind.mask = mask->dtype == DType::Bool ? host::AttentionKind::Boolean : host::AttentionKind::Additive;
      kind.maskContiguous = contiguous(*mask) && !mask->sizes[3].isConstant(1);
    }
    kind.outContiguous = contiguous(nest.result);
    kind.causal = nest.causal;
    kind.scale = nest.scale;
    host::AttentionSizes sizes{q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2], q.sizes[3],          v.sizes[3],
                               strides(q), strides(k), strides(v), {},         strides(nest.result)};
    if (mask)
      sizes.mask = strides(*mask);
    host::AttentionLaunch plan = host::planAttention(kind, sizes, target.matrix, target.threads);

    PlannedStep step;
    step.group = &group;
    step.key = kind.key();
    step.name = "attention";
    step.emit = [kind, &target = target](mlir::MLIRContext &context, llvm::StringRef symbol) {
      return target.buildAttention(context, kind, symbol);
    };
    auto add = [&](const Tensor &t) {
      step.arguments.buffers.push_back(t.buffer);
      step.arguments.bufferTypes.push_back(t.dtype);
      step.arguments.byteOffsets.push_back(t.offset * int64_t(sizeOf(t.dtype)));
    };
    for (const Tensor &t : nest.operands)
      add(t);
    add(nest.result);
    step.arguments.ints = std::move(plan.ints);
    step.launch = {plan.grid, plan.grain, plan.scratchBytes, plan.bytesMoved, plan.flops};
    steps.push_back(std::move(step));
  }

  void planStructured(Group &group) {
    const Nest &nest = group.members.front();
    std::shared_ptr<const KernelPlan> plan =
        nest.inside ? planKernel(*nest.inside, nest.inside->nests.front(), target) : planKernel(module, nest, target);
    KernelArguments arguments = argumentsOf(*plan);
    LaunchPlan launch = launchOf(*plan);
    if (nest.inside)
      bringOut(nest, arguments, launch);
    PlannedStep step;
    step.group = &group;
    step.key = keyOf(*plan);
    step.name = kernelName(group);
    step.emit = [plan](mlir::MLIRContext &context, llvm::StringRef symbol) {
      return emitKernel(context, *plan, symbol);
    };
    step.arguments = std::move(arguments);
    step.launch = std::move(launch);
    step.structure = str(*plan);
    steps.push_back(std::move(step));
  }

  /// What a kernel's own module calls its arguments, in the graph's words.
  void bringOut(const Nest &nest, KernelArguments &arguments, LaunchPlan &launch) {
    arguments.buffers.clear();
    for (const Tensor &t : nest.externalInputs) {
      arguments.buffers.push_back(t.buffer);
      arguments.byteOffsets.push_back(t.offset * int64_t(sizeOf(t.dtype)));
    }
    for (SizeExpr &value : arguments.ints)
      value = value.substitute(nest.externalInts);
    for (SizeExpr *value : {&launch.grid, &launch.grain, &launch.scratchBytes, &launch.bytesMoved, &launch.flops})
      *value = value->substitute(nest.externalInts);
    for (unsigned &site : arguments.sites) {
      module.sites.push_back(nest.inside->sites[site]);
      site = module.sites.size() - 1;
    }
  }

  void planProduct(Group &group) {
    ContractionPlan contraction = planContraction(module, group, target);
    BufferId operand = group.members.front().rhs.buffer;
    const Buffer &weight = module.buffers[operand];
    bool parameter = weight.kind == Buffer::Input && module.inputs[weight.input].parameter && !written.count(operand);
    std::optional<UnpackedProduct> unpacked = planUnpacked(module, group, contraction);
    SizeExpr pays = unpacked ? unpacked->pays : 0;
    if (!parameter) // known with the sizes, where a parameter's panels may be there
      module.buffers[contraction.panels].elements = module.buffers[contraction.panels].elements * (1 - pays);
    auto part = [&](PlannedStep::Role role) {
      PlannedStep &step = steps.back();
      step.role = role;
      step.attached = parameter;
      if (parameter) {
        step.panels = contraction.panels;
        step.spared = pays;
      } else {
        step.launch.grid = step.launch.grid * (role == PlannedStep::Unpacked ? pays : 1 - pays);
      }
    };
    if (!pays.isConstant(1) || parameter) {
      KernelKey pack = packKey(group, contraction);
      add(group, pack, "pack_", packLaunch(group, contraction),
          [&group, contraction, pack](mlir::MLIRContext &context, llvm::StringRef symbol) {
            return emitPack(context, group, contraction, pack, symbol);
          });
      part(PlannedStep::Packs);
      KernelKey key = contractKey(group, module, contraction);
      add(group, key, "", contractLaunch(group, contraction),
          [&group, contraction, key](mlir::MLIRContext &context, llvm::StringRef symbol) {
            return emitContract(context, group, contraction, key, symbol);
          });
      part(PlannedStep::Packed);
    }
    if (unpacked) {
      LoopPlan loops = planLoops(module.pool, *unpacked->group);
      KernelKey key(*unpacked->group, module);
      add(*unpacked->group, key, "unpacked_", launchOf(*unpacked->group, loops, target),
          [group = unpacked->group, loops, key, &target = target](mlir::MLIRContext &context, llvm::StringRef symbol) {
            return emitLoops(context, *group, loops, key, target, symbol);
          });
      part(PlannedStep::Unpacked);
    }
  }
};

} // namespace

std::vector<PlannedStep> planSteps(Module &module, std::vector<Group> &groups, const TileTarget &target) {
  return StepPlanner(module, groups, target).steps;
}

} // namespace tilewright::loop
