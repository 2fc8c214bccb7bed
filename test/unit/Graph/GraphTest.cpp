//===- GraphTest.cpp - reading graph descriptions --------------------------===//
#include "tilewright/Graph/Graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace tilewright;
using namespace tilewright::graph;
using testing::StartsWith;

static const char *const kAdd = R"({"version": 1, "name": "f", "device": "npu",
  "symbols": [{"name": "s0", "min": 2, "hint": 32}],
  "inputs": [{"kind": "tensor", "dtype": "bf16", "sizes": ["s0", 4], "strides": [4, 1], "name": "x", "role": "parameter"},
             {"kind": "int", "symbol": "s0", "name": "n"}, {"kind": "float", "name": "lr"}],
  "nodes": [{"op": "aten.topk.default", "args": [{"v": 0}, {"size": "s0*2"}, -1, [true, null, {"float": "-inf"}]],
             "kwargs": {"dtype": {"dtype": "f32"}, "layout": {"layout": "torch.strided"}, "c": {"complex": [1, -2.5]}},
             "outputs": [{"dtype": "bf16", "sizes": ["s0", 4], "strides": [4, 1]}, null], "source": "m.py:1"},
            {"op": "aten.neg.default", "args": [{"v": 3}]}],
  "outputs": [{"v": 5}, null], "mutations": [{"input": 0, "value": 3}]})";

TEST(Graph, ReadsEveryKindOfArgument) {
  Graph g = Graph::parse(kAdd);
  EXPECT_EQ(g.device, "npu");
  ASSERT_EQ(g.symbols.size(), 1u);
  EXPECT_EQ(g.symbols[0].min, 2);
  EXPECT_EQ(g.symbols[0].hint, 32);
  ASSERT_EQ(g.inputs.size(), 3u);
  EXPECT_EQ(g.inputs[0].dtype, DType::BF16);
  EXPECT_EQ(g.inputs[0].sizes[0], SizeExpr::symbol(0));
  EXPECT_EQ(g.inputs[0].role, "parameter");
  EXPECT_EQ(g.inputs[1].symbol, 0);
  EXPECT_EQ(g.inputs[2].kind, Input::Float);
  const Node &n = g.nodes.at(0);
  EXPECT_EQ(*n.args[0].get<ValueRef>(), ValueRef{0});
  EXPECT_EQ(*n.args[1].get<SizeExpr>(), SizeExpr::symbol(0) * 2);
  EXPECT_EQ(*n.args[2].get<int64_t>(), -1);
  const Arg::List &list = *n.args[3].get<Arg::List>();
  EXPECT_TRUE(*list[0].get<bool>());
  EXPECT_TRUE(list[1].isNone());
  EXPECT_LT(*list[2].get<double>(), -1e308);
  ASSERT_EQ(n.outputs.size(), 2u);
  EXPECT_TRUE(n.outputs[0].has_value());
  EXPECT_FALSE(n.outputs[1].has_value());
  EXPECT_EQ(n.firstValue, 3u);
  EXPECT_EQ(g.nodes[1].firstValue, 5u);
  ASSERT_EQ(g.outputs.size(), 2u);
  EXPECT_FALSE(g.outputs[1].has_value());
  EXPECT_EQ(g.mutations.at(0).value.id, 3u);
}

TEST(Graph, AConstantSizeIsAnInteger) {
  Graph g = Graph::parse(R"({"version": 1, "inputs": [], "outputs": [],
                             "nodes": [{"op": "aten.zeros.default", "args": [[{"size": "2*3"}]]}]})");
  EXPECT_EQ(*(*g.nodes[0].args[0].get<Arg::List>())[0].get<int64_t>(), 6);
}

/// A fault and the start of the complaint, which names its place.
struct Fault {
  const char *name, *from, *to, *message;
};
class MalformedGraph : public testing::TestWithParam<Fault> {};

TEST_P(MalformedGraph, IsRefusedByPlace) {
  std::string text = kAdd;
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, strlen(GetParam().from), GetParam().to);
  try {
    Graph::parse(text);
    FAIL() << "was accepted";
  } catch (const FormatError &error) {
    EXPECT_THAT(error.what(), StartsWith(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Faults, MalformedGraph,
    testing::Values(
        Fault{"NotJson", "{\"version\"", "{version", "graph: not JSON"},
        Fault{"OtherVersion", "\"version\": 1", "\"version\": 7", "graph.version: version 7 is not supported"},
        Fault{"MisspeltKey", "\"mutations\"", "\"mutation\"", "graph: unknown key \"mutation\""},
        Fault{"Device", "\"npu\"", "\"gpu\"", "graph.device: unknown device \"gpu\""},
        Fault{"SymbolName", "\"name\": \"s0\", \"min\"", "\"name\": \"s1\", \"min\"",
              "graph.symbols[0].name: expected s0"},
        Fault{"DType", "\"bf16\", \"sizes\"", "\"f8\", \"sizes\"", "graph.inputs[0].dtype: unknown dtype \"f8\""},
        Fault{"UnknownSymbol", "[\"s0\", 4]", "[\"s7\", 4]", "graph.inputs[0].sizes[0]: symbol s7 does not exist"},
        Fault{"SizeSyntax", "[\"s0\", 4]", "[\"s0 +\", 4]", "graph.inputs[0].sizes[0]: "},
        Fault{"SizeKind", "[\"s0\", 4]", "[1.5, 4]", "graph.inputs[0].sizes[0]: expected an integer"},
        Fault{"StrideCount", "\"strides\": [4, 1], \"name\"", "\"strides\": [4], \"name\"",
              "graph.inputs[0]: 2 sizes but 1 strides"},
        Fault{"Role", "\"parameter\"", "\"weight\"", "graph.inputs[0].role: unknown role \"weight\""},
        Fault{"Kind", "\"kind\": \"int\"", "\"kind\": \"long\"", "graph.inputs[1].kind: unknown kind \"long\""},
        Fault{"BoundSymbol", "\"symbol\": \"s0\"", "\"symbol\": \"s3\"",
              "graph.inputs[1].symbol: \"s3\" is not a declared"},
        Fault{"OperatorName", "aten.topk.default", "topk", "graph.nodes[0].op: expected NAMESPACE.NAME.OVERLOAD"},
        Fault{"LaterValue", "[{\"v\": 0}", "[{\"v\": 3}", "graph.nodes[0].args[0].v: value 3 does not exist"},
        Fault{"ArgumentKind", "{\"size\": \"s0*2\"}", "{\"sise\": 2}",
              "graph.nodes[0].args[1]: unknown kind of argument"},
        Fault{"FloatText", "\"-inf\"", "\"-infinity\"", "graph.nodes[0].args[3][2].float: expected"},
        Fault{"Complex", "[1, -2.5]", "[1]", "graph.nodes[0].kwargs.c.complex: expected [real, imaginary]"},
        Fault{"OutputValue", "\"outputs\": [{\"v\": 5}", "\"outputs\": [{\"v\": 6}", "graph.outputs[0].v: value 6"},
        Fault{"MutatedNumber", "{\"input\": 0", "{\"input\": 2", "graph.mutations[0].input: input 2 is no tensor"}),
    [](const auto &info) { return info.param.name; });
