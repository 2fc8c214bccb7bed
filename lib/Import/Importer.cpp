//===- Importer.cpp - graph descriptions become loop nests ----------------===//
#include "tilewright/Import/Importer.h"

#include "Island.h"
#include "Registry.h"
#include "Views.h"

#include <algorithm>
#include <set>

namespace tilewright::importer {
namespace {

std::string text(const Sizes &sizes) {
  std::string result = "[";
  for (size_t d = 0; d < sizes.size(); ++d)
    result += (d ? ", " : "") + sizes[d].str();
  return result + "]";
}
std::string text(DType dtype, const Sizes &sizes) { return std::string(nameOf(dtype)) + text(sizes); }

class Importer {
public:
  Importer(const graph::Graph &graph, const ImportOptions &options) : graph(graph), options(options), state(graph) {}

  loop::Module run() {
    importInputs();
    for (const graph::Node &node : graph.nodes)
      importNode(node);
    finish();
    writeMutations();
    return std::move(state.module);
  }

private:
  void importInputs() {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const graph::Input &in = graph.inputs[i];
      loop::Input input;
      input.dtype = in.dtype;
      input.name = in.name;
      input.buffer = static_cast<loop::BufferId>(state.module.buffers.size());
      loop::Buffer buffer;
      buffer.kind = loop::Buffer::Input;
      buffer.input = static_cast<uint32_t>(i);
      buffer.dtype = in.dtype;
      buffer.elements = 1;
      if (in.kind == graph::Input::Tensor) {
        input.sizes = in.sizes;
        input.strides = in.strides;
        input.parameter = in.role != "input";
        for (size_t d = 0; d < in.sizes.size(); ++d)
          buffer.elements = buffer.elements + (in.sizes[d] - 1) * in.strides[d];
        buffer.elements = SizeExpr::max(buffer.elements, 0); // no elements: the strides say nothing
        if (std::any_of(in.sizes.begin(), in.sizes.end(), [](const SizeExpr &s) { return s.isConstant(0); }))
          buffer.elements = 0;
        state.values.push_back(loop::Tensor{in.dtype, input.buffer, in.sizes, in.strides, 0});
      } else {
        input.kind = in.kind == graph::Input::Int ? loop::Input::Int : loop::Input::Float;
        input.symbol = in.symbol;
        state.values.push_back(NumberInput{static_cast<uint32_t>(i)});
      }
      state.module.inputs.push_back(std::move(input));
      state.module.buffers.push_back(std::move(buffer));
    }
  }

  void importNode(const graph::Node &node) {
    state.values.resize(node.firstValue + node.outputs.size());
    const Entry *entry = Registry::instance().find(node.op);
    if (!entry)
      return importWithoutEntry(node, "no native entry");
    // What an entry emitted before it gave up is taken back.
    const size_t nests = state.module.nests.size(), buffers = state.module.buffers.size();
    const size_t checks = state.module.checks.size(), sites = state.module.sites.size();
    try {
      explained(node, [&] {
        Builder builder(state, node, entry->parameters);
        acceptResults(builder, node, entry->function(builder));
      });
    } catch (const Unsupported &reason) {
      state.module.nests.resize(nests);
      state.module.buffers.resize(buffers);
      state.module.checks.resize(checks);
      state.module.sites.resize(sites);
      importWithoutEntry(node, reason.what());
    }
  }

  /// Runs fn; what it finds wrong becomes an error that names the node.
  template <typename Fn> static void explained(const graph::Node &node, Fn &&fn) {
    try {
      fn();
    } catch (const Invalid &error) {
      throw ImportError("invalid", node.op, node.source, error.what(), "eager PyTorch refuses these arguments as well");
    } catch (const std::overflow_error &error) {
      throw ImportError("invalid", node.op, node.source, error.what(), "sizes must stay within 64 bits");
    } catch (const std::logic_error &error) {
      throw ImportError("internal", node.op, node.source, error.what(), "this is a fault of the importer's entry");
    }
  }

  void importWithoutEntry(const graph::Node &node, const std::string &reason) {
    if (!options.islands)
      throw ImportError("unsupported", node.op, node.source, "operator " + node.op + " has no native code: " + reason,
                        "set TILEWRIGHT_FALLBACK=warn to run it through PyTorch as an island");
    importIsland(state, node, reason);
  }

  void acceptResults(Builder &builder, const graph::Node &node, Results results) {
    if (results.size() < node.outputs.size())
      throw std::logic_error("the entry gives " + std::to_string(results.size()) + " results, the description has " +
                             std::to_string(node.outputs.size()));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!results[i])
        continue;
      if (const graph::OutputInfo *info = builder.described(i))
        agree(builder, *results[i], *info, i);
      state.values[node.firstValue + i] = std::move(*results[i]);
    }
  }

  /// Sizes that only look different are checked at the call, and go by the described form from here on.
  void agree(Builder &builder, Tensor &result, const graph::OutputInfo &info, size_t i) {
    bool differs = result.dtype != info.dtype || result.sizes.size() != info.sizes.size();
    for (size_t d = 0; !differs && d < info.sizes.size(); ++d)
      differs = (result.sizes[d] - info.sizes[d]).constant().value_or(0) != 0;
    if (differs)
      throw std::logic_error("result " + std::to_string(i) + " is " + text(result.dtype, result.sizes) +
                             " by the entry, but " + text(info.dtype, info.sizes) + " by the description");
    for (size_t d = 0; d < info.sizes.size(); ++d) {
      builder.require(result.sizes[d], info.sizes[d],
                      "size {lhs} of dimension " + std::to_string(d) + " was expected to be {rhs}");
      result.sizes[d] = info.sizes[d];
    }
  }

  //===--- Outputs and mutations --------------------------------------------===//

  bool isInput(const Tensor &t) const { return state.module.buffers[t.buffer].kind == loop::Buffer::Input; }

  /// The node that gives a value; nullptr for inputs.
  const graph::Node *producer(uint32_t id) const {
    for (const graph::Node &node : graph.nodes)
      if (id >= node.firstValue && id < node.firstValue + node.outputs.size())
        return &node;
    return nullptr;
  }

  const graph::OutputInfo *describedValue(uint32_t id) const {
    const graph::Node *node = producer(id);
    return node && node->outputs[id - node->firstValue] ? &*node->outputs[id - node->firstValue] : nullptr;
  }

  Tensor tensorValue(uint32_t id, const std::string &what) const {
    if (const Tensor *t = std::get_if<Tensor>(&state.values[id]))
      return *t;
    throw ImportError("invalid", "", "", what + " is no tensor", "");
  }

  void finish() {
    graph::Node node; // nests below belong to no operator
    node.op = "output";
    Builder builder(state, node, "");
    std::set<loop::BufferId> written, taken;
    for (const graph::Mutation &m : graph.mutations)
      written.insert(state.module.inputs[m.input].buffer);
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      loop::Output output;
      output.present = graph.outputs[i].has_value();
      if (output.present) {
        const uint32_t id = graph.outputs[i]->id;
        output.tensor = tensorValue(id, "output " + std::to_string(i));
        const graph::OutputInfo *info = describedValue(id);
        if (!isInput(output.tensor) || written.contains(output.tensor.buffer))
          output.tensor = ownMemory(builder, output.tensor, info && info->strides ? &*info->strides : nullptr, taken);
      }
      state.module.outputs.push_back(std::move(output));
    }
  }

  void writeMutations() {
    std::set<loop::BufferId> written;
    for (const graph::Mutation &m : graph.mutations)
      written.insert(state.module.inputs[m.input].buffer);
    // All values first: one may be a view of an input that an earlier mutation overwrites.
    std::vector<std::pair<Tensor, Tensor>> copies;
    for (const graph::Mutation &m : graph.mutations) {
      const graph::Node *from = producer(m.value.id);
      graph::Node node; // for messages; its arguments have been dealt with
      node.op = from ? from->op : "mutation";
      node.source = from ? from->source : "";
      explained(node, [&] {
        const loop::Input &input = state.module.inputs[m.input];
        Tensor value = tensorValue(m.value.id, "the value of mutation of input " + std::to_string(m.input));
        const Tensor target{input.dtype, input.buffer, input.sizes, input.strides, 0};
        Builder builder(state, node, "");
        const std::string shapes =
            "output with shape " + text(target.sizes) + " doesn't match the result's shape " + text(value.sizes);
        if (value.sizes.size() != target.sizes.size())
          throw Invalid(shapes);
        for (size_t d = 0; d < target.sizes.size(); ++d)
          builder.require(target.sizes[d], value.sizes[d],
                          shapes + ": {lhs} and {rhs} in dimension " + std::to_string(d));
        if (value.buffer == target.buffer && value.offset.isConstant(0) && value.strides == target.strides)
          return;
        if (written.contains(value.buffer))
          value = builder.copy(value);
        copies.emplace_back(target, value);
      });
    }
    graph::Node node;
    node.op = "mutation";
    Builder builder(state, node, "");
    for (auto &[target, value] : copies)
      builder.assign(target, value);
  }

  /// The value in a buffer of its own, from its first element on, with the wanted strides.
  Tensor ownMemory(Builder &builder, Tensor t, const Sizes *wanted, std::set<loop::BufferId> &taken) {
    // Not described: what the entry gives, which is what PyTorch's rules give.
    const Sizes strides = wanted ? *wanted : isNonOverlappingAndDense(t) ? t.strides : loop::contiguousStrides(t.sizes);
    bool fits = state.module.buffers[t.buffer].kind == loop::Buffer::Temp && t.offset.isConstant(0) &&
                isNonOverlappingAndDense(t) && state.module.buffers[t.buffer].elements == loop::productOf(t.sizes) &&
                !taken.contains(t.buffer);
    const bool empty = std::any_of(t.sizes.begin(), t.sizes.end(), [](const SizeExpr &s) { return s.isConstant(0); });
    for (size_t d = 0; d < t.sizes.size(); ++d)
      fits &= empty || t.sizes[d].isConstant(1) || t.strides[d] == strides[d];
    if (!fits) {
      Tensor out = builder.allocate(t.dtype, t.sizes, &strides);
      // Of a dimension that repeats one element, one is written.
      Tensor from = t, to = out;
      for (unsigned d = 0; d < t.rank(); ++d)
        if (strides[d].isConstant(0)) {
          from = narrow(std::move(from), d, 0, 1);
          to = narrow(std::move(to), d, 0, 1);
        }
      builder.assign(to, from);
      t = std::move(out);
    }
    t.strides = strides;
    taken.insert(t.buffer);
    return t;
  }

  const graph::Graph &graph;
  const ImportOptions &options;
  ModuleState state;
};

} // namespace

loop::Module importGraph(const graph::Graph &graph, const ImportOptions &options) {
  return Importer(graph, options).run();
}

} // namespace tilewright::importer
