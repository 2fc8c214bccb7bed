//===- LoadedProgram.cpp - a program with its code and constants ----------===//
#include "LoadedProgram.h"

#include "../ProgramValidate.h"
#include "ArenaPlan.h"
#include "tilewright/Runtime/Cpu.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace tilewright {

static void checkTarget(const Program &program) {
  if (program.kernels.empty())
    return;
  std::optional<CpuLevel> needed = cpuLevelFromName(program.target);
  if (!needed)
    throw std::runtime_error("program \"" + program.name + "\" is for the unknown target \"" + program.target + "\"");
  if (*needed > processCpuLevel())
    throw std::runtime_error("program \"" + program.name + "\" needs a CPU of level " + program.target +
                             ", this process runs at " + cpuLevel() + "; compile it again here");
}

static ExternalFunction resolve(const Program &program, const ExternalStep &step) {
  if (ExternalFunction function = findExternalFunction(step.function))
    return function;
  throw std::runtime_error("program \"" + program.name + "\" calls the function " + step.function + " for " + step.op +
                           (step.reason.empty() ? "" : " (" + step.reason + ")") +
                           ", which nobody in this process provides" +
                           (step.function.starts_with("torch.") ? "; it needs PyTorch: import tilewright first" : ""));
}

LoadedProgram::LoadedProgram(Program given) : program(std::move(given)) {
  validate(program);
  checkTarget(program);
  for (const KernelCode &kernel : program.kernels) {
    objects.push_back(loadObject(kernel.object, kernel.name));
    kernelDigests.push_back(digestOf(kernel.object.data(), kernel.object.size()));
  }
  for (const InputSpec &input : program.inputs)
    inputs.push_back({sizes.add(input.sizes), sizes.add(input.strides)});
  for (const OutputSpec &output : program.outputs)
    outputs.push_back({sizes.add(output.sizes), sizes.add(output.strides), sizes.add(output.offset)});
  for (const BufferSpec &buffer : program.buffers)
    bufferBytes.push_back(sizes.add(buffer.bytes)), bufferSpared.push_back(sizes.add(buffer.spared));

  prologues.resize(program.buffers.size());
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (const auto *spec = std::get_if<KernelStep>(&program.steps[i])) {
      LoadedKernelStep step;
      step.spec = spec;
      step.code = &program.kernels[spec->kernel];
      step.function = objects[spec->kernel]->function(step.code->symbol);
      step.offsets = sizes.add(spec->offsets);
      step.ints = sizes.add(spec->ints);
      step.grid = sizes.add(spec->grid);
      step.grain = sizes.add(spec->grain);
      step.scratch = sizes.add(spec->scratchBytes);
      step.bytes = sizes.add(spec->bytesMoved);
      step.flops = sizes.add(spec->flops);
      if (spec->role == KernelStep::Packs)
        prologues[spec->attachedBuffer].push_back(i);
      steps.emplace_back(std::move(step));
    } else {
      const auto &call = std::get<ExternalStep>(program.steps[i]);
      LoadedExternalStep step;
      step.spec = &call;
      step.function = resolve(program, call);
      auto load = [&](const std::vector<TensorView> &views, std::vector<LoadedView> &out) {
        for (const TensorView &view : views)
          out.push_back({&view, sizes.add(view.offset), sizes.add(view.sizes), sizes.add(view.strides)});
      };
      load(call.inputs, step.inputs);
      load(call.outputs, step.outputs);
      step.ints = sizes.add(call.ints);
      steps.emplace_back(std::move(step));
      hasExternalSteps = true;
    }
  }

  for (const ConstantSpec &constant : program.constants) {
    size_t bytes = (constant.bytes.size() + kArenaAlignment) / kArenaAlignment * kArenaAlignment;
    void *memory = std::aligned_alloc(kArenaAlignment, bytes);
    if (!memory)
      throw std::bad_alloc();
    constants.push_back(memory);
    std::memcpy(memory, constant.bytes.data(), constant.bytes.size());
  }
}

LoadedProgram::~LoadedProgram() {
  for (void *memory : constants)
    std::free(memory);
}

} // namespace tilewright
