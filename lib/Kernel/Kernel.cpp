//===- Kernel.cpp - tile kernels from C++ -----------------------------------===//

#include "tilewright/Kernel/Kernel.h"

#include "tilewright/Runtime/Executable.h"
#include "tilewright/Runtime/ProgramCache.h"
#include "tilewright/Support/ScalarOps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>

namespace tilewright::kernel {

namespace {

std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "\"";
}

template <typename List, typename Fn> std::string joined(const List &list, Fn fn) {
  std::string result = "[";
  for (const auto &item : list)
    result += (result.size() > 1 ? ", " : "") + fn(item);
  return result + "]";
}

std::string texts(const std::vector<Size> &sizes) {
  return joined(sizes, [](const Size &s) { return quoted(s.str()); });
}

std::string dtypeField(DType dtype) { return "\"dtype\": " + quoted(std::string(nameOf(dtype))); }

std::string number(double value) {
  if (std::isnan(value))
    return "\"nan\"";
  if (std::isinf(value))
    return value < 0 ? "\"-inf\"" : "\"inf\"";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string term(uint32_t dim) { return "[[" + std::to_string(dim) + ", \"1\"]]"; }

/// A view's map entry: dimension `dim` of the result, or index 0.
std::string mapEntry(std::optional<uint32_t> dim) {
  return "{\"start\": \"0\", \"terms\": " + (dim ? term(*dim) : "[]") + "}";
}

} // namespace

struct Builder::Impl {
  std::string name;
  std::vector<std::string> symbols, params, statements; // JSON
  uint32_t values = 0;
  std::vector<std::string> *list = &statements; // being filled
  bool finished = false;
  uint32_t localSymbols = 0;
  static constexpr uint32_t kFirstLocal = 64; // named symbols come first
};

Builder::Builder(std::string name) : impl(std::make_unique<Impl>()) { impl->name = std::move(name); }
Builder::~Builder() = default;

Size Builder::symbol(std::string name) {
  if (impl->symbols.size() == Impl::kFirstLocal)
    throw std::invalid_argument(impl->name + ": a kernel has at most 64 sizes");
  impl->symbols.push_back(quoted(name));
  return Size::symbol(impl->symbols.size() - 1);
}

Param Builder::param(const char *kind, std::string name, DType dtype, std::vector<Size> sizes) {
  Param result;
  result.index = impl->params.size();
  result.dtype = dtype;
  impl->params.push_back("{\"name\": " + quoted(name) + ", \"kind\": \"" + kind + "\", " + dtypeField(dtype) +
                         ", \"sizes\": " + texts(sizes) + ", \"layout\": \"strided\"}");
  result.sizes = std::move(sizes);
  return result;
}

Number Builder::scalar(std::string name, DType dtype) {
  uint32_t index = impl->params.size();
  impl->params.push_back("{\"name\": " + quoted(name) + ", \"kind\": \"scalar\", " + dtypeField(dtype) + "}");
  return value("scalar", "\"param\": " + std::to_string(index), dtype, {});
}

Tile Builder::value(std::string_view op, std::string fields, DType dtype, std::vector<Size> shape) {
  if (impl->finished)
    throw std::invalid_argument(impl->name + ": nothing follows the grid");
  Tile result;
  result.builder = this;
  result.id = impl->values++;
  result.type = dtype;
  impl->list->push_back("{\"op\": " + quoted(std::string(op)) + ", \"id\": " + std::to_string(result.id) + ", " +
                        fields + (fields.empty() ? "" : ", ") + dtypeField(dtype) + ", \"shape\": " + texts(shape) +
                        "}");
  result.sizes = std::move(shape);
  return result;
}

Axis Builder::open(const Range &range, std::string &text) {
  Axis axis;
  uint32_t start = Impl::kFirstLocal + impl->localSymbols++;
  axis.begin = Size::symbol(start);
  text = "{\"start\": " + std::to_string(start);
  if (range.tile != 1) {
    uint32_t size = Impl::kFirstLocal + impl->localSymbols++;
    axis.extent = Size::symbol(size);
    text += ", \"size\": " + std::to_string(size);
  }
  text += ", \"begin\": " + quoted(range.begin.str()) + ", \"end\": " + quoted(range.end.str()) + ", \"tile\": " +
          (range.tile == 0   ? "null"
           : range.tile == 1 ? "\"scalar\""
                             : std::to_string(range.tile)) +
          "}";
  return axis;
}

void Builder::parallel(std::vector<Range> ranges, const std::function<void(std::span<const Axis>)> &body) {
  std::vector<Axis> axes;
  std::vector<std::string> described(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i)
    axes.push_back(open(ranges[i], described[i]));
  std::vector<std::string> inner, *outer = impl->list;
  impl->list = &inner;
  body(axes);
  impl->list = outer;
  auto same = [](const std::string &s) { return s; };
  impl->list->push_back("{\"op\": \"parallel\", \"axes\": " + joined(described, same) +
                        ", \"body\": " + joined(inner, same) + "}");
  impl->finished = true;
}

std::vector<Tile> Builder::loop(Range range, std::vector<Tile> init,
                                const std::function<std::vector<Tile>(Axis, std::span<const Tile>)> &body) {
  std::string described;
  Axis axis = open(range, described);
  std::vector<Tile> args, results;
  for (Tile tile : init) {
    tile.id = impl->values++;
    args.push_back(std::move(tile));
  }
  std::vector<std::string> inner, *outer = impl->list;
  impl->list = &inner;
  std::vector<Tile> next = body(axis, args);
  impl->list = outer;
  if (next.size() != init.size())
    throw std::invalid_argument(impl->name + ": a loop starts with " + std::to_string(init.size()) +
                                " values and hands on " + std::to_string(next.size()));
  std::string carried;
  for (size_t i = 0; i < init.size(); ++i) {
    if (next[i].type != init[i].type || next[i].sizes != init[i].sizes)
      throw std::invalid_argument(impl->name + ": value " + std::to_string(i) +
                                  " of a loop changes its dtype or shape");
    Tile result = init[i];
    result.id = impl->values++;
    carried += (carried.empty() ? "" : ", ") + ("{\"init\": " + std::to_string(init[i].id)) +
               ", \"arg\": " + std::to_string(args[i].id) + ", \"next\": " + std::to_string(next[i].id) +
               ", \"result\": " + std::to_string(result.id) + "}";
    results.push_back(std::move(result));
  }
  impl->list->push_back("{\"op\": \"for\", \"axis\": " + described + ", \"carried\": [" + carried +
                        "], \"body\": " + joined(inner, [](const std::string &s) { return s; }) + "}");
  return results;
}

std::string Builder::places(const Param &param, const std::vector<Where> &where, std::vector<Size> *shape) {
  if (where.size() != param.sizes.size())
    throw std::invalid_argument(impl->name + ": a parameter of " + std::to_string(param.sizes.size()) +
                                " dimensions is indexed by " + std::to_string(where.size()));
  std::string result = "[";
  uint32_t dim = 0;
  for (size_t d = 0; d < where.size(); ++d) {
    std::string start = "0", terms = "[]";
    if (const Axis *axis = std::get_if<Axis>(&where[d])) {
      start = axis->begin.str();
      if (axis->extent) {
        terms = term(dim++);
        if (shape)
          shape->push_back(*axis->extent);
      }
    } else if (const Size *at = std::get_if<Size>(&where[d])) {
      start = at->str();
    } else {
      terms = term(dim++);
      if (shape)
        shape->push_back(param.sizes[d]);
    }
    result += (d ? ", " : "") + ("{\"start\": " + quoted(start)) + ", \"terms\": " + terms + "}";
  }
  return result + "]";
}

Tile Builder::load(const Param &from, const std::vector<Where> &where) {
  std::vector<Size> shape;
  std::string index = places(from, where, &shape);
  return value("load", "\"param\": " + std::to_string(from.index) + ", \"index\": " + index, from.dtype, shape);
}

void Builder::store(const Param &to, const std::vector<Where> &where, const Tile &tile) {
  std::vector<Size> shape;
  std::string index = places(to, where, &shape);
  if (tile.type != to.dtype)
    throw std::invalid_argument(impl->name + ": a store of " + std::string(nameOf(tile.type)) + " to a parameter of " +
                                std::string(nameOf(to.dtype)) + ": cast it");
  Tile stored = broadcast(tile, shape);
  impl->list->push_back("{\"op\": \"store\", \"param\": " + std::to_string(to.index) + ", \"index\": " + index +
                        ", \"value\": " + std::to_string(stored.id) + "}");
}

Tile Builder::constant(double v, DType dtype) {
  std::string text = dtype == DType::Bool ? (v != 0 ? "true" : "false")
                     : isFloat(dtype)     ? number(v)
                                          : std::to_string(static_cast<int64_t>(v));
  return value("const", "\"value\": " + text, dtype, {});
}

Tile Builder::full(std::vector<Size> shape, double v, DType dtype) { return broadcast(constant(v, dtype), shape); }

Tile Builder::size(const Size &v) { return value("size", "\"size\": " + quoted(v.str()), DType::I64, {}); }

Tile Builder::indices(const Axis &axis) {
  Tile within = value("iota", "\"axis\": 0", DType::I64, {axis.size()});
  return apply("add", {within, size(axis.begin)});
}

Tile Builder::broadcast(const Tile &x, const std::vector<Size> &shape) {
  if (x.sizes == shape)
    return x;
  if (x.sizes.size() > shape.size())
    throw std::invalid_argument(impl->name + ": a tile of " + std::to_string(x.sizes.size()) +
                                " dimensions meets one of " + std::to_string(shape.size()));
  std::string map = "[";
  for (size_t k = 0; k < x.sizes.size(); ++k) {
    uint32_t dim = shape.size() - x.sizes.size() + k;
    bool repeated = x.sizes[k].isConstant(1) && !shape[dim].isConstant(1);
    if (!repeated && !(x.sizes[k] == shape[dim]))
      throw std::invalid_argument(impl->name + ": sizes " + x.sizes[k].str() + " and " + shape[dim].str() +
                                  " do not agree");
    map += (k ? ", " : "") + mapEntry(repeated ? std::nullopt : std::optional(dim));
  }
  return value("view", "\"args\": [" + std::to_string(x.id) + "], \"map\": " + map + "]", x.type, shape);
}

Tile Builder::cast(const Tile &x, DType dtype) {
  return x.type == dtype ? x : value("cast", "\"args\": [" + std::to_string(x.id) + "]", dtype, x.sizes);
}

Tile Builder::apply(std::string_view op, std::vector<Tile> operands) {
  static constexpr std::array comparisons = {"eq", "ne", "lt", "le"};
  static const std::map<std::string_view, size_t> operations = [] {
    std::map<std::string_view, size_t> counts;
#define X(e, name, operands, cost) counts.emplace(name, operands);
    TILEWRIGHT_SCALAR_OPS(X)
#undef X
    return counts;
  }();
  auto operation = operations.find(op);
  if (operation == operations.end() || operation->second != operands.size() || operands.empty())
    throw std::invalid_argument(impl->name + ": no operation " + std::string(op) + " of " +
                                std::to_string(operands.size()) + " operands");
  std::vector<Size> shape;
  for (const Tile &x : operands)
    if (x.sizes.size() >= shape.size())
      shape = x.sizes;
  for (const Tile &x : operands)
    for (size_t k = 0; k < x.sizes.size(); ++k) {
      Size &size = shape[shape.size() - x.sizes.size() + k];
      if (size.isConstant(1))
        size = x.sizes[k];
    }
  DType dtype = operands.back().type;
  std::string args;
  for (size_t i = 0; i < operands.size(); ++i) {
    bool condition = op == "select" && i == 0;
    if (operands[i].type != (condition ? DType::Bool : dtype))
      throw std::invalid_argument(impl->name + ": " + std::string(op) + " of " + std::string(nameOf(operands[i].type)) +
                                  " and " + std::string(nameOf(dtype)) + ": cast one of them");
    args += (i ? ", " : "") + std::to_string(broadcast(operands[i], shape).id);
  }
  for (const char *comparison : comparisons)
    if (op == comparison)
      dtype = DType::Bool;
  return value(op, "\"args\": [" + args + "]", dtype, shape);
}

Tile Builder::reduce(std::string_view kind, const Tile &x, std::vector<uint32_t> axes, bool keep) {
  std::vector<Size> shape, kept;
  std::string map = "[";
  for (uint32_t d = 0; d < x.sizes.size(); ++d) {
    bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    kept.push_back(reduced ? Size(1) : x.sizes[d]);
    if (reduced)
      continue;
    map += (shape.empty() ? "" : ", ") + mapEntry(d);
    shape.push_back(x.sizes[d]);
  }
  bool index = kind == "argmax" || kind == "argmin";
  Tile result = value("reduce",
                      "\"kind\": " + quoted(std::string(kind)) + ", \"args\": [" + std::to_string(x.id) +
                          "], \"axes\": " + joined(axes, [](uint32_t a) { return std::to_string(a); }),
                      index ? DType::I64 : x.type, shape);
  return keep ? value("view", "\"args\": [" + std::to_string(result.id) + "], \"map\": " + map + "]", result.type, kept)
              : result;
}

Tile Builder::matmul(const Tile &a, const Tile &b) {
  size_t rank = a.sizes.size();
  if (rank < 2 || b.sizes.size() != rank || !(a.sizes[rank - 1] == b.sizes[rank - 2]) || a.type != b.type)
    throw std::invalid_argument(impl->name + ": matmul of tiles whose ranks, inner sizes or dtypes do not agree");
  std::vector<Size> shape = a.sizes;
  shape.back() = b.sizes.back();
  DType dtype = a.type == DType::BF16 || a.type == DType::F16 ? DType::F32 : a.type;
  return value("matmul", "\"args\": [" + std::to_string(a.id) + ", " + std::to_string(b.id) + "]", dtype, shape);
}

Tile Builder::transpose(const Tile &x) {
  size_t rank = x.sizes.size();
  if (rank < 2)
    throw std::invalid_argument(impl->name + ": transpose of a tile with fewer than two dimensions");
  std::vector<Size> shape = x.sizes;
  std::swap(shape[rank - 1], shape[rank - 2]);
  std::string map = "[";
  for (uint32_t d = 0; d < rank; ++d)
    map += (d ? ", " : "") + mapEntry(d + 2 < rank ? d : 2 * rank - 3 - d);
  return value("view", "\"args\": [" + std::to_string(x.id) + "], \"map\": " + map + "]", x.type, shape);
}

std::string Builder::text() const {
  auto same = [](const std::string &s) { return s; };
  std::string text = "{\"version\": 1, \"name\": " + quoted(impl->name) + ", \"symbols\": [";
  for (uint32_t s = 0; s < impl->symbols.size(); ++s)
    text += (s ? ", " : "") + impl->symbols[s];
  return text + "], \"params\": " + joined(impl->params, same) + ", \"body\": " + joined(impl->statements, same) + "}";
}

Compiled Builder::compile() const {
  Compiled result;
  result.executable = ProgramCache::instance().get(text(), CompileOptions::current()).executable;
  return result;
}

void Compiled::operator()(std::span<const Value> arguments, Stream *stream) const {
  const Program &program = executable->program();
  if (arguments.size() != program.inputs.size())
    throw std::invalid_argument(program.name + " takes " + std::to_string(program.inputs.size()) + " arguments, " +
                                std::to_string(arguments.size()) + " were given");
  std::vector<Argument> list(arguments.size());
  std::vector<std::vector<int64_t>> strides(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Value &given = arguments[i];
    Argument &argument = list[i];
    argument.dtype = program.inputs[i].dtype;
    argument.scalarInt = given.data ? 0 : given.integer ? given.integer : static_cast<int64_t>(given.number);
    argument.scalarFloat = given.number;
    if (program.inputs[i].kind != InputSpec::Tensor)
      continue;
    argument.data = given.data;
    argument.sizes = given.sizes;
    strides[i] = given.strides;
    if (given.strides.empty()) {
      strides[i].assign(given.sizes.size(), 1);
      for (size_t d = given.sizes.size(); d-- > 1;)
        strides[i][d - 1] = strides[i][d] * given.sizes[d];
    }
    argument.strides = strides[i];
  }
  executable->run(executable->bind(list), list, {}, stream);
}

Tile binary(std::string_view op, const Tile &x, const Tile &y) { return x.builder->apply(op, {x, y}); }
Tile binary(std::string_view op, const Tile &x, double y) {
  return x.builder->apply(op, {x, x.builder->constant(y, x.type)});
}
Tile binary(std::string_view op, double x, const Tile &y) {
  return y.builder->apply(op, {y.builder->constant(x, y.type), y});
}

} // namespace tilewright::kernel
