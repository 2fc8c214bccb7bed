//===- ExternalAten.cpp - islands: operators that PyTorch runs ----------------------------------------------------===//
//
// The external function "torch.aten" (docs/graph-format.md, Islands). Its tensors lie in planned memory, which is host
// memory on both devices; the operator runs on CPU tensors over it and its results are copied to where the plan wants
// them.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Torch/ExternalAten.h"

#include "tilewright/Runtime/ExternalCall.h"
#include "tilewright/Torch/DTypes.h"
#include "tilewright/Torch/Generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

namespace tilewright::npu {
namespace {

using nlohmann::json;

/// One payload, parsed once: programs call the same islands again and again.
struct ParsedCall {
  json node;
  std::string name; // "aten::topk"
  c10::OperatorHandle op;
  bool onDevice = false;
  bool random = false;
};

const ParsedCall &parsed(std::string_view payload) {
  static std::shared_mutex mutex;
  static auto *calls = new std::unordered_map<std::string, std::unique_ptr<const ParsedCall>>;
  std::string key(payload);
  {
    std::shared_lock lock(mutex);
    if (auto it = calls->find(key); it != calls->end())
      return *it->second;
  }
  json node = json::parse(payload);
  std::string op = node.at("op");
  size_t first = op.find('.'), last = op.rfind('.');
  TORCH_CHECK(first != std::string::npos && last > first, "island: operator name ", op,
              " is not NAMESPACE.NAME.OVERLOAD");
  std::string name = op.substr(0, first) + "::" + op.substr(first + 1, last - first - 1);
  std::string overload = op.substr(last + 1);
  std::optional<c10::OperatorHandle> handle =
      c10::Dispatcher::singleton().findSchema({name, overload == "default" ? "" : overload});
  TORCH_CHECK(handle, "island: PyTorch in this process has no operator ", op,
              "; import the package that registers it before the compiled function is called");
  auto call = std::make_unique<ParsedCall>(ParsedCall{std::move(node), name, *handle});
  call->onDevice = call->node.value("device", "cpu") == "npu";
  call->random = handle->hasTag(at::Tag::nondeterministic_seeded);
  std::unique_lock lock(mutex);
  return *calls->emplace(std::move(key), std::move(call)).first->second;
}

at::Tensor wrap(const ExternalTensor &tensor) {
  return at::from_blob(tensor.data, {tensor.sizes.data(), tensor.sizes.size()},
                       {tensor.strides.data(), tensor.strides.size()},
                       at::TensorOptions().dtype(toScalarType(tensor.dtype)).device(c10::kCPU));
}

/// Turns JSON arguments into IValues of the types that the schema asks for.
class ArgumentReader {
public:
  ArgumentReader(const ExternalArguments &call) : call(call), tensors(call.inputs.size()) {}

  c10::IValue read(const json &a, const c10::TypePtr &type) {
    if (auto optional = type->cast<c10::OptionalType>())
      return a.is_null() ? c10::IValue() : read(a, optional->getElementType());
    if (auto list = type->cast<c10::ListType>())
      return readList(a, list->getElementType());
    switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return tensor(a);
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return integer(a);
    case c10::TypeKind::FloatType:
      return floating(a);
    case c10::TypeKind::BoolType:
      return a.get<bool>();
    case c10::TypeKind::NumberType:
      return scalar(a);
    case c10::TypeKind::StringType:
      return a.get<std::string>();
    case c10::TypeKind::DeviceObjType:
      return c10::Device(c10::kCPU); // where the memory is
    case c10::TypeKind::ComplexType:
      return scalar(a);
    case c10::TypeKind::GeneratorType:
      TORCH_CHECK(a.is_null(), "island: a generator as argument");
      return c10::IValue();
    default:
      TORCH_CHECK(false, "island: an argument of type ", type->str());
    }
  }

private:
  const ExternalArguments &call;
  std::vector<at::Tensor> tensors; // one wrapper per input, so that the operator sees equal arguments as equal

  at::Tensor tensor(const json &a) {
    if (!a.is_object() || !a.contains("v")) { // graphs have plain numbers where operators take tensors: x * 2
      at::Tensor number = at::scalar_to_tensor(scalar(a).toScalar());
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      return number;
    }
    size_t i = a.at("v");
    TORCH_CHECK(i < tensors.size(), "island: input ", i, " of ", tensors.size());
    if (!tensors[i].defined())
      tensors[i] = wrap(call.inputs[i]);
    return tensors[i];
  }

  /// Numbers, symbolic ones, and what PyTorch's schemas keep as numbers: dtypes, layouts, memory formats.
  c10::IValue integer(const json &a) {
    if (a.is_number_integer())
      return a.get<int64_t>();
    if (a.is_boolean())
      return static_cast<int64_t>(a.get<bool>());
    if (auto it = a.find("int"); it != a.end()) {
      size_t i = *it;
      TORCH_CHECK(i < call.ints.size(), "island: integer ", i, " of ", call.ints.size());
      return call.ints[i];
    }
    if (auto it = a.find("dtype"); it != a.end()) {
      std::optional<DType> dtype = dtypeFromName(it->get<std::string>());
      TORCH_CHECK(dtype, "island: dtype ", it->dump());
      return static_cast<int64_t>(toScalarType(*dtype));
    }
    if (a.contains("layout")) {
      TORCH_CHECK(a["layout"] == "torch.strided", "island: layout ", a["layout"].dump());
      return static_cast<int64_t>(c10::Layout::Strided);
    }
    if (auto it = a.find("memory_format"); it != a.end())
      return static_cast<int64_t>(memoryFormat(*it));
    TORCH_CHECK(false, "island: ", a.dump(), " in place of an integer");
  }

  static c10::MemoryFormat memoryFormat(const std::string &name) {
    if (name == "torch.contiguous_format")
      return c10::MemoryFormat::Contiguous;
    if (name == "torch.preserve_format")
      return c10::MemoryFormat::Preserve;
    if (name == "torch.channels_last")
      return c10::MemoryFormat::ChannelsLast;
    TORCH_CHECK(name == "torch.channels_last_3d", "island: memory format ", name);
    return c10::MemoryFormat::ChannelsLast3d;
  }

  /// A number that lies in a 0-d input, if that is what `a` says.
  std::optional<at::Scalar> numberInput(const json &a) {
    if (!a.is_object() || !a.contains("scalar"))
      return std::nullopt;
    return tensor({{"v", a["scalar"]}}).item();
  }

  double floating(const json &a) {
    if (std::optional<at::Scalar> number = numberInput(a))
      return number->toDouble();
    if (a.is_number())
      return a.get<double>();
    if (a.is_object() && a.contains("float")) {
      std::string text = a["float"];
      double infinity = std::numeric_limits<double>::infinity();
      return text == "inf" ? infinity : text == "-inf" ? -infinity : std::numeric_limits<double>::quiet_NaN();
    }
    return static_cast<double>(integer(a).toInt());
  }

  c10::IValue scalar(const json &a) {
    if (a.is_boolean())
      return a.get<bool>();
    if (a.is_number_float() || (a.is_object() && a.contains("float")))
      return floating(a);
    if (a.is_object() && a.contains("complex"))
      return c10::complex<double>(floating(a["complex"][0]), floating(a["complex"][1]));
    if (std::optional<at::Scalar> number = numberInput(a))
      return *number;
    if (a.is_object() && a.contains("v")) // a 0-d tensor where the operator takes a number
      return tensor(a).item();
    return integer(a);
  }

  c10::IValue readList(const json &a, const c10::TypePtr &element) {
    // Symbolic integers have their values by now.
    bool symbolic = element->kind() == c10::TypeKind::SymIntType;
    c10::impl::GenericList list(symbolic ? c10::TypePtr(c10::IntType::get()) : element);
    if (!a.is_array()) { // one number may stand for a list of any length (sum(dim=1))
      list.push_back(read(a, element));
      return list;
    }
    for (const json &item : a)
      list.push_back(read(item, element));
    return list;
  }
};

/// PyTorch's CPU generator, seeded by the device's for the length of one call: operators draw from what the device's
/// seed says.
class DeviceSeed {
public:
  DeviceSeed() : generator(at::detail::getDefaultCPUGenerator()), seed(drawSeed(defaultGenerator())) {
    std::lock_guard lock(generator.mutex());
    state = generator.get_state();
    generator.set_current_seed(seed);
  }
  ~DeviceSeed() {
    std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }

private:
  at::Generator generator;
  uint64_t seed;
  at::Tensor state;
};

void store(const ParsedCall &call, const at::Tensor &result, const ExternalTensor &output) {
  at::IntArrayRef sizes(output.sizes.data(), output.sizes.size());
  TORCH_CHECK(result.defined() && result.sizes() == sizes, "island: ", call.name, " gave sizes ",
              result.defined() ? result.sizes() : at::IntArrayRef{}, " where the plan has ", sizes);
  TORCH_CHECK(result.scalar_type() == toScalarType(output.dtype), "island: ", call.name, " gave dtype ",
              result.scalar_type(), " where the plan has ", toScalarType(output.dtype));
  if (result.numel() != 0)
    wrap(output).copy_(result);
}

torch::jit::Stack arguments(const ParsedCall &call, const ExternalArguments &given) {
  ArgumentReader reader(given);
  torch::jit::Stack stack;
  const json &args = call.node.at("args");
  const json kwargs = call.node.value("kwargs", json::object());
  const auto &schema = call.op.schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i) {
    const c10::Argument &formal = schema[i];
    if (i < args.size() && !formal.kwarg_only()) {
      stack.push_back(reader.read(args[i], formal.type()));
    } else if (auto it = kwargs.find(formal.name()); it != kwargs.end()) {
      stack.push_back(reader.read(*it, formal.type()));
    } else if (formal.default_value()) {
      stack.push_back(*formal.default_value());
    } else {
      TORCH_CHECK(formal.type()->kind() == c10::TypeKind::OptionalType, "island: ", call.name, " misses its argument ",
                  formal.name());
      stack.emplace_back();
    }
  }
  return stack;
}

void callAten(const ExternalArguments &given) {
  const ParsedCall &call = parsed(given.payload);
  c10::impl::ExcludeDispatchKeyGuard noAutograd(c10::autograd_dispatch_keyset);
  c10::impl::ExcludeDispatchKeyGuard noViews{c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView)};
  c10::impl::ExcludeDispatchKeyGuard noAutocast(c10::autocast_dispatch_keyset);
  torch::jit::Stack stack = arguments(call, given);
  {
    std::optional<DeviceSeed> seed;
    if (call.random && call.onDevice)
      seed.emplace();
    call.op.callBoxed(&stack);
  }
  std::vector<at::Tensor> results;
  for (const c10::IValue &value : stack) {
    if (value.isTensor())
      results.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor &item : value.toTensorVector())
        results.push_back(item);
    else
      TORCH_CHECK(value.isNone(), "island: ", call.name, " gave a ", value.tagKind());
  }
  const auto places = call.node.find("results");
  if (places == call.node.end()) {
    TORCH_CHECK(results.size() == given.outputs.size(), "island: ", call.name, " gave ", results.size(),
                " results where the plan has ", given.outputs.size());
    for (size_t i = 0; i < results.size(); ++i)
      store(call, results[i], given.outputs[i]);
    return;
  }
  TORCH_CHECK(places->size() == results.size(), "island: ", call.name, " gave ", results.size(),
              " results where the plan has ", places->size());
  for (size_t i = 0; i < results.size(); ++i)
    if (!(*places)[i].is_null()) {
      size_t output = (*places)[i];
      TORCH_CHECK(output < given.outputs.size(), "island: output ", output, " of ", given.outputs.size());
      store(call, results[i], given.outputs[output]);
    }
}

} // namespace

void registerExternalAten() { registerExternalFunction("torch.aten", &callAten); }

} // namespace tilewright::npu
