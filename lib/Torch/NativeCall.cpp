//===- NativeCall.cpp - a boxed call as a call of Ops -------------------------------------------------------------===//

#include "tilewright/Torch/NativeCall.h"

#include "tilewright/Torch/DTypes.h"
#include "tilewright/Torch/DeviceState.h"
#include "tilewright/Torch/Memory.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

namespace tilewright::npu {
namespace {

std::optional<ops::Number> number(const at::Scalar &value) {
  if (value.isComplex() || value.isSymbolic())
    return std::nullopt;
  if (value.isBoolean())
    return ops::Number{value.toBool()};
  if (value.isFloatingPoint())
    return ops::Number{value.toDouble()};
  return ops::Number{value.toLong()};
}

std::string_view memoryFormatName(at::MemoryFormat format) {
  switch (format) {
  case at::MemoryFormat::Contiguous:
    return "torch.contiguous_format";
  case at::MemoryFormat::Preserve:
    return "torch.preserve_format";
  case at::MemoryFormat::ChannelsLast:
    return "torch.channels_last";
  case at::MemoryFormat::ChannelsLast3d:
    return "torch.channels_last_3d";
  default:
    return "";
  }
}

} // namespace

ops::OpArgument NativeArguments::refuse() {
  refused = true;
  return {};
}

std::optional<ops::TensorArgument> NativeArguments::tensor(const at::Tensor &given) {
  std::optional<DType> dtype = toDType(given.scalar_type());
  if (!dtype || given.device().type() != kDeviceType || given.layout() != at::kStrided || given.is_conj() ||
      given.is_neg() || given._is_zerotensor()) {
    refused = true;
    return std::nullopt;
  }
  kept.push_back(given);
  const at::Tensor &held = kept.back();
  tensors.push_back(&held);
  ops::TensorArgument result;
  result.data = held.unsafeGetTensorImpl()->mutable_data();
  result.dtype = *dtype;
  result.sizes = {held.sizes().data(), held.sizes().size()};
  result.strides = {held.strides().data(), held.strides().size()};
  result.epoch = writeEpoch(held);
  return result;
}

ops::OpArgument NativeArguments::convertTensor(const at::Tensor &given) {
  if (!given.defined())
    return {};
  // Python's numbers come as CPU scalars that remember what they were.
  if (given.unsafeGetTensorImpl()->is_wrapped_number() && given.is_cpu()) {
    std::optional<ops::Number> value = number(given.item());
    return value ? ops::OpArgument(*value) : refuse();
  }
  std::optional<ops::TensorArgument> result = tensor(given);
  return result ? ops::OpArgument(*result) : ops::OpArgument();
}

ops::TensorList NativeArguments::keepList(const std::vector<at::Tensor> &list) {
  std::vector<const ops::TensorArgument *> pointers;
  for (const at::Tensor &element : list) {
    if (!element.defined()) {
      pointers.push_back(nullptr);
      continue;
    }
    std::optional<ops::TensorArgument> converted = tensor(element);
    if (!converted)
      break;
    pointers.push_back(&elements.emplace_back(*converted));
  }
  tensorLists.push_back(std::move(pointers));
  return tensorLists.back();
}

ops::OpArgument NativeArguments::convertList(const c10::Argument &argument, const c10::IValue &value) {
  if (value.isTensorList())
    return keepList(value.toTensorVector());
  if (value.isOptionalTensorList()) {
    std::vector<at::Tensor> list;
    for (const std::optional<at::Tensor> &element : value.toOptionalTensorVector())
      list.push_back(element.value_or(at::Tensor()));
    return keepList(list);
  }
  if (value.isIntList()) {
    const std::vector<int64_t> &list = intLists.emplace_back(value.toIntVector());
    // SymInt[] are sizes, read at run time; int[] are structure.
    if (argument.real_type()->str().find("SymInt") != std::string::npos)
      return ops::SizeList{list};
    return ops::IntList(list);
  }
  if (value.isDoubleList())
    return ops::FloatList(floatLists.emplace_back(value.toDoubleVector()));
  if (value.isBoolList()) {
    auto list = value.toBoolList();
    auto &held = boolLists.emplace_back();
    if (list.size() > held.size())
      return refuse();
    for (size_t i = 0; i < list.size(); ++i)
      held[i] = list[i];
    return ops::BoolList(held.data(), list.size());
  }
  return refuse();
}

ops::OpArgument NativeArguments::convert(const c10::Argument &argument, const c10::IValue &value) {
  if (value.isNone())
    return {};
  if (value.isTensor())
    return convertTensor(value.toTensor());
  if (value.isList())
    return convertList(argument, value);
  if (value.isBool() && argument.type()->kind() == c10::TypeKind::BoolType)
    return value.toBool();
  std::string type = argument.real_type()->str(); // "Optional[ScalarType]", "SymInt", "Scalar", ...
  auto is = [&](std::string_view name) { return type.find(name) != std::string::npos; };
  if (is("ScalarType")) {
    std::optional<DType> dtype = toDType(static_cast<at::ScalarType>(value.toInt()));
    return dtype ? ops::OpArgument(*dtype) : refuse();
  }
  if (is("MemoryFormat"))
    return ops::Opaque{"memory_format", memoryFormatName(static_cast<at::MemoryFormat>(value.toInt()))};
  if (is("Layout"))
    return {}; // only strided tensors come here
  if (value.isDevice())
    return value.toDevice().type() == kDeviceType ? ops::OpArgument() : refuse();
  if (is("SymInt"))
    return value.isInt() ? ops::OpArgument(ops::Size{value.toInt()}) : refuse();
  if (value.isScalar() && (is("Scalar") || is("number") || is("Number"))) {
    std::optional<ops::Number> result = number(value.toScalar());
    return result ? ops::OpArgument(*result) : refuse();
  }
  if (value.isBool())
    return value.toBool();
  if (value.isInt())
    return value.toInt();
  if (value.isDouble())
    return value.toDouble();
  if (value.isString())
    return std::string_view(value.toStringRef());
  return refuse();
}

std::optional<std::vector<at::Tensor>> runNatively(const ops::OpCall &call) {
  std::optional<ops::Prepared> prepared;
  try {
    prepared = ops::prepare(call);
  } catch (const std::invalid_argument &) {
    return std::nullopt; // sizes that do not go together: PyTorch's own kernel, asked next, says so in its words
  } catch (...) {
    rethrowForTorch();
  }
  if (!*prepared)
    return std::nullopt;
  std::vector<at::Tensor> results;
  std::vector<void *> memory;
  for (const ops::Output &output : prepared->outputs()) {
    if (output.aliasOf >= 0)
      return std::nullopt; // a view, where PyTorch promises memory of its own
    at::Tensor result = at::detail::empty_strided_generic(
        at::IntArrayRef(output.sizes.data(), output.sizes.size()),
        at::IntArrayRef(output.strides.data(), output.strides.size()), &deviceAllocator(),
        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), toScalarType(output.dtype));
    memory.push_back(result.unsafeGetTensorImpl()->mutable_data());
    results.push_back(std::move(result));
  }
  translated([&] { prepared->run(memory, &currentStream()); });
  return results;
}

bool convertNatively(const at::Tensor &from, const at::Tensor &to) {
  NativeArguments arguments;
  std::optional<ops::TensorArgument> source = arguments.tensor(from), target = arguments.tensor(to);
  if (!source || !target || isComplex(source->dtype) || isComplex(target->dtype))
    return false;
  ops::OpArgument positional[] = {*source};
  ops::NamedArgument named[] = {{"dtype", target->dtype}};
  ops::Mutation written[] = {{0, *target}};
  return runNatively({"aten._to_copy.default", positional, named, 1, written}).has_value();
}

} // namespace tilewright::npu
