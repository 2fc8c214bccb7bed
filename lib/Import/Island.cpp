//===- Island.cpp - nodes that PyTorch runs -------------------------------===//
//
// The payload is specified in docs/graph-format.md ("Islands").
//
//===----------------------------------------------------------------------===//
#include "Island.h"

#include "Views.h"
#include "tilewright/Import/Importer.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace tilewright::importer {

using graph::Arg;
using Json = nlohmann::ordered_json;

namespace {

/// Rewrites arguments to what the step lists.
class PayloadWriter {
public:
  PayloadWriter(ModuleState &state, const graph::Node &node, loop::Nest &nest) : state(state), node(node), nest(nest) {}

  Json write() {
    Json payload = {{"op", node.op}, {"args", Json::array()}, {"kwargs", Json::object()}};
    for (const Arg &a : node.args)
      payload["args"].push_back(argument(a));
    for (const auto &[name, a] : node.kwargs)
      payload["kwargs"][name] = argument(a);
    payload["device"] = state.graph.device;
    return payload;
  }

private:
  Json argument(const Arg &a) {
    return std::visit([&](const auto &v) { return convert(v); }, a.value);
  }

  Json convert(std::monostate) { return nullptr; }
  Json convert(bool v) { return v; }
  Json convert(int64_t v) { return v; }
  Json convert(const std::string &v) { return v; }
  Json convert(double v) {
    if (std::isfinite(v))
      return v;
    return {{"float", std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"}};
  }
  Json convert(const SizeExpr &v) {
    nest.externalInts.push_back(v);
    return {{"int", nest.externalInts.size() - 1}};
  }
  Json convert(DType v) { return {{"dtype", nameOf(v)}}; }
  Json convert(const graph::Opaque &v) { return {{v.kind, v.text}}; }
  Json convert(const graph::Complex &v) { return {{"complex", {v.re, v.im}}}; }
  Json convert(const Arg::List &v) {
    Json list = Json::array();
    for (const Arg &a : v)
      list.push_back(argument(a));
    return list;
  }
  Json convert(const graph::ValueRef &v) {
    const Value &value = state.values.at(v.id);
    if (const loop::Tensor *t = std::get_if<loop::Tensor>(&value))
      return {{"v", input(*t)}};
    if (const NumberInput *number = std::get_if<NumberInput>(&value)) {
      const loop::Input &in = state.module.inputs[number->input];
      if (in.symbol >= 0)
        return convert(SizeExpr::symbol(in.symbol));
      return {{"scalar", input({in.dtype, in.buffer, {}, {}, 0})}};
    }
    throw ImportError("invalid", node.op, node.source, "reads a result that its operator leaves out", "");
  }

  size_t input(const loop::Tensor &t) {
    nest.externalInputs.push_back(t);
    return nest.externalInputs.size() - 1;
  }

  ModuleState &state;
  const graph::Node &node;
  loop::Nest &nest;
};

} // namespace

void importIsland(ModuleState &state, const graph::Node &node, const std::string &reason) {
  loop::Nest nest;
  nest.kind = loop::Nest::External;
  nest.function = "torch.aten";
  nest.reason = reason;
  nest.op = node.op;
  nest.source = node.source;
  Json payload = PayloadWriter(state, node, nest).write();
  Json results = Json::array();
  bool described = false;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i]) {
      results.push_back(nullptr);
      continue;
    }
    described = true;
    const graph::OutputInfo &info = *node.outputs[i];
    loop::Tensor t{info.dtype, static_cast<loop::BufferId>(state.module.buffers.size()), info.sizes,
                   info.strides.value_or(loop::contiguousStrides(info.sizes)), 0};
    if (!isNonOverlappingAndDense(t))
      t.strides = loop::contiguousStrides(t.sizes);
    loop::Buffer buffer;
    buffer.dtype = t.dtype;
    buffer.elements = loop::productOf(t.sizes);
    state.module.buffers.push_back(std::move(buffer));
    results.push_back(nest.externalOutputs.size());
    nest.externalOutputs.push_back(t);
    state.values[node.firstValue + i] = t;
  }
  if (!described && !node.outputs.empty()) // no result at all: it is run for its effect
    throw ImportError("unsupported", node.op, node.source,
                      "operator " + node.op + " has no native code (" + reason +
                          "), and the graph does not describe its result, which an island would need",
                      "run this operator eagerly, or describe its outputs in the graph");
  payload["results"] = std::move(results);
  nest.payload = payload.dump();
  state.module.nests.push_back(std::move(nest));
}

} // namespace tilewright::importer
