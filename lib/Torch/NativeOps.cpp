//===- NativeOps.cpp - operators that Ops compiles, registered with PyTorch ---------------------------------------===//
//
// Ops knows functional overloads. Each is registered, and with it the in-place and out= overloads that compute the
// same. What Ops has no code for, for given dtypes or arguments, goes to the CPU fallback, which counts it.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Torch/NativeOps.h"

#include "tilewright/Ops/Ops.h"
#include "tilewright/Torch/DTypes.h"
#include "tilewright/Torch/Fallback.h"
#include "tilewright/Torch/Memory.h"
#include "tilewright/Torch/NativeCall.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace tilewright::npu {
namespace {

using torch::jit::Stack;

enum class Form { Functional, InPlace, Out };

bool isWritten(const c10::Argument &argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

// The results of factories take their dtype from PyTorch's default, which is a setting of the process.
std::optional<at::ScalarType> factoryDefault(std::string_view op, const c10::FunctionSchema &schema,
                                             const Stack &stack) {
  if (op.starts_with("aten.linspace") || op.starts_with("aten.eye"))
    return c10::get_default_dtype_as_scalartype();
  if (!op.starts_with("aten.arange"))
    return std::nullopt;
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (torch::jit::peek(stack, i, schema.arguments().size()).isDouble())
      return c10::get_default_dtype_as_scalartype();
  return at::kLong;
}

class NativeKernel final : public c10::OperatorKernel {
public:
  NativeKernel(std::string functional, unsigned results, Form form)
      : functional(std::move(functional)), results(results), form(form) {}

  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, Stack *stack) {
    if (!run(op.schema(), *stack))
      fallback(op, stack);
  }

private:
  std::string functional; // "aten.add.Tensor"
  unsigned results;
  Form form;

  bool run(const c10::FunctionSchema &schema, Stack &stack) const {
    size_t count = schema.arguments().size();
    NativeArguments arguments;
    std::vector<ops::OpArgument> positional;
    std::vector<ops::NamedArgument> named;
    std::vector<at::Tensor> written;
    std::optional<at::ScalarType> dtype = factoryDefault(functional, schema, stack);
    for (size_t i = 0; i < count && !arguments.refused; ++i) {
      const c10::Argument &argument = schema.arguments()[i];
      const c10::IValue &value = torch::jit::peek(stack, i, count);
      if (isWritten(argument)) {
        if (!value.isTensor())
          return false;
        written.push_back(value.toTensor());
        if (form == Form::Out)
          continue;
      }
      if (argument.kwarg_only()) {
        if (argument.name() == "pin_memory" && value.isBool() && value.toBool())
          return false;
        ops::OpArgument converted = arguments.convert(argument, value);
        if (argument.name() == "dtype" && value.isNone() && dtype)
          converted = *toDType(*dtype); // float or int64
        if (!std::holds_alternative<std::monostate>(converted.value))
          named.push_back({argument.name(), converted});
      } else {
        positional.push_back(arguments.convert(argument, value));
      }
    }
    if (arguments.refused || (form != Form::Functional && !mayWrite(arguments, positional, written)))
      return false;
    std::vector<ops::Mutation> mutations;
    for (uint32_t i = 0; i < written.size(); ++i) {
      std::optional<ops::TensorArgument> destination = arguments.tensor(written[i]);
      if (!destination)
        return false;
      mutations.push_back({i, *destination});
    }
    auto outputs = runNatively({functional, positional, named, results, mutations});
    if (!outputs)
      return false;
    for (const at::Tensor &tensor : written)
      touch(tensor);
    torch::jit::drop(stack, count);
    for (at::Tensor &tensor : form == Form::Functional ? *outputs : written)
      stack.emplace_back(std::move(tensor));
    return true;
  }

  // PyTorch refuses to write a result of one kind of number into a tensor of a lesser kind, and into memory that
  // overlaps. Where that cannot be the case the result may be written; everything else is left to PyTorch's kernel.
  bool mayWrite(const NativeArguments &arguments, const std::vector<ops::OpArgument> &positional,
                const std::vector<at::Tensor> &written) const {
    for (const at::Tensor &target : written) {
      // Some operators take out= of their result's dtype alone.
      if (form == Form::Out && !arguments.tensors.empty() &&
          arguments.tensors[0]->scalar_type() != target.scalar_type())
        return false;
      bool floating = target.is_floating_point();
      if (at::has_internal_overlap(target) == at::MemOverlap::Yes || (!floating && !keepsIntegers(target, positional)))
        return false;
      for (const at::Tensor *input : arguments.tensors) {
        if (input->is_complex() ||
            (!floating && input->scalar_type() != target.scalar_type() && input->scalar_type() != at::kBool))
          return false;
        at::MemOverlapStatus overlap = at::get_overlap_status(*input, target);
        // Pointwise operators may write over their input, others may not; which is which PyTorch's kernel knows.
        if (overlap == at::MemOverlapStatus::Partial || (form == Form::Out && overlap == at::MemOverlapStatus::Full))
          return false;
      }
    }
    return true;
  }

  // Whether the operator gives integers of the target's type for such arguments.
  bool keepsIntegers(const at::Tensor &target, const std::vector<ops::OpArgument> &positional) const {
    constexpr std::array<std::string_view, 16> bases = {
        "abs",       "add",          "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "clamp", "clamp_max",
        "clamp_min", "floor_divide", "masked_fill", "maximum",     "minimum",    "mul",         "neg",   "sub"};
    std::string_view base = std::string_view(functional).substr(5); // behind "aten."
    base = base.substr(0, base.find('.'));
    if (target.scalar_type() == at::kBool || std::find(bases.begin(), bases.end(), base) == bases.end())
      return false;
    return std::none_of(positional.begin(), positional.end(), [](const ops::OpArgument &argument) {
      const auto *number = std::get_if<ops::Number>(&argument.value);
      return number && std::holds_alternative<double>(number->value);
    });
  }
};

// Overloads by name, as the dispatcher knows them when we are loaded.
class Overloads {
public:
  Overloads() {
    for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames())
      if (name.name.starts_with("aten::"))
        byName[name.name].push_back(name);
  }
  const std::vector<c10::OperatorName> &of(const std::string &name) const {
    static const std::vector<c10::OperatorName> none;
    auto found = byName.find(name);
    return found == byName.end() ? none : found->second;
  }

private:
  std::map<std::string, std::vector<c10::OperatorName>> byName;
};

// The overload's results are written into its arguments, and without these it takes what the functional one takes.
bool computesTheSame(const c10::FunctionSchema &functional, const c10::FunctionSchema &other, Form form) {
  size_t next = 0, written = 0;
  for (const c10::Argument &argument : other.arguments()) {
    written += isWritten(argument);
    if (form == Form::Out && isWritten(argument))
      continue;
    if (next == functional.arguments().size())
      return false;
    const c10::Argument &expected = functional.arguments()[next++];
    if (argument.name() != expected.name() || argument.real_type()->str() != expected.real_type()->str() ||
        argument.kwarg_only() != expected.kwarg_only())
      return false;
  }
  return next == functional.arguments().size() && written == functional.returns().size() &&
         written == other.returns().size();
}

// PyTorch composes these of views, empty memory, fills and copies, which are native and cheaper than a kernel of their
// own.
bool isLeftToPyTorch(std::string_view op) {
  constexpr std::string_view prefixes[] = {
      "aten.empty",    "aten.new_",         "aten.full",           "aten.ones",       "aten.zero",
      "aten.fill",     "aten.clone",        "aten.copy.",          "aten.lift",       "aten.scalar_tensor",
      "aten._to_copy", "aten._unsafe_view", "aten._reshape_alias", "aten.contiguous", "aten.to."};
  return !op.starts_with("aten.") || std::any_of(std::begin(prefixes), std::end(prefixes),
                                                 [&](std::string_view prefix) { return op.starts_with(prefix); });
}

bool mayBeOurs(const c10::OperatorHandle &op) {
  // A kernel for the device would cut an operator that autograd sees through off from autograd.
  bool seenThrough = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
                     !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  return !seenThrough && !op.hasTag(at::Tag::nondeterministic_seeded);
}

c10::OperatorName toOperatorName(std::string_view op) {
  size_t dot = op.rfind('.');
  std::string overload(op.substr(dot + 1));
  return {"aten::" + std::string(op.substr(5, dot - 5)), overload == "default" ? "" : overload};
}

std::string toText(const c10::OperatorName &name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

} // namespace

std::set<std::string> registerNativeOps() {
  static auto *library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  std::set<std::string> registered;
  Overloads overloads;
  auto add = [&](const c10::OperatorName &name, std::string_view functional, unsigned results, Form form) {
    if (registered.insert(toText(name)).second)
      library->impl(toText(name).c_str(), torch::CppFunction::makeFromBoxedFunctor(
                                              std::make_unique<NativeKernel>(std::string(functional), results, form)));
  };
  for (std::string_view op : ops::nativeOperators()) {
    if (isLeftToPyTorch(op))
      continue;
    c10::OperatorName name = toOperatorName(op);
    auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (!handle || !mayBeOurs(*handle))
      continue;
    const c10::FunctionSchema &schema = handle->schema();
    bool views = std::any_of(schema.returns().begin(), schema.returns().end(), [](const c10::Argument &result) {
      return result.alias_info() || result.type()->kind() != c10::TypeKind::TensorType;
    });
    if (views || schema.returns().empty())
      continue;
    auto results = static_cast<unsigned>(schema.returns().size());
    add(name, op, results, Form::Functional);
    for (const c10::OperatorName &other : overloads.of(name.name + "_"))
      if (auto found = c10::Dispatcher::singleton().findSchema(other);
          found && mayBeOurs(*found) && computesTheSame(schema, found->schema(), Form::InPlace))
        add(other, op, results, Form::InPlace);
    for (const c10::OperatorName &other : overloads.of(name.name))
      if (auto found = c10::Dispatcher::singleton().findSchema(other);
          found && mayBeOurs(*found) && computesTheSame(schema, found->schema(), Form::Out))
        add(other, op, results, Form::Out);
  }
  return registered;
}

} // namespace tilewright::npu
