//===- Graph.cpp - reading graph descriptions -----------------------------===//
#include "tilewright/Graph/Graph.h"

#include "Cursor.h"

namespace tilewright::graph {
namespace {

class Reader {
public:
  Graph read(const Cursor &root) {
    if (int64_t version = root.at("version").integer(); version != Graph::kVersion)
      root.at("version").fail("version " + std::to_string(version) + " is not supported; this reads version " +
                              std::to_string(Graph::kVersion));
    root.onlyKeys({"version", "name", "device", "symbols", "inputs", "nodes", "outputs", "mutations"});
    if (auto name = root.find("name"))
      graph.name = name->string();
    if (auto device = root.find("device")) {
      graph.device = device->string();
      if (graph.device != "cpu" && graph.device != "npu")
        device->fail("unknown device \"" + graph.device + "\"; expected cpu or npu");
    }
    if (auto symbols = root.find("symbols"))
      symbols->each([&](const Cursor &c) { graph.symbols.push_back(symbol(c)); });
    root.at("inputs").each([&](const Cursor &c) { graph.inputs.push_back(input(c)); });
    values = graph.inputs.size();
    root.at("nodes").each([&](const Cursor &c) { graph.nodes.push_back(node(c)); });
    root.at("outputs").each([&](const Cursor &c) {
      graph.outputs.push_back(c.value().is_null() ? std::nullopt : std::optional(valueRef(c)));
    });
    if (auto mutations = root.find("mutations"))
      mutations->each([&](const Cursor &c) { graph.mutations.push_back(mutation(c)); });
    return std::move(graph);
  }

private:
  Symbol symbol(const Cursor &c) {
    c.onlyKeys({"name", "min", "max", "hint"});
    const auto optionalInteger = [&](const char *key) -> std::optional<int64_t> {
      auto found = c.find(key);
      return found && !found->value().is_null() ? std::optional(found->integer()) : std::nullopt;
    };
    Symbol s;
    s.name = c.at("name").string();
    if (const std::string expected = "s" + std::to_string(graph.symbols.size()); s.name != expected)
      c.at("name").fail("expected " + expected + ", found \"" + s.name + "\"");
    s.min = optionalInteger("min");
    s.max = optionalInteger("max");
    s.hint = optionalInteger("hint");
    return s;
  }

  Input input(const Cursor &c) {
    c.onlyKeys({"kind", "dtype", "sizes", "strides", "offset", "symbol", "name", "role"});
    Input in;
    const std::string &kind = c.at("kind").string();
    if (kind == "tensor") {
      in.dtype = c.at("dtype").dtype();
      in.sizes = c.at("sizes").sizes(graph.symbols.size());
      in.strides = c.at("strides").sizes(graph.symbols.size());
      if (in.strides.size() != in.sizes.size())
        c.fail(std::to_string(in.sizes.size()) + " sizes but " + std::to_string(in.strides.size()) + " strides");
      if (auto offset = c.find("offset"))
        in.offset = offset->size(graph.symbols.size());
    } else if (kind == "int") {
      in.kind = Input::Int;
      in.dtype = DType::I64;
      if (auto text = c.find("symbol"); text && !text->value().is_null())
        in.symbol = bareSymbol(*text);
    } else if (kind == "float") {
      in.kind = Input::Float;
      in.dtype = DType::F64;
    } else {
      c.at("kind").fail("unknown kind \"" + kind + "\"; expected tensor, int or float");
    }
    if (auto name = c.find("name"))
      in.name = name->string();
    if (auto role = c.find("role")) {
      in.role = role->string();
      if (in.role != "input" && in.role != "parameter" && in.role != "buffer")
        role->fail("unknown role \"" + in.role + "\"; expected input, parameter or buffer");
    }
    return in;
  }

  int bareSymbol(const Cursor &c) {
    for (size_t i = 0; i < graph.symbols.size(); ++i)
      if (graph.symbols[i].name == c.string())
        return static_cast<int>(i);
    c.fail("\"" + c.string() + "\" is not a declared symbol");
  }

  ValueRef valueRef(const Cursor &c) {
    c.onlyKeys({"v"});
    return {c.at("v").index(values, "value")};
  }

  Arg arg(const Cursor &c) {
    const Json &json = c.value();
    if (json.is_null())
      return {};
    if (json.is_boolean())
      return {json.get<bool>()};
    if (json.is_number_integer())
      return {c.integer()};
    if (json.is_number_float())
      return {json.get<double>()};
    if (json.is_string())
      return {c.string()};
    if (json.is_array()) {
      Arg::List list;
      c.each([&](const Cursor &element) { list.push_back(arg(element)); });
      return {std::move(list)};
    }
    if (json.size() != 1)
      c.fail("an argument object has exactly one key");
    const std::string key = json.begin().key();
    if (key == "v")
      return {valueRef(c)};
    if (key == "size") {
      SizeExpr e = c.at("size").size(graph.symbols.size());
      if (std::optional<int64_t> constant = e.constant())
        return {*constant};
      return {std::move(e)};
    }
    if (key == "dtype")
      return {c.at("dtype").dtype()};
    if (key == "float")
      return {special(c.at("float"))};
    if (key == "complex") {
      const Cursor parts = c.at("complex");
      if (!parts.value().is_array() || parts.value().size() != 2 || !parts.value()[0].is_number() ||
          !parts.value()[1].is_number())
        parts.fail("expected [real, imaginary]");
      return {Complex{parts.value()[0].get<double>(), parts.value()[1].get<double>()}};
    }
    if (key == "layout" || key == "device" || key == "memory_format")
      return {Opaque{key, c.at(key.c_str()).string()}};
    c.fail("unknown kind of argument \"" + key + "\"");
  }

  static double special(const Cursor &c) {
    const std::string &text = c.string();
    if (text == "inf")
      return std::numeric_limits<double>::infinity();
    if (text == "-inf")
      return -std::numeric_limits<double>::infinity();
    if (text == "nan")
      return std::numeric_limits<double>::quiet_NaN();
    c.fail("expected \"inf\", \"-inf\" or \"nan\", found \"" + text + "\"");
  }

  Node node(const Cursor &c) {
    c.onlyKeys({"op", "args", "kwargs", "outputs", "results", "source"});
    Node n;
    n.op = c.at("op").string();
    if (std::count(n.op.begin(), n.op.end(), '.') < 2)
      c.at("op").fail("expected NAMESPACE.NAME.OVERLOAD, found \"" + n.op + "\"");
    if (auto args = c.find("args"))
      args->each([&](const Cursor &a) { n.args.push_back(arg(a)); });
    if (auto kwargs = c.find("kwargs")) {
      if (!kwargs->value().is_object())
        kwargs->fail("expected an object");
      for (auto it = kwargs->value().begin(); it != kwargs->value().end(); ++it)
        n.kwargs.emplace_back(it.key(), arg(Cursor(it.value(), kwargs->where() + "." + it.key())));
    }
    if (auto source = c.find("source"); source && !source->value().is_null())
      n.source = source->string();
    if (auto outputs = c.find("outputs"))
      outputs->each([&](const Cursor &o) {
        n.outputs.push_back(o.value().is_null() ? std::nullopt : std::optional(outputInfo(o)));
      });
    // Without a description of the results their number still fixes how values are counted.
    if (auto results = c.find("results")) {
      int64_t count = results->integer();
      if (count < 0 || count > 1024 || (!n.outputs.empty() && static_cast<size_t>(count) != n.outputs.size()))
        results->fail(std::to_string(count) + " results, but " + std::to_string(n.outputs.size()) + " are described");
      n.outputs.resize(static_cast<size_t>(count));
    } else if (n.outputs.empty()) {
      n.outputs.resize(1);
    }
    n.firstValue = static_cast<uint32_t>(values);
    values += n.outputs.size();
    return n;
  }

  OutputInfo outputInfo(const Cursor &c) {
    c.onlyKeys({"dtype", "sizes", "strides"});
    OutputInfo info;
    info.dtype = c.at("dtype").dtype();
    info.sizes = c.at("sizes").sizes(graph.symbols.size());
    if (auto strides = c.find("strides"); strides && !strides->value().is_null()) {
      info.strides = strides->sizes(graph.symbols.size());
      if (info.strides->size() != info.sizes.size())
        c.fail(std::to_string(info.sizes.size()) + " sizes but " + std::to_string(info.strides->size()) + " strides");
    }
    return info;
  }

  Mutation mutation(const Cursor &c) {
    c.onlyKeys({"input", "value"});
    const uint32_t input = c.at("input").index(graph.inputs.size(), "input");
    if (graph.inputs[input].kind != Input::Tensor)
      c.at("input").fail("input " + std::to_string(input) + " is no tensor and cannot be written");
    return {input, {c.at("value").index(values, "value")}};
  }

  Graph graph;
  size_t values = 0;
};

} // namespace

Graph Graph::parse(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception &error) {
    throw FormatError(std::string("graph: not JSON: ") + error.what());
  }
  return Reader().read(Cursor(json, "graph"));
}

} // namespace tilewright::graph
