//===- Pipeline.cpp - the compiler, read from top to bottom ----------------===//

#include "tilewright/Compiler/Pipeline.h"

#include "Assemble.h"

#include "tilewright/Import/Importer.h"
#include "tilewright/Transforms/Domain.h"
#include "tilewright/Transforms/Fusion.h"

#include <chrono>
#include <filesystem>
#include <fstream>

namespace tilewright::compiler {

using namespace loop;

namespace {

/// Seconds by phase, in order.
class Stopwatch {
public:
  void mark(const char *phase) {
    auto now = std::chrono::steady_clock::now();
    phases.push_back({{"phase", phase}, {"seconds", std::chrono::duration<double>(now - last).count()}});
    last = now;
  }
  nlohmann::json phases = nlohmann::json::array();

private:
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

void show(const CompileOptions &options, int level, const char *step, const std::string &text) {
  if (options.debug >= level)
    llvm::errs() << "// ----- " << step << " -----\n" << text << "\n";
  if (options.dump.empty())
    return;
  std::error_code ignored; // the file below says it
  std::filesystem::create_directories(options.dump, ignored);
  std::ofstream out(std::filesystem::path(options.dump) / (std::string(step) + ".txt"));
  out << text;
  if (!out)
    llvm::errs() << "tilewright: TILEWRIGHT_DUMP: cannot write " << options.dump << "/" << step << ".txt\n";
}

std::string lines(const std::vector<std::string> &list) {
  std::string text;
  for (const std::string &line : list)
    text += line + "\n";
  return text;
}

/// Turns groups into steps and asks for kernels.
class StepPlanner {
public:
  StepPlanner(Module &module, std::vector<Group> &groups, const CompileOptions &options) : module(module) {
    const host::HostTarget &host = host::HostTarget::get(options.level);
    target.lanes = host.lanes(DType::F32);
    target.threads = options.threads;
    target.matrix = *host::MatrixTarget::forLevel(options.level);
    for (Group &group : groups)
      for (const Nest &nest : group.members)
        for (BufferId b : writesOf(nest))
          written.insert(b);
    for (Group &group : groups)
      plan(group);
  }

  std::vector<PlannedStep> steps;
  std::vector<KernelRequest> requests;

private:
  Module &module;
  TileTarget target;
  std::set<BufferId> written;

  void request(const Group &group, const KernelKey &key, const std::string &prefix, const LaunchPlan &launch, decltype(KernelRequest::emit) emit,
               int64_t packs = -1) {
    const Nest &first = group.members.front();
    requests.push_back({key.text(), prefix + kernelName(group), first.op, first.source, std::move(emit)});
    steps.push_back({int(requests.size()) - 1, key.arguments(), launch, &group, packs});
  }

  void plan(Group &group) {
    switch (group.kind) {
    case Group::Loops: {
      LoopPlan loops = planLoops(module.pool, group);
      KernelKey key(group, module);
      request(group, key, "", launchOf(group, loops, module, target),
              [&group, loops, key, target = target](mlir::MLIRContext &context, llvm::StringRef symbol) {
                return emitLoops(context, group, loops, key, target, symbol);
              });
      return;
    }
    case Group::Contraction: {
      ContractionPlan contraction = planContraction(module, group, target);
      const Buffer &weight = module.buffers[group.members.front().rhs.buffer];
      bool parameter = weight.kind == Buffer::Input && module.inputs[weight.input].parameter &&
                       !written.count(group.members.front().rhs.buffer);
      KernelKey pack = packKey(group, contraction);
      request(group, pack, "pack_", packLaunch(group, contraction),
              [&group, contraction, pack](mlir::MLIRContext &context, llvm::StringRef symbol) {
                return emitPack(context, group, contraction, pack, symbol);
              },
              parameter ? int64_t(contraction.panels) : -1);
      KernelKey key = contractKey(group, module, contraction);
      request(group, key, "", contractLaunch(group, contraction),
              [&group, contraction, key](mlir::MLIRContext &context, llvm::StringRef symbol) {
                return emitContract(context, group, contraction, key, symbol);
              });
      return;
    }
    case Group::External:
      steps.push_back({-1, {}, {}, &group, -1});
      return;
    case Group::Attention:
      break; // lowered before fusion
    }
    throw importer::ImportError("internal", group.members.front().op, group.members.front().source,
                                "a group of this kind has no kernel", "report it with the graph that TILEWRIGHT_DUMP writes");
  }
};

nlohmann::json describe(const std::vector<PlannedStep> &steps, const std::vector<KernelRequest> &requests,
                        const std::vector<KernelOutcome> &kernels) {
  nlohmann::json list = nlohmann::json::array();
  std::set<const KernelCode *> listed;
  for (const PlannedStep &step : steps) {
    nlohmann::json entry;
    nlohmann::json ops = nlohmann::json::array();
    for (const Nest &nest : step.group->members)
      ops.push_back(nest.op);
    entry["ops"] = ops;
    entry["source"] = step.group->members.front().source;
    if (step.request < 0) {
      entry["island"] = step.group->members.front().op;
      entry["reason"] = step.group->members.front().reason;
    } else {
      const KernelOutcome &kernel = kernels[step.request];
      entry["kernel"] = kernel.code->name;
      entry["flops"] = step.launch.flops.str();
      entry["bytes"] = step.launch.bytesMoved.str();
      entry["pack"] = requests[step.request].key.starts_with("pack ");
      if (kernel.built && listed.insert(kernel.code.get()).second) {
        entry["built_s"] = kernel.seconds;
        for (const host::Phase &phase : kernel.phases)
          entry["phases"][phase.name] = phase.seconds;
      }
    }
    list.push_back(std::move(entry));
  }
  return list;
}

} // namespace

CompileResult compileGraph(std::string_view text, const CompileOptions &options) {
  Stopwatch watch;
  show(options, 5, "graph", std::string(text));
  graph::Graph graph = graph::Graph::parse(text);
  watch.mark("parse");

  importer::ImportOptions importOptions;
  importOptions.islands = options.islands;
  Module module = importer::importGraph(graph, importOptions);
  watch.mark("import");
  show(options, 3, "nests", module.str());

  lowerAttention(module);
  separateOutputs(module);
  FusionResult fused = fuse(module);
  watch.mark("fuse");
  show(options, 2, "fusion", lines(fused.decisions));
  if (options.debug >= 3 || !options.dump.empty()) {
    std::string groups;
    for (const Group &group : fused.groups)
      groups += str(group);
    show(options, 3, "groups", groups);
  }

  StepPlanner planner(module, fused.groups, options);
  watch.mark("plan");
  std::vector<KernelOutcome> kernels = provideKernels(planner.requests, options);
  watch.mark("kernels");

  CompileResult result;
  result.program = assemble(module, planner.steps, kernels, options.level);
  watch.mark("assemble");
  size_t built = 0;
  for (const KernelOutcome &kernel : kernels)
    built += kernel.built;
  result.report["version"] = 1;
  result.report["phases"] = watch.phases;
  result.report["steps"] = describe(planner.steps, planner.requests, kernels);
  result.report["decisions"] = fused.decisions;
  result.report["kernels"] = {{"built", built}, {"used", result.program.kernels.size()}};
  nlohmann::json islands = nlohmann::json::array();
  for (const PlannedStep &step : planner.steps)
    if (step.request < 0) {
      const Nest &nest = step.group->members.front();
      islands.push_back({{"op", nest.op}, {"reason", nest.reason}, {"source", nest.source}});
    }
  result.report["islands"] = islands;
  return result;
}

} // namespace tilewright::compiler
