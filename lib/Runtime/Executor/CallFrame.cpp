//===- CallFrame.cpp - one call of a program ------------------------------===//
#include "CallFrame.h"

#include <stdexcept>

namespace tilewright {

CallFrame::CallFrame(std::shared_ptr<const Bound> given, std::span<const Argument> arguments,
                     std::span<const OutputMemory> outputs)
    : bound(std::move(given)) {
  const Program &program = bound->owner->program;
  if (arguments.size() != program.inputs.size() || outputs.size() != program.outputs.size())
    throw std::invalid_argument(program.name + ": " + std::to_string(arguments.size()) + " arguments and " +
                                std::to_string(outputs.size()) + " outputs came, " +
                                std::to_string(program.inputs.size()) + " and " +
                                std::to_string(program.outputs.size()) + " are wanted");
  setPointers(arguments, outputs);
}

void CallFrame::setPointers(std::span<const Argument> arguments, std::span<const OutputMemory> outputs) {
  const Program &program = bound->owner->program;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].kind == InputSpec::Tensor)
      continue;
    scalars.resize(program.inputs.size());
    if (program.inputs[i].kind == InputSpec::ScalarInt)
      scalars[i].i = arguments[i].scalarInt;
    else
      scalars[i].f = arguments[i].scalarFloat;
  }
  pointers.resize(program.buffers.size());
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferSpec &spec = program.buffers[i];
    switch (spec.kind) {
    case BufferSpec::Input:
      pointers[i] =
          program.inputs[spec.index].kind == InputSpec::Tensor ? arguments[spec.index].data : &scalars[spec.index];
      break;
    case BufferSpec::Output:
      pointers[i] = outputs[spec.index].data;
      if (!pointers[i] && bound->bufferBytes[i] > 0)
        throw std::invalid_argument(program.name + ": result " + std::to_string(spec.index) + " has no memory");
      break;
    case BufferSpec::Constant:
      pointers[i] = bound->owner->constants[spec.index];
      break;
    case BufferSpec::Attached:
      packed.resize(program.buffers.size());
      attachedInputs.emplace_back(arguments[spec.attachedTo].data, arguments[spec.attachedTo].epoch);
      break;
    case BufferSpec::Temp:
      break;
    }
  }
}

void CallFrame::allocate(TemporaryBlocks &blocks, Stream *stream, const std::weak_ptr<const void> &user) {
  for (const TemporaryPlan &plan : bound->temporaries) {
    auto *base = static_cast<char *>(blocks.allocate(plan.bytes, Purpose::Arena));
    for (const auto &[buffer, offset] : plan.buffers)
      pointers[buffer] = base + offset;
  }
  if (attachedInputs.empty())
    return;
  size_t next = 0;
  for (uint32_t i = 0; i < pointers.size(); ++i) {
    if (bound->owner->program.buffers[i].kind != BufferSpec::Attached)
      continue;
    auto [address, epoch] = attachedInputs[next++];
    size_t bytes = bound->bufferBytes[i];
    PackedKey key{address, epoch, bound->recipes[i], blocks.memory.allocator};
    PackedCache::Answer answer = PackedCache::instance().find(key, user);
    if (answer.kept) {
      if (stream)
        answer.kept->useOn(*stream);
      pointers[i] = answer.kept->data();
      packed[i] = Kept;
      inUse.push_back(std::move(answer.kept));
    } else if (answer.keep) {
      auto buffer = std::make_shared<PackedBuffer>(blocks.memory, bytes);
      pointers[i] = buffer->data();
      packing.push_back({key, std::move(buffer)});
    } else if (bound->spared[i] && epoch == 0) { // else later calls have a copy: all are to add in the same order
      packed[i] = Spared;
    } else {
      pointers[i] = blocks.allocate(bytes, Purpose::Packed);
    }
  }
}

void CallFrame::publish(Stream *stream, const std::weak_ptr<const void> &user) {
  for (const PackedHere &p : packing) {
    if (stream)
      stream->record(p.buffer->filled);
    PackedCache::instance().publish(p.key, p.buffer, user);
  }
}

void CallFrame::abandon() {
  failed.store(true, std::memory_order_relaxed);
  for (const PackedHere &p : packing)
    p.buffer->failed.store(true, std::memory_order_relaxed);
}

} // namespace tilewright
