//===- KernelOperator.cpp - hand-written kernels as operators of PyTorch ------------------------------------------===//
//
// The schema, the fake implementation and what a gradient is come from Python (language/operators.py); what runs at a
// call is here, boxed: one functor serves every kernel's signature.
//
//===----------------------------------------------------------------------===//

#include "tilewright/Torch/KernelLaunch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <torch/csrc/Exceptions.h>
#include <torch/library.h>

#include <algorithm>

namespace nb = nanobind;

namespace tilewright::npu {
namespace {

using torch::jit::Stack;
using Parameter = KernelLauncher::Parameter;

constexpr const char *kNamespace = "tilewright_kernels";

/// How a schema says a kernel's parameters. An output that is an argument is written; an InOut argument that the schema
/// does not say to be written is copied, and the copies are returned behind the outputs.
class OperatorKernel final : public c10::OperatorKernel {
public:
  OperatorKernel(std::shared_ptr<KernelLauncher> launcher, const c10::FunctionSchema &schema)
      : launcher(std::move(launcher)) {
    auto isWritten = [&](std::optional<int> at) {
      const c10::AliasInfo *alias = at ? schema.arguments()[static_cast<size_t>(*at)].alias_info() : nullptr;
      return alias && alias->isWrite();
    };
    for (const Parameter &p : this->launcher->parameters()) {
      std::optional<int> at = schema.argumentIndexWithName(p.name);
      if (p.kind == Parameter::Out && !isWritten(at)) // one output alone is called as PyTorch's operators call theirs
        at = isWritten(schema.argumentIndexWithName("out")) ? schema.argumentIndexWithName("out") : std::nullopt;
      argumentOf.push_back(at.value_or(-1));
      if (!at)
        continue;
      bool written = isWritten(at);
      size_t i = argumentOf.size() - 1;
      if (p.kind == Parameter::InOut && !written)
        copied.push_back(i);
      if (p.kind == Parameter::Out && written)
        returned.push_back(i);
    }
  }

  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet, Stack *stack) {
    size_t count = op.schema().arguments().size();
    std::vector<c10::IValue> values(argumentOf.size());
    for (size_t i = 0; i < values.size(); ++i)
      if (argumentOf[i] >= 0)
        values[i] = torch::jit::peek(*stack, static_cast<size_t>(argumentOf[i]), count);
    for (size_t i : copied)
      values[i] = values[i].toTensor().clone(at::MemoryFormat::Contiguous);
    std::vector<at::Tensor> fresh;
    try {
      fresh = launcher->callBoxed(values);
    } catch (nb::python_error &raised) { // as PyTorch's own exception for those of Python, else it becomes a text
      nb::gil_scoped_acquire gil;
      raised.restore();
      python_error error;
      error.persist();
      throw error;
    }
    torch::jit::drop(*stack, count);
    for (at::Tensor &tensor : fresh)
      stack->emplace_back(std::move(tensor));
    for (size_t i : copied)
      stack->emplace_back(std::move(values[i]));
    for (size_t i : returned)
      stack->emplace_back(std::move(values[i]));
  }

private:
  std::shared_ptr<KernelLauncher> launcher;
  std::vector<int> argumentOf; // per parameter; -1: not in the schema
  std::vector<size_t> copied, returned;
};

/// Where nothing is differentiated, autograd is passed by; else Python's operator `NAME__differentiated`, which takes
/// what this one takes, makes the node.
class AutogradKernel final : public c10::OperatorKernel {
public:
  explicit AutogradKernel(c10::OperatorName differentiated) : differentiated(std::move(differentiated)) {}

  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack) {
    size_t count = op.schema().arguments().size();
    bool wanted = false;
    bool reverse = at::GradMode::is_enabled();
    for (size_t i = 0; i < count; ++i)
      if (const c10::IValue &value = torch::jit::peek(*stack, i, count); value.isTensor())
        wanted |= (reverse && value.toTensor().requires_grad()) || value.toTensor()._fw_grad(/*level=*/0).defined();
    if (wanted) {
      c10::Dispatcher::singleton()
          .findSchemaOrThrow(differentiated.name.c_str(), differentiated.overload_name.c_str())
          .callBoxed(stack);
      return;
    }
    at::AutoDispatchBelowAutograd below;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }

private:
  c10::OperatorName differentiated;
};

std::vector<Parameter> readParameters(const nb::list &list) {
  static constexpr std::pair<std::string_view, Parameter::Kind> kinds[] = {
      {"in", Parameter::In},         {"out", Parameter::Out},       {"inout", Parameter::InOut},
      {"int", Parameter::Int},       {"float", Parameter::Float},   {"bool", Parameter::Bool},
      {"number", Parameter::Number}, {"const", Parameter::Constant}};
  std::vector<Parameter> result;
  for (nb::handle item : list) {
    auto kind = nb::cast<std::string>(item[0]);
    const auto *found = std::find_if(std::begin(kinds), std::end(kinds), [&](auto &k) { return k.first == kind; });
    if (found == std::end(kinds))
      throw nb::value_error("kind of a parameter");
    Parameter p{found->second,
                nb::cast<std::string>(item[1]),
                nb::cast<size_t>(item[2]),
                nb::cast<bool>(item[3]),
                nb::cast<int64_t>(item[5]),
                nb::cast<int64_t>(item[6]),
                nb::borrow(item[1]),
                nb::object()};
    PyObject *key = p.key.release().ptr();
    PyUnicode_InternInPlace(&key);
    p.key = nb::steal(key);
    if (nb::tuple defaults = nb::cast<nb::tuple>(item[4]); defaults.size() == 1)
      p.defaultValue = defaults[0];
    result.push_back(std::move(p));
  }
  return result;
}

} // namespace

void registerKernelOperator(const std::string &name, const std::string &overload,
                            const std::shared_ptr<KernelLauncher> &launcher) {
  // Never freed: the dispatcher may outlive whatever order statics are destroyed in.
  static auto *library = new torch::Library(torch::Library::FRAGMENT, kNamespace, std::nullopt, __FILE__, __LINE__);
  std::string full = std::string(kNamespace) + "::" + name;
  c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(full.c_str(), overload.c_str());
  std::string local = overload.empty() ? name : name + "." + overload;
  for (c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::PrivateUse1})
    if (launcher)
      library->impl(local.c_str(), torch::dispatch(key, torch::CppFunction::makeFromBoxedFunctor(
                                                            std::make_unique<OperatorKernel>(launcher, op.schema()))));
  library->impl(local.c_str(),
                torch::dispatch(c10::DispatchKey::Autograd,
                                torch::CppFunction::makeFromBoxedFunctor(std::make_unique<AutogradKernel>(
                                    c10::OperatorName(full + "__differentiated", overload)))));
}

void bindKernels(nb::module_ &m) {
  nb::class_<KernelLauncher>(m, "KernelLauncher", "Calls a hand-written kernel; see language/launch.py.")
      .def(
          "__init__",
          [](KernelLauncher *self, std::string name, const nb::list &parameters, const nb::object &owner) {
            new (self) KernelLauncher(std::move(name), readParameters(parameters), owner);
          },
          nb::arg("name"), nb::arg("parameters"), nb::arg("owner"))
      .def("__call__", &KernelLauncher::call)
      .def("call_bound", &KernelLauncher::callBound, nb::arg("objects"))
      .def("prepare", &KernelLauncher::prepare, nb::arg("device"), nb::arg("described"))
      .def("clear", &KernelLauncher::clear)
      .def_prop_ro("count", &KernelLauncher::count);
  m.def("register_kernel_operator", &registerKernelOperator, nb::arg("name"), nb::arg("overload"),
        nb::arg("launcher").none());
}

} // namespace tilewright::npu
