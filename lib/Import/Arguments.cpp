//===- Arguments.cpp - a node's arguments by name -------------------------===//
//
// Parameters are written as in ATen's schema, without types: "self, other, *, alpha=1".
//
//===----------------------------------------------------------------------===//
#include "Builder.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace tilewright::importer {

using graph::Arg;

static std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ')
    s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ')
    s.remove_suffix(1);
  return s;
}

static Arg literal(std::string_view text) {
  if (text == "None")
    return {};
  if (text == "True" || text == "False")
    return {text == "True"};
  if (text == "[]")
    return {Arg::List{}};
  if (text.front() == '"')
    return {std::string(text.substr(1, text.size() - 2))};
  if (text == "inf" || text == "-inf")
    return {text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity()};
  const char *end = text.data() + text.size();
  if (int64_t value; text.find_first_of(".e") == text.npos && std::from_chars(text.data(), end, value).ptr == end)
    return {value};
  if (double value; std::from_chars(text.data(), end, value).ptr == end)
    return {value};
  throw std::logic_error("default value \"" + std::string(text) + "\"");
}

Builder::Builder(ModuleState &state, const graph::Node &node, std::string_view parameters) : state(state), node(node) {
  size_t position = 0;
  std::vector<bool> used(node.kwargs.size());
  for (std::string_view rest = parameters; !rest.empty();) {
    const size_t comma = rest.find(',');
    std::string_view parameter = trim(rest.substr(0, comma));
    rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    if (parameter == "*")
      continue;
    const size_t equals = parameter.find('=');
    const std::string name(parameter.substr(0, equals));
    const auto named =
        std::find_if(node.kwargs.begin(), node.kwargs.end(), [&](const auto &k) { return k.first == name; });
    if (named != node.kwargs.end()) {
      if (position < node.args.size())
        throw Invalid("argument '" + name + "' is given twice");
      used[named - node.kwargs.begin()] = true;
      bound.emplace_back(name, named->second);
    } else if (position < node.args.size()) {
      bound.emplace_back(name, node.args[position++]);
    } else if (equals != parameter.npos) {
      bound.emplace_back(name, literal(parameter.substr(equals + 1)));
    } else {
      throw Invalid("argument '" + name + "' is missing");
    }
  }
  if (position < node.args.size())
    throw Invalid("takes " + std::to_string(bound.size()) + " arguments, " + std::to_string(node.args.size()) +
                  " were given");
  // Where results are put says nothing about their values.
  static constexpr std::string_view ignored[] = {"device", "layout", "pin_memory", "memory_format", "non_blocking"};
  for (size_t i = 0; i < used.size(); ++i)
    if (!used[i] && std::find(std::begin(ignored), std::end(ignored), node.kwargs[i].first) == std::end(ignored))
      throw Invalid("has no argument '" + node.kwargs[i].first + "'");
}

const Arg &Builder::arg(std::string_view name) {
  for (const auto &[key, value] : bound)
    if (key == name)
      return value;
  throw std::logic_error("the entry of " + node.op + " asks for an argument '" + std::string(name) +
                         "' it does not list");
}

void Builder::wrongKind(std::string_view name, const char *expected) {
  throw Invalid("argument '" + std::string(name) + "' must be " + expected);
}

bool Builder::isNone(std::string_view name) { return arg(name).isNone(); }

static Tensor tensorOf(const ModuleState &state, const graph::ValueRef &ref) {
  const Value &value = state.values.at(ref.id);
  if (const Tensor *t = std::get_if<Tensor>(&value)) {
    if (isComplex(t->dtype))
      throw Unsupported("complex numbers have no native code");
    return *t;
  }
  if (std::holds_alternative<std::monostate>(value))
    throw Invalid("value " + std::to_string(ref.id) + " is a result that its operator leaves out");
  throw Invalid("value " + std::to_string(ref.id) + " is a number, not a tensor");
}

static std::optional<Scalar> scalarOf(const ModuleState &state, const Arg &a) {
  if (const bool *v = a.get<bool>())
    return Scalar(*v);
  if (const int64_t *v = a.get<int64_t>())
    return Scalar(*v);
  if (const double *v = a.get<double>())
    return Scalar(*v);
  if (const SizeExpr *v = a.get<SizeExpr>())
    return Scalar(*v);
  if (a.get<graph::Complex>())
    throw Unsupported("complex numbers have no native code");
  if (const graph::ValueRef *ref = a.get<graph::ValueRef>()) {
    if (const NumberInput *number = std::get_if<NumberInput>(&state.values.at(ref->id))) {
      const loop::Input &input = state.module.inputs[number->input];
      if (input.symbol >= 0)
        return Scalar(SizeExpr::symbol(input.symbol));
      return Scalar(Tensor{input.dtype, input.buffer, {}, {}, 0});
    }
    if (Tensor t = tensorOf(state, *ref); t.rank() == 0)
      return Scalar(std::move(t));
  }
  return std::nullopt;
}

Operand Builder::operand(std::string_view name) {
  const Arg &a = arg(name);
  if (const graph::ValueRef *ref = a.get<graph::ValueRef>())
    if (std::holds_alternative<Tensor>(state.values.at(ref->id)))
      return tensorOf(state, *ref);
  if (std::optional<Scalar> s = scalarOf(state, a))
    return *s;
  wrongKind(name, "a tensor or a number");
}

Tensor Builder::tensor(std::string_view name) {
  const graph::ValueRef *ref = arg(name).get<graph::ValueRef>();
  if (!ref)
    wrongKind(name, "a tensor");
  return tensorOf(state, *ref);
}

std::optional<Tensor> Builder::optionalTensor(std::string_view name) {
  return isNone(name) ? std::nullopt : std::optional(tensor(name));
}

std::vector<Tensor> Builder::tensors(std::string_view name) {
  std::vector<Tensor> result;
  for (std::optional<Tensor> &t : optionalTensors(name)) {
    if (!t)
      wrongKind(name, "a list of tensors without None");
    result.push_back(std::move(*t));
  }
  return result;
}

std::vector<std::optional<Tensor>> Builder::optionalTensors(std::string_view name) {
  const Arg::List *list = arg(name).get<Arg::List>();
  if (!list)
    wrongKind(name, "a list of tensors");
  std::vector<std::optional<Tensor>> result;
  for (const Arg &a : *list) {
    const graph::ValueRef *ref = a.get<graph::ValueRef>();
    if (!ref && !a.isNone())
      wrongKind(name, "a list of tensors");
    result.push_back(ref ? std::optional(tensorOf(state, *ref)) : std::nullopt);
  }
  return result;
}

Scalar Builder::scalar(std::string_view name) {
  if (std::optional<Scalar> s = scalarOf(state, arg(name)))
    return *s;
  wrongKind(name, "a number");
}

std::optional<Scalar> Builder::optionalScalar(std::string_view name) {
  return isNone(name) ? std::nullopt : std::optional(scalar(name));
}

std::vector<Scalar> Builder::scalars(std::string_view name) {
  const Arg::List *list = arg(name).get<Arg::List>();
  std::vector<Scalar> result;
  for (size_t i = 0; list && i < list->size(); ++i)
    if (std::optional<Scalar> s = scalarOf(state, (*list)[i]))
      result.push_back(std::move(*s));
  if (!list || result.size() != list->size())
    wrongKind(name, "a list of numbers");
  return result;
}

static std::optional<SizeExpr> sizeOf(const ModuleState &state, const Arg &a) {
  if (const int64_t *v = a.get<int64_t>())
    return SizeExpr(*v);
  if (const SizeExpr *v = a.get<SizeExpr>())
    return *v;
  if (std::optional<Scalar> s = a.get<graph::ValueRef>() ? scalarOf(state, a) : std::nullopt)
    if (const SizeExpr *v = std::get_if<SizeExpr>(&s->value))
      return *v;
  return std::nullopt;
}

SizeExpr Builder::size(std::string_view name) {
  if (std::optional<SizeExpr> e = sizeOf(state, arg(name)))
    return *e;
  wrongKind(name, "an integer");
}

std::optional<SizeExpr> Builder::optionalSize(std::string_view name) {
  return isNone(name) ? std::nullopt : std::optional(size(name));
}

Sizes Builder::sizes(std::string_view name) {
  const Arg &a = arg(name);
  const Arg::List *list = a.get<Arg::List>();
  if (!list)
    return {size(name)};
  Sizes result;
  for (const Arg &element : *list) {
    std::optional<SizeExpr> e = sizeOf(state, element);
    if (!e)
      wrongKind(name, "a list of integers");
    result.push_back(*e);
  }
  return result;
}

int64_t Builder::integer(std::string_view name) {
  std::optional<int64_t> c = size(name).constant();
  if (!c)
    throw Unsupported("argument '" + std::string(name) + "' is symbolic, but decides about the code");
  return *c;
}

std::optional<int64_t> Builder::optionalInteger(std::string_view name) {
  return isNone(name) ? std::nullopt : std::optional(integer(name));
}

std::vector<int64_t> Builder::integers(std::string_view name) {
  std::vector<int64_t> result;
  if (isNone(name))
    return result;
  for (const SizeExpr &e : sizes(name)) {
    std::optional<int64_t> c = e.constant();
    if (!c)
      throw Unsupported("argument '" + std::string(name) + "' is symbolic, but decides about the code");
    result.push_back(*c);
  }
  return result;
}

double Builder::number(std::string_view name) {
  std::optional<double> c = scalar(name).constant();
  if (!c)
    throw Unsupported("argument '" + std::string(name) + "' is only known at run time, but decides about the code");
  return *c;
}

std::optional<double> Builder::optionalNumber(std::string_view name) {
  return isNone(name) ? std::nullopt : std::optional(number(name));
}

bool Builder::flag(std::string_view name) {
  const Arg &a = arg(name);
  if (const bool *v = a.get<bool>())
    return *v;
  if (const int64_t *v = a.get<int64_t>())
    return *v != 0;
  wrongKind(name, "a bool");
}

std::optional<bool> Builder::optionalFlag(std::string_view name) {
  return isNone(name) ? std::nullopt : std::optional(flag(name));
}

std::vector<bool> Builder::flags(std::string_view name) {
  const Arg::List *list = arg(name).get<Arg::List>();
  std::vector<bool> result;
  for (size_t i = 0; list && i < list->size(); ++i)
    if (const bool *v = (*list)[i].get<bool>())
      result.push_back(*v);
  if (!list || result.size() != list->size())
    wrongKind(name, "a list of bools");
  return result;
}

std::string Builder::text(std::string_view name) {
  const Arg &a = arg(name);
  if (const std::string *v = a.get<std::string>())
    return *v;
  if (const graph::Opaque *v = a.get<graph::Opaque>())
    return v->text;
  if (a.isNone())
    return "";
  wrongKind(name, "a string");
}

std::optional<DType> Builder::dtype(std::string_view name) {
  const Arg &a = arg(name);
  if (a.isNone())
    return std::nullopt;
  const DType *type = a.get<DType>();
  if (!type)
    wrongKind(name, "a dtype");
  if (isComplex(*type))
    throw Unsupported("complex numbers have no native code");
  return *type;
}

const graph::OutputInfo *Builder::described(size_t i) const {
  return i < node.outputs.size() && node.outputs[i] ? &*node.outputs[i] : nullptr;
}

unsigned Builder::dimension(int64_t dim, unsigned rank) const {
  const int64_t limit = std::max<int64_t>(rank, 1);
  if (dim < -limit || dim >= limit)
    throw Invalid("Dimension out of range (expected to be in range of [" + std::to_string(-limit) + ", " +
                  std::to_string(limit - 1) + "], but got " + std::to_string(dim) + ")");
  return static_cast<unsigned>(dim < 0 ? dim + limit : dim);
}

std::vector<unsigned> Builder::dimensions(const std::vector<int64_t> &dims, unsigned rank, bool emptyIsAll) const {
  std::vector<unsigned> result;
  if (dims.empty() && emptyIsAll) {
    for (unsigned d = 0; d < rank; ++d)
      result.push_back(d);
    return result;
  }
  for (int64_t dim : dims)
    result.push_back(dimension(dim, rank));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    throw Invalid("a dimension appears multiple times in the list of dims");
  if (rank == 0)
    result.clear();
  return result;
}

} // namespace tilewright::importer
