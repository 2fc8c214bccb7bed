//===- CompiledGraph.cpp - what a compiled graph's call does ------------------------------------------------------===//

#include "tilewright/Torch/CompiledGraph.h"

#include "tilewright/Torch/DTypes.h"
#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Frozen.h"
#include "tilewright/Torch/Memory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/python_variable.h>

#include <chrono>
#include <forward_list>

namespace nb = nanobind;

namespace tilewright::npu {

/// One call's state. The inline capacities hold most graphs' arguments without touching the heap.
struct CompiledGraph::Call {
  c10::SmallVector<Argument, 64> arguments;
  c10::SmallVector<PyObject *, 64>
      objects; // per input: the argument's object, borrowed from the list; null for constants
  c10::SmallVector<const at::Tensor *, 64> tensors;
  std::forward_list<at::Tensor> held; // copies made for this call; their addresses must stay
  c10::SmallVector<OutputMemory, 16> memory;
  c10::SmallVector<at::Tensor, 16> outputs;
  std::shared_ptr<const BoundSizes> sizes;
};

namespace {

[[noreturn]] void mismatch(const Program &program, size_t input, const std::string &what) {
  TORCH_CHECK_VALUE(false, program.name, ": argument ", program.inputs[input].name, " ", what);
}

at::IntArrayRef array(const std::vector<int64_t> &values) { return {values.data(), values.size()}; }

} // namespace

CompiledGraph::CompiledGraph(std::shared_ptr<Executable> executable, size_t arguments, std::vector<Source> sourceList,
                             std::vector<Result> resultList, std::vector<c10::DeviceType> devices,
                             c10::DeviceType where, Info info)
    : program(std::move(executable)), argumentCount(arguments), sources(std::move(sourceList)),
      results(std::move(resultList)), outputDevices(std::move(devices)), device(where), about(std::move(info)) {
  const Program &p = program->program();
  TORCH_CHECK_VALUE(sources.size() == p.inputs.size(), p.name, ": ", sources.size(), " sources for ", p.inputs.size(),
                    " inputs");
  TORCH_CHECK_VALUE(outputDevices.size() == p.outputs.size(), p.name, ": ", outputDevices.size(), " devices for ",
                    p.outputs.size(), " outputs");
  for (Source &source : sources) {
    TORCH_CHECK_VALUE(source.constant || source.argument < argumentCount, p.name, ": argument ", source.argument,
                      " of ", argumentCount);
    if (source.constant && source.constant->device().type() != device)
      source.constant = source.constant->to(c10::Device(device, device == c10::kCPU ? -1 : 0));
  }
  for (const Result &result : results) {
    TORCH_CHECK_VALUE(result.kind != Result::Tensor || result.output < p.outputs.size(), p.name, ": output ",
                      result.output, " of ", p.outputs.size());
    sizeResults |= result.kind == Result::Size;
  }
  for (c10::DeviceType type : outputDevices)
    cpuOutputs |= device != c10::kCPU && type == c10::kCPU;
  needsEpoch.resize(p.inputs.size());
  for (const BufferSpec &buffer : p.buffers)
    if (buffer.kind == BufferSpec::Attached)
      needsEpoch[buffer.attachedTo] = true;
}

nb::list CompiledGraph::operator()(nb::list list) {
  RECORD_FUNCTION(program->program().name, c10::ArrayRef<const c10::IValue>{});
  auto start = firstSetup ? std::chrono::steady_clock::time_point() : std::chrono::steady_clock::now();
  Call call;
  readArguments(call, list);
  call.sizes = program->bind({call.arguments.data(), call.arguments.size()});
  allocate(call);
  const auto &inputs = program->program().inputs;
  // After the epochs were read: what this call keeps was derived from the memory as it is before the call.
  if (device != c10::kCPU)
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].mutated)
        touch(*call.tensors[i]);
  if (!firstSetup)
    firstSetup = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  {
    nb::gil_scoped_release nogil;
    Stream *stream = device == c10::kCPU ? nullptr : &currentStream();
    translated([&] {
      program->run(call.sizes, {call.arguments.data(), call.arguments.size()}, {call.memory.data(), call.memory.size()},
                   stream);
      if (cpuOutputs)
        stream->synchronize();
    });
  }
  lastSizes = call.sizes;
  nb::list collected = collect(call);
  if (PyList_SetSlice(list.ptr(), 0, PyList_GET_SIZE(list.ptr()), nullptr) < 0)
    throw nb::python_error();
  return collected;
}

void CompiledGraph::readArguments(Call &call, nb::handle list) {
  const Program &p = program->program();
  size_t count = PyList_GET_SIZE(list.ptr());
  TORCH_CHECK_VALUE(count == argumentCount, p.name, " takes ", argumentCount, " arguments, ", count, " were given");
  size_t inputs = sources.size();
  call.arguments.resize(inputs);
  call.objects.resize(inputs, nullptr);
  call.tensors.resize(inputs, nullptr);
  for (size_t i = 0; i < inputs; ++i) {
    const Source &source = sources[i];
    if (source.constant) {
      readTensor(call, i, *source.constant);
      continue;
    }
    PyObject *object = PyList_GET_ITEM(list.ptr(), source.argument);
    call.objects[i] = object;
    switch (p.inputs[i].kind) {
    case InputSpec::Tensor:
      TORCH_CHECK_TYPE(THPVariable_Check(object), p.name, ": argument ", p.inputs[i].name, " is a ",
                       Py_TYPE(object)->tp_name, ", a tensor was compiled for");
      readTensor(call, i, THPVariable_Unpack(object));
      break;
    case InputSpec::ScalarInt:
      call.arguments[i].scalarInt = PyLong_AsLongLong(object);
      if (call.arguments[i].scalarInt == -1 && PyErr_Occurred())
        throw nb::python_error();
      break;
    case InputSpec::ScalarFloat:
      call.arguments[i].scalarFloat = PyFloat_AsDouble(object);
      if (call.arguments[i].scalarFloat == -1 && PyErr_Occurred())
        throw nb::python_error();
      break;
    }
  }
}

void CompiledGraph::readTensor(Call &call, size_t input, const at::Tensor &given) {
  const Program &p = program->program();
  const at::Tensor *tensor = &given;
  auto hold = [&](at::Tensor copy) {
    if (p.inputs[input].mutated)
      mismatch(p, input, "is written by the graph and lies on another device or is a lazy conjugate or negative");
    tensor = &call.held.emplace_front(std::move(copy));
  };
  if (given.is_conj() || given.is_neg())
    hold(given.resolve_conj().resolve_neg());
  if (tensor->device().type() != device) {
    if (device == c10::kCPU || tensor->device().type() != c10::kCPU)
      mismatch(p, input,
               "is on " + given.device().str() + ", the graph was compiled for " + c10::DeviceTypeName(device, true));
    hold(tensor->to(c10::Device(device, 0)));
  }
  std::optional<DType> dtype = toDType(tensor->scalar_type());
  if (!dtype)
    mismatch(p, input, std::string("has dtype ") + c10::toString(tensor->scalar_type()));
  Argument &argument = call.arguments[input];
  argument.dtype = *dtype;
  argument.sizes = {tensor->sizes().data(), tensor->sizes().size()};
  argument.strides = {tensor->strides().data(), tensor->strides().size()};
  argument.data = p.inputs[input].mutated ? tensor->mutable_data_ptr() : const_cast<void *>(tensor->const_data_ptr());
  if (needsEpoch[input])
    argument.epoch = device == c10::kCPU ? frozenEpoch(*tensor) : writeEpoch(*tensor);
  call.tensors[input] = tensor;
}

void CompiledGraph::allocate(Call &call) {
  const Program &p = program->program();
  size_t count = p.outputs.size();
  call.memory.resize(count, OutputMemory{nullptr});
  call.outputs.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const OutputSpec &spec = p.outputs[i];
    if (spec.kind == OutputSpec::AliasOfInput)
      continue;
    at::IntArrayRef sizes = array(call.sizes->outputSizes[i]), strides = array(call.sizes->outputStrides[i]);
    c10::ScalarType dtype = toScalarType(spec.dtype);
    call.outputs[i] =
        outputDevices[i] == c10::kCPU
            ? at::Tensor(at::detail::empty_strided_cpu(sizes, strides, dtype))
            : at::Tensor(at::detail::empty_strided_generic(sizes, strides, &deviceAllocator(),
                                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype));
    call.memory[i].data = call.outputs[i].mutable_data_ptr();
  }
}

std::vector<int64_t> CompiledGraph::symbolValues(const Call &call) const {
  const Program &p = program->program();
  std::vector<int64_t> values(p.symbolCount);
  for (size_t i = 0; i < p.symbols.size(); ++i) {
    const SymbolBinding &binding = p.symbols[i];
    const Argument &argument = call.arguments[binding.input];
    switch (binding.kind) {
    case SymbolBinding::InputSize:
      values[i] = argument.sizes[binding.dim];
      break;
    case SymbolBinding::InputStride:
      values[i] = argument.strides[binding.dim];
      break;
    case SymbolBinding::ScalarInput:
      values[i] = argument.scalarInt;
      break;
    }
  }
  return values;
}

nb::list CompiledGraph::collect(Call &call) {
  const Program &p = program->program();
  std::vector<int64_t> symbols = sizeResults ? symbolValues(call) : std::vector<int64_t>();
  PyObject *list = PyList_New(static_cast<Py_ssize_t>(results.size()));
  if (!list)
    throw nb::python_error();
  nb::list owner = nb::steal<nb::list>(list);
  for (size_t i = 0; i < results.size(); ++i) {
    const Result &result = results[i];
    PyObject *item = nullptr;
    switch (result.kind) {
    case Result::Constant:
      item = nb::object(result.constant).release().ptr();
      break;
    case Result::Size:
      item = PyLong_FromLongLong(result.size.evaluate(symbols));
      break;
    case Result::Tensor: {
      const OutputSpec &spec = p.outputs[result.output];
      if (spec.kind == OutputSpec::Fresh) {
        item = THPVariable_Wrap(call.outputs[result.output]);
        break;
      }
      const at::Tensor &input = *call.tensors[spec.input];
      at::IntArrayRef sizes = array(call.sizes->outputSizes[result.output]);
      at::IntArrayRef strides = array(call.sizes->outputStrides[result.output]);
      int64_t offset = call.sizes->outputOffsets[result.output];
      PyObject *object = call.objects[spec.input];
      // The input itself comes back as the very object: AOTAutograd saves it so for the backward pass.
      if (object && THPVariable_Check(object) && offset == 0 && input.sizes() == sizes && input.strides() == strides)
        item = Py_NewRef(object);
      else
        item = THPVariable_Wrap(input.as_strided(sizes, strides, input.storage_offset() + offset));
      break;
    }
    }
    if (!item)
      throw nb::python_error();
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), item);
  }
  return owner;
}

std::map<std::string, size_t> CompiledGraph::memory() const {
  if (!lastSizes)
    return {};
  return {{"arena_bytes", lastSizes->arenaBytes},
          {"temporary_bytes", lastSizes->temporaryBytes},
          {"packed_bytes", lastSizes->attachedBytes}};
}

} // namespace tilewright::npu
