//===- Pipeline.cpp - the compiler, read from top to bottom ----------------===//

#include "tilewright/Compiler/Pipeline.h"

#include "Assemble.h"
#include "Plan.h"

#include "tilewright/Import/Importer.h"
#include "tilewright/Import/KernelImporter.h"
#include "tilewright/Target/Host/TileTarget.h"
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

nlohmann::json describe(const std::vector<loop::Input> &inputs) {
  auto texts = [](const std::vector<SizeExpr> &sizes) {
    nlohmann::json list = nlohmann::json::array();
    for (const SizeExpr &size : sizes)
      list.push_back(size.str());
    return list;
  };
  nlohmann::json list = nlohmann::json::array();
  for (const loop::Input &input : inputs)
    list.push_back({{"name", input.name}, {"sizes", texts(input.sizes)}, {"strides", texts(input.strides)}});
  return list;
}

nlohmann::json describe(const std::vector<PlannedStep> &steps, const std::vector<KernelOutcome> &kernels) {
  nlohmann::json list = nlohmann::json::array();
  std::set<const KernelCode *> listed;
  for (size_t i = 0; i < steps.size(); ++i) {
    const PlannedStep &step = steps[i];
    nlohmann::json entry;
    nlohmann::json ops = nlohmann::json::array();
    for (const Nest &nest : step.group->members)
      ops.push_back(nest.op);
    entry["ops"] = ops;
    entry["source"] = step.group->members.front().source;
    if (step.isExternal()) {
      entry["island"] = step.group->members.front().op;
      entry["reason"] = step.group->members.front().reason;
    } else {
      const KernelOutcome &kernel = kernels[i];
      entry["kernel"] = kernel.code->name;
      entry["flops"] = step.launch.flops.str();
      entry["bytes"] = step.launch.bytesMoved.str();
      static constexpr const char *roles[] = {"plain", "packs", "packed", "unpacked"};
      entry["role"] = roles[step.role];
      entry["grid"] = step.launch.grid.str();
      if (step.attached)
        entry["spared"] = step.spared.str();
      if (!step.structure.empty())
        entry["structure"] = step.structure;
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

std::unique_ptr<Plan> makePlan(std::string_view text, const CompileOptions &options,
                               const std::function<void(const char *)> &mark) {
  show(options, 5, "graph", std::string(text));
  auto plan = std::make_unique<Plan>();
  Module &module = plan->module;
  plan->isKernel = kernel::Program::recognises(text);
  if (plan->isKernel) {
    kernel::Program program = kernel::Program::parse(text);
    mark("parse");
    importer::KernelModule imported = importer::importKernel(program);
    module = std::move(imported.module);
    plan->structured = imported.structuredBecause;
  } else {
    graph::Graph graph = graph::Graph::parse(text);
    mark("parse");
    importer::ImportOptions importOptions;
    importOptions.islands = options.islands;
    module = importer::importGraph(graph, importOptions);
  }
  mark("import");
  show(options, 3, "nests", module.str());

  lowerAttention(module);
  plan->fused = fuse(module);
  mark("fuse");
  show(options, 2, "fusion", lines(plan->fused.decisions));
  if (options.debug >= 3 || !options.dump.empty()) {
    std::string groups;
    for (const Group &group : plan->fused.groups)
      groups += str(group);
    show(options, 3, "groups", groups);
  }

  plan->target = host::tileTarget(options.level, options.threads);
  plan->target.streaming = plan->isKernel;
  plan->steps = planSteps(module, plan->fused.groups, plan->target);
  mark("plan");
  return plan;
}

CompileResult compileGraph(std::string_view text, const CompileOptions &options) {
  Stopwatch watch;
  CompileResult result;
  std::unique_ptr<Plan> plan = makePlan(text, options, [&](const char *phase) { watch.mark(phase); });
  const std::vector<PlannedStep> &steps = plan->steps;
  if (plan->isKernel)
    result.report["structured"] = plan->structured;
  std::vector<KernelOutcome> kernels = provideKernels(steps, options);
  watch.mark("kernels");

  result.program = assemble(plan->module, steps, kernels, options.level);
  watch.mark("assemble");
  size_t built = 0;
  for (const KernelOutcome &kernel : kernels)
    built += kernel.built;
  result.report["version"] = 1;
  result.report["phases"] = watch.phases;
  result.report["inputs"] = describe(plan->module.inputs);
  result.report["steps"] = describe(steps, kernels);
  result.report["decisions"] = plan->fused.decisions;
  result.report["kernels"] = {{"built", built}, {"used", result.program.kernels.size()}};
  nlohmann::json islands = nlohmann::json::array();
  for (const PlannedStep &step : steps)
    if (step.isExternal()) {
      const Nest &nest = step.group->members.front();
      islands.push_back({{"op", nest.op}, {"reason", nest.reason}, {"source", nest.source}});
    }
  result.report["islands"] = islands;
  return result;
}

} // namespace tilewright::compiler
