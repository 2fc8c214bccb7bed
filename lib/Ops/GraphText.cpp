//===- GraphText.cpp - a call as a graph description ----------------------===//
//
// docs/graph-format.md. The walk is the same as the signature's, so inputs come in the same order.
//
//===----------------------------------------------------------------------===//
#include "Signature.h"

#include <charconv>
#include <cmath>

namespace tilewright::ops {

namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out + '"';
}

std::string numberText(double v) {
  if (std::isnan(v))
    return R"({"float": "nan"})";
  if (std::isinf(v))
    return v > 0 ? R"({"float": "inf"})" : R"({"float": "-inf"})";
  char buffer[64];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer), v); // shortest that reads back equal
  std::string text(buffer, end);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text; // a float stays one
}

std::string symbolName(unsigned id) { return "s" + std::to_string(id); }

std::string extentText(const Extent &e) {
  return e.kind == Extent::Symbol ? symbolName(e.value) : std::to_string(e.value);
}

} // namespace

class GraphText {
public:
  explicit GraphText(const Signature &signature) : s(signature) {}

  std::string run() {
    out = "{\"version\": 1, \"name\": " + quote(s.call.op) + ", \"device\": " + quote(s.call.device) + ",\n";
    symbols();
    inputs();
    node();
    outputs();
    mutations();
    return out + "}";
  }

private:
  template <class Range, class Fn> void list(const Range &range, Fn &&fn) {
    out += '[';
    bool first = true;
    for (const auto &item : range) {
      out += first ? "" : ", ";
      first = false;
      fn(item);
    }
    out += ']';
  }

  /// Without hints: they would differ from call to call, and equal signatures have equal graphs.
  void symbols() {
    out += " \"symbols\": [";
    for (size_t i = 0; i < s.symbolCount; ++i)
      out += std::string(i ? ", " : "") + "{\"name\": \"" + symbolName(i) + "\", \"min\": 2}";
    out += "],\n";
  }

  std::string strideText(const TensorClass &t, unsigned d) const {
    const Extent &e = t.strides[d];
    if (e.kind != Extent::Dense)
      return extentText(e);
    std::string inner = strideText(t, e.value), size = extentText(t.sizes[e.value]);
    if (size == "0")
      return "0";
    if (size == "1")
      return inner;
    return inner == "1" ? size : inner + "*" + size;
  }

  void inputs() {
    out += " \"inputs\": ";
    size_t index = 0;
    list(s.list, [&](const InputClass &input) {
      std::string name = "\"name\": \"input" + std::to_string(index++) + "\"}";
      switch (input.kind) {
      case InputClass::Int:
        out += R"({"kind": "int", )" + name;
        return;
      case InputClass::SymbolInt:
        out += R"({"kind": "int", "symbol": ")" + symbolName(input.symbol) + "\", " + name;
        return;
      case InputClass::Float:
        out += R"({"kind": "float", )" + name;
        return;
      case InputClass::Tensor:
        break;
      }
      const TensorClass &t = input.tensor;
      out += R"({"kind": "tensor", "dtype": ")" + std::string(nameOf(t.tensor->dtype)) + "\", \"sizes\": ";
      std::vector<std::string> sizes, strides;
      auto literal = [](const std::string &text) { return text == "0" || text == "1" ? text : "\"" + text + "\""; };
      for (unsigned d = 0; d < t.rank; ++d) {
        sizes.push_back(literal(extentText(t.sizes[d])));
        strides.push_back(literal(strideText(t, d)));
      }
      list(sizes, [&](const std::string &text) { out += text; });
      out += ", \"strides\": ";
      list(strides, [&](const std::string &text) { out += text; });
      out += std::string(", \"role\": ") + (t.tensor->parameter ? "\"parameter\", " : "\"input\", ") + name;
    });
    out += ",\n";
  }

  void value() { out += "{\"v\": " + std::to_string(s.refs[next++]) + "}"; }

  void number(const Number &n) {
    if (s.isRunTime(n))
      value();
    else if (const auto *b = std::get_if<bool>(&n.value))
      out += *b ? "true" : "false";
    else if (const auto *i = std::get_if<int64_t>(&n.value))
      out += std::to_string(*i);
    else
      out += numberText(std::get<double>(n.value));
  }

  void size(int64_t v) {
    if (v < 2)
      out += std::to_string(v);
    else
      out += "{\"size\": \"" + symbolName(s.list[s.refs[next++]].symbol) + "\"}";
  }

  void argument(const OpArgument &a) {
    switch (a.value.index()) {
    case 0:
      out += "null";
      break;
    case 1:
      value();
      break;
    case 2:
      number(std::get<Number>(a.value));
      break;
    case 3:
      size(std::get<Size>(a.value).value);
      break;
    case 4:
      out += std::get<bool>(a.value) ? "true" : "false";
      break;
    case 5:
      out += std::to_string(std::get<int64_t>(a.value));
      break;
    case 6:
      out += numberText(std::get<double>(a.value));
      break;
    case 7:
      out += quote(std::get<std::string_view>(a.value));
      break;
    case 8:
      out += "{\"dtype\": \"" + std::string(nameOf(std::get<DType>(a.value))) + "\"}";
      break;
    case 9:
      out += "{" + quote(std::get<Opaque>(a.value).kind) + ": " + quote(std::get<Opaque>(a.value).text) + "}";
      break;
    case 10:
      list(std::get<TensorList>(a.value), [&](const TensorArgument *t) { t ? value() : void(out += "null"); });
      break;
    case 11:
      list(std::get<IntList>(a.value), [&](int64_t v) { out += std::to_string(v); });
      break;
    case 12:
      list(std::get<SizeList>(a.value).values, [&](int64_t v) { size(v); });
      break;
    case 13:
      list(std::get<FloatList>(a.value), [&](double v) { out += numberText(v); });
      break;
    case 14:
      list(std::get<BoolList>(a.value), [&](bool v) { out += v ? "true" : "false"; });
      break;
    }
  }

  void node() {
    out += " \"nodes\": [{\"op\": " + quote(s.call.op) + ", \"args\": ";
    list(s.call.args, [&](const OpArgument &a) { argument(a); });
    out += ", \"kwargs\": {";
    bool first = true;
    for (const NamedArgument &a : s.call.kwargs) {
      out += (first ? "" : ", ") + quote(a.name) + ": ";
      first = false;
      argument(a.value);
    }
    out += "}, \"results\": " + std::to_string(s.call.results) + "}],\n";
  }

  std::string resultText(uint32_t result) const { return std::to_string(s.list.size() + result); }

  void outputs() {
    out += " \"outputs\": [";
    for (unsigned r = 0; r < s.call.results; ++r) {
      bool isWritten = false;
      for (const Mutation &m : s.call.mutations)
        isWritten |= m.result == r;
      out += std::string(r ? ", " : "") + (isWritten ? "null" : "{\"v\": " + resultText(r) + "}");
    }
    out += "],\n";
  }

  void mutations() {
    out += " \"mutations\": [";
    for (size_t i = 0; i < s.call.mutations.size(); ++i)
      out += std::string(i ? ", " : "") + "{\"input\": " + std::to_string(s.written[i]) +
             ", \"value\": " + resultText(s.call.mutations[i].result) + "}";
    out += "]";
  }

  const Signature &s;
  std::string out;
  size_t next = 0; // occurrence
};

std::string Signature::graph() const { return GraphText(*this).run(); }

} // namespace tilewright::ops
