//===- Assemble.cpp -------------------------------------------------------===//

#include "Assemble.h"

#include "tilewright/Import/Importer.h"
#include "tilewright/Transforms/Domain.h"

#include <map>
#include <set>
#include <unordered_map>

namespace tilewright::compiler {

using namespace loop;

namespace {

class Assembler {
public:
  Assembler(const Module &module, const std::vector<PlannedStep> &steps, const std::vector<KernelOutcome> &kernels)
      : module(module), steps(steps), kernels(kernels) {}

  Program run(const std::string &level) {
    program.name = module.name;
    program.target = level;
    program.symbolCount = module.symbolCount;
    addInputs();
    bindSymbols();
    addChecks();
    addOutputs();
    for (size_t i = 0; i < steps.size(); ++i)
      if (steps[i].isExternal())
        addExternal(steps[i]);
      else
        addKernel(steps[i], kernels[i].code);
    return std::move(program);
  }

private:
  const Module &module;
  const std::vector<PlannedStep> &steps;
  const std::vector<KernelOutcome> &kernels;
  Program program;
  std::map<BufferId, uint32_t> bufferIndex; // module's to program's
  std::map<BufferId, uint32_t> outputOf;
  struct AttachedTo {
    uint32_t input;
    SizeExpr spared;
  };
  std::map<BufferId, AttachedTo> attached; // panels
  std::unordered_map<const KernelCode *, uint32_t> kernelIndex;

  void addInputs() {
    std::set<BufferId> written;
    for (const PlannedStep &step : steps)
      for (const Nest &nest : step.group->members)
        for (BufferId b : writesOf(nest))
          written.insert(b);
    for (const Input &input : module.inputs) {
      InputSpec spec;
      spec.kind = input.kind == Input::Tensor ? InputSpec::Tensor
                  : input.kind == Input::Int  ? InputSpec::ScalarInt
                                              : InputSpec::ScalarFloat;
      spec.dtype = input.dtype;
      spec.sizes = input.sizes;
      spec.strides = input.strides;
      spec.name = input.name;
      spec.mutated = input.kind == Input::Tensor && written.count(input.buffer);
      program.inputs.push_back(std::move(spec));
    }
    for (const PlannedStep &step : steps)
      if (step.attached && step.role == PlannedStep::Packs)
        for (uint32_t i = 0; i < module.inputs.size(); ++i)
          if (module.inputs[i].kind == Input::Tensor && module.inputs[i].buffer == step.arguments.buffers[0])
            attached[step.panels] = {i, step.spared};
  }

  void bindSymbols() {
    for (uint32_t s = 0; s < module.symbolCount; ++s) {
      SizeExpr symbol = SizeExpr::symbol(s);
      std::optional<SymbolBinding> binding;
      auto look = [&](const std::vector<SizeExpr> &list, SymbolBinding::Kind kind, uint32_t input) {
        for (uint32_t d = 0; d < list.size() && !binding; ++d)
          if (list[d] == symbol)
            binding = SymbolBinding{kind, input, d};
      };
      for (uint32_t i = 0; i < module.inputs.size() && !binding; ++i)
        if (module.inputs[i].kind == Input::Int && module.inputs[i].symbol == int(s))
          binding = SymbolBinding{SymbolBinding::ScalarInput, i, 0};
      for (uint32_t i = 0; i < module.inputs.size() && !binding; ++i)
        look(module.inputs[i].sizes, SymbolBinding::InputSize, i);
      for (uint32_t i = 0; i < module.inputs.size() && !binding; ++i)
        look(module.inputs[i].strides, SymbolBinding::InputStride, i);
      if (!binding)
        throw importer::ImportError("invalid", "", "",
                                    "symbol s" + std::to_string(s) + " is no input's size, stride or value",
                                    "give the symbol as an input of kind \"int\"");
      program.symbols.push_back(*binding);
    }
  }

  void addChecks() {
    static constexpr SizeCheck::Op ops[] = {SizeCheck::Equal, SizeCheck::NotEqual, SizeCheck::LessEqual,
                                            SizeCheck::Less};
    for (const Check &check : module.checks)
      program.checks.push_back({ops[check.op], check.lhs, check.rhs, check.message});
  }

  void addOutputs() {
    for (uint32_t i = 0; i < module.outputs.size(); ++i) {
      const Output &output = module.outputs[i];
      OutputSpec spec;
      if (output.present) {
        const Tensor &t = output.tensor;
        spec.dtype = t.dtype;
        spec.sizes = t.sizes;
        spec.strides = t.strides;
        spec.offset = t.offset;
        const Buffer &buffer = module.buffers[t.buffer];
        if (buffer.kind == Buffer::Input) {
          spec.kind = OutputSpec::AliasOfInput;
          spec.input = buffer.input;
        } else {
          outputOf[t.buffer] = i;
        }
      } else {
        spec.sizes = {SizeExpr(0)}; // nobody reads it: an empty tensor
        spec.strides = {SizeExpr(1)};
      }
      program.outputs.push_back(std::move(spec));
    }
  }

  /// The program's buffer, used by the step that is being added.
  uint32_t buffer(BufferId id) {
    uint32_t step = program.steps.size();
    auto [it, fresh] = bufferIndex.try_emplace(id, program.buffers.size());
    if (!fresh) {
      program.buffers[it->second].lastStep = step;
      return it->second;
    }
    const Buffer &from = module.buffers[id];
    BufferSpec spec;
    spec.bytes = from.elements * int64_t(sizeOf(from.dtype));
    spec.firstStep = spec.lastStep = step;
    if (from.kind == Buffer::Input) {
      spec.kind = BufferSpec::Input;
      spec.index = from.input;
    } else if (from.kind == Buffer::Constant) {
      spec.kind = BufferSpec::Constant;
      spec.index = program.constants.size();
      program.constants.push_back({from.constant});
    } else if (auto output = outputOf.find(id); output != outputOf.end()) {
      spec.kind = BufferSpec::Output;
      spec.index = output->second;
    } else if (auto input = attached.find(id); input != attached.end()) {
      spec.kind = BufferSpec::Attached;
      spec.attachedTo = input->second.input;
      spec.spared = input->second.spared;
    } else {
      spec.kind = BufferSpec::Temp;
    }
    program.buffers.push_back(std::move(spec));
    return it->second;
  }

  void addKernel(const PlannedStep &planned, const std::shared_ptr<const KernelCode> &code) {
    auto [it, fresh] = kernelIndex.try_emplace(code.get(), program.kernels.size());
    if (fresh)
      program.kernels.push_back(*code);
    KernelStep step;
    step.kernel = it->second;
    for (BufferId id : planned.arguments.buffers) {
      step.buffers.push_back(buffer(id));
    }
    step.offsets = planned.arguments.byteOffsets;
    step.offsets.resize(step.buffers.size());
    step.ints = planned.arguments.ints;
    step.grid = planned.launch.grid;
    step.grain = planned.launch.grain;
    step.scratchBytes = planned.launch.scratchBytes;
    step.bytesMoved = planned.launch.bytesMoved;
    step.flops = planned.launch.flops;
    step.source = planned.group->members.front().source;
    for (unsigned site : planned.arguments.sites) {
      const ErrorSite &from = module.sites[site];
      step.errorSites.push_back({from.op, from.source, from.message, from.kind});
    }
    if (planned.attached) {
      step.role = KernelStep::Role(planned.role);
      step.attachedBuffer = buffer(planned.panels);
    }
    program.steps.emplace_back(std::move(step));
  }

  TensorView view(const Tensor &t) {
    return {buffer(t.buffer), t.offset * int64_t(sizeOf(t.dtype)), t.dtype, t.sizes, t.strides};
  }

  void addExternal(const PlannedStep &planned) {
    const Nest &nest = planned.group->members.front();
    ExternalStep step;
    step.function = nest.function;
    step.payload = nest.payload;
    step.ints = nest.externalInts;
    step.op = nest.op;
    step.reason = nest.reason;
    step.source = nest.source;
    for (const Tensor &t : nest.externalInputs)
      step.inputs.push_back(view(t));
    for (const Tensor &t : nest.externalOutputs)
      step.outputs.push_back(view(t));
    program.steps.emplace_back(std::move(step));
  }
};

} // namespace

Program assemble(const Module &module, const std::vector<PlannedStep> &steps, const std::vector<KernelOutcome> &kernels,
                 const std::string &level) {
  return Assembler(module, steps, kernels).run(level);
}

} // namespace tilewright::compiler
