//===- ImporterTest.cpp - what graphs become, and which are refused ---------===//
#include "ImportHelpers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace tilewright;
using namespace tilewright::test;
using loop::Module;
using loop::Nest;
using testing::HasSubstr;

static const std::string kMatrix = tensor("f32", R"(["s0", "s1"])", R"(["s1", 1])");

TEST(Importer, EveryEntryHasALiveName) {
  const std::vector<std::string> names = importer::nativeOperators();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, testing::IsSupersetOf({"aten.add.Tensor", "aten.mm.default", "tilewright.sdpa.default"}));
}

TEST(Importer, BroadcastsUnequalSymbolsUnderACheck) {
  Module m = import(oneNode({kMatrix, tensor("bf16", R"(["s2"])", "[1]")},
                            R"({"op": "aten.add.Tensor", "args": [{"v": 0}, {"v": 1}], "kwargs": {"alpha": 2}})"));
  ASSERT_EQ(m.checks.size(), 1u);
  EXPECT_EQ(m.checks[0].lhs, SizeExpr::symbol(1));
  EXPECT_EQ(m.checks[0].rhs, SizeExpr::symbol(2));
  EXPECT_THAT(m.checks[0].message, HasSubstr("The size of tensor a ({lhs}) must match the size of tensor b ({rhs})"));
  EXPECT_EQ(m.outputs[0].tensor.dtype, DType::F32);
  EXPECT_EQ(str(m.outputs[0].tensor.sizes), "s0, s1");
}

TEST(Importer, AOneDimensionalSizeOfOneNeedsNoCheck) {
  Module m = import(oneNode({kMatrix, tensor("f32", R"(["s0", 1])", "[1, 1]")},
                            R"({"op": "aten.mul.Tensor", "args": [{"v": 0}, {"v": 1}]})"));
  EXPECT_TRUE(m.checks.empty());
  EXPECT_THAT(m.str(), HasSubstr("b2[s1*i0 + i1] = mul(b0[s1*i0 + i1]:f32, b1[i0]:f32):f32"));
}

TEST(Importer, ViewsAreNoNests) {
  Module m = import(R"({"version": 1, "name": "t", "symbols": [{"name": "s0", "min": 2}, {"name": "s1", "min": 2}],
    "inputs": [{"kind": "tensor", "dtype": "f32", "sizes": ["s0", "s1", 384], "strides": ["s1*384", 384, 1]}],
    "nodes": [{"op": "aten.view.default", "args": [{"v": 0}, [{"size": "s0"}, {"size": "s1"}, 12, -1]]},
              {"op": "aten.permute.default", "args": [{"v": 1}, [0, 2, 1, 3]]},
              {"op": "aten.slice.Tensor", "args": [{"v": 2}, 2, 1, 9223372036854775807]}],
    "outputs": [{"v": 3}]})");
  EXPECT_TRUE(m.nests.empty());
  const loop::Tensor &t = m.outputs[0].tensor;
  EXPECT_EQ(m.buffers[t.buffer].kind, loop::Buffer::Input);
  EXPECT_EQ(str(t.sizes), "s0, 12, s1 - 1, 32");
  EXPECT_EQ(t.strides, (std::vector<SizeExpr>{SizeExpr::symbol(1) * 384, 32, 384, 1}));
  EXPECT_TRUE(t.offset.isConstant(384));
}

TEST(Importer, AReshapeThatStridesCannotExpressIsACopy) {
  Module m = import(oneNode({tensor("f32", R"(["s0", "s1"])", R"([1, "s0"])")},
                            R"({"op": "aten.view.default", "args": [{"v": 0}, [{"size": "s0*s1"}]]})"));
  ASSERT_EQ(m.nests.size(), 1u);
  EXPECT_EQ(str(m.outputs[0].tensor.strides), "1");
}

TEST(Importer, ElementwiseResultsKeepTheOrderOfDimensions) {
  Module m = import(oneNode({tensor("f32", R"(["s0", "s1", 8])", R"(["s1*8", 1, "s1"])")},
                            R"({"op": "aten.exp.default", "args": [{"v": 0}]})"));
  EXPECT_EQ(m.outputs[0].tensor.strides, (std::vector<SizeExpr>{SizeExpr::symbol(1) * 8, 1, SizeExpr::symbol(1)}));
}

TEST(Importer, NarrowFloatsAreRoundedOncePerOperator) {
  Module m = import(oneNode({tensor("bf16", "[4]", "[1]")}, R"({"op": "aten.silu.default", "args": [{"v": 0}]})"));
  unsigned casts = 0;
  loop::visit(m.nests.at(0).stores.at(0).value, [&](loop::ExprRef e) {
    casts += e->op == loop::ScalarOp::Cast;
    EXPECT_TRUE(e->type == DType::F32 || e->op == loop::ScalarOp::Load || e->op == loop::ScalarOp::Cast);
  });
  EXPECT_EQ(casts, 2u);
}

TEST(Importer, LargeFullSumsAreSplitIntoFixedChunks) {
  Module m = import(oneNode({tensor("f32", "[100000]", "[1]")}, R"({"op": "aten.sum.default", "args": [{"v": 0}]})"));
  ASSERT_EQ(m.nests.size(), 3u); // full chunks, the rest, their sum
  EXPECT_EQ(str(m.nests[0].domain), "6, 16384");
  EXPECT_EQ(str(m.nests[1].domain), "1, 1696");
  EXPECT_EQ(str(m.nests[2].domain), "7");
  Module small = import(oneNode({tensor("f32", "[1000]", "[1]")}, R"({"op": "aten.sum.default", "args": [{"v": 0}]})"));
  EXPECT_EQ(small.nests.size(), 1u);
}

TEST(Importer, AddmmIsAContractionWithAnEpilogue) {
  Module m = import(
      oneNode({tensor("f32", "[8]", "[1]"), tensor("f32", R"(["s0", 4])", "[4, 1]"), tensor("f32", "[4, 8]", "[1, 4]")},
              R"({"op": "aten.addmm.default", "args": [{"v": 0}, {"v": 1}, {"v": 2}]})"));
  ASSERT_EQ(m.nests.size(), 1u);
  const Nest &nest = m.nests[0];
  EXPECT_EQ(nest.kind, Nest::Contraction);
  EXPECT_EQ(str(nest.domain), "s0, 8, 4");
  EXPECT_EQ(str(nest.lhs.coefs), "4, 0, 1");
  EXPECT_EQ(str(nest.rhs.coefs), "0, 4, 1");
  EXPECT_EQ(loop::str(nest.stores[0].value), "add(acc:f32, b0[i1]:f32):f32");
}

TEST(Importer, AnUnknownOperatorIsAnIsland) {
  const std::string text = oneNode({kMatrix, R"({"kind": "float"})"}, R"({"op": "aten.frobnicate.default",
    "args": [{"v": 0}, {"size": "s0 + 1"}, {"v": 1}, {"float": "inf"}], "kwargs": {"dim": [0, {"size": "s1"}]},
    "outputs": [{"dtype": "i64", "sizes": ["s0"], "strides": [1]}], "source": "m.py:3"})");
  Module m = import(text);
  ASSERT_EQ(m.nests.size(), 1u);
  const Nest &nest = m.nests[0];
  EXPECT_EQ(nest.kind, Nest::External);
  EXPECT_EQ(nest.function, "torch.aten");
  EXPECT_EQ(nest.reason, "no native entry");
  EXPECT_EQ(nest.payload, R"({"op":"aten.frobnicate.default","args":[{"v":0},{"int":0},{"scalar":1},{"float":"inf"}],)"
                          R"("kwargs":{"dim":[0,{"int":1}]},"device":"cpu","results":[0]})");
  EXPECT_EQ(str(nest.externalInts), "s0 + 1, s1");
  EXPECT_EQ(m.outputs[0].tensor.dtype, DType::I64);
  importer::ImportOptions strict;
  strict.islands = false;
  const importer::ImportError error = importError(text, strict);
  EXPECT_EQ(error.kind, "unsupported");
  EXPECT_EQ(error.op, "aten.frobnicate.default");
  EXPECT_EQ(error.source, "m.py:3");
  EXPECT_THAT(error.hint, HasSubstr("TILEWRIGHT_FALLBACK"));
}

TEST(Importer, WhatAnEntryDoesNotCoverLeavesNoTrace) {
  // The copy for the reshape is emitted before the dropout is refused.
  Module m = import(oneNode({kMatrix}, R"({"op": "aten.native_dropout.default", "args": [{"v": 0}, 0.5, true],
    "outputs": [{"dtype": "f32", "sizes": ["s0", "s1"]}, {"dtype": "bool", "sizes": ["s0", "s1"]}]})"));
  ASSERT_EQ(m.nests.size(), 1u);
  EXPECT_EQ(m.nests[0].reason, "random numbers");
  EXPECT_EQ(m.buffers.size(), 3u); // the input and two results
}

TEST(Importer, ComplexNumbersPassThroughIslands) {
  Module m = import(R"({"version": 1, "symbols": [],
    "inputs": [{"kind": "tensor", "dtype": "c64", "sizes": [3], "strides": [1]}],
    "nodes": [{"op": "aten.add.Tensor", "args": [{"v": 0}, 1], "outputs": [{"dtype": "c64", "sizes": [3], "strides": [1]}]}],
    "outputs": [{"v": 1}]})");
  EXPECT_EQ(m.nests.at(0).kind, Nest::External);
  EXPECT_THAT(m.nests[0].reason, HasSubstr("complex"));
}

TEST(Importer, MutationsAreWrittenLastFromValuesReadBefore) {
  // x and y are swapped.
  Module m = import(R"({"version": 1, "symbols": [],
    "inputs": [{"kind": "tensor", "dtype": "f32", "sizes": [3], "strides": [1]},
               {"kind": "tensor", "dtype": "f32", "sizes": [3], "strides": [1]}],
    "nodes": [{"op": "aten.alias.default", "args": [{"v": 0}]}, {"op": "aten.alias.default", "args": [{"v": 1}]}],
    "outputs": [{"v": 2}], "mutations": [{"input": 0, "value": 3}, {"input": 1, "value": 2}]})");
  ASSERT_EQ(m.nests.size(), 5u); // the output's copy, two values, two writes
  EXPECT_EQ(m.buffers[m.outputs[0].tensor.buffer].kind, loop::Buffer::Temp);
  EXPECT_EQ(m.nests[3].stores[0].access.buffer, m.inputs[0].buffer);
  EXPECT_EQ(m.nests[4].stores[0].access.buffer, m.inputs[1].buffer);
  EXPECT_EQ(m.buffers[m.nests[4].stores[0].value->access.buffer].kind, loop::Buffer::Temp);
}

TEST(Importer, WhatIsWrittenHasTheSizeOfItsTarget) {
  const auto graph = [](const char *target) {
    return R"({"version": 1, "symbols": [], "inputs": [)" + tensor("f32", "[4, 3]", "[3, 1]") + ", " + target +
           R"(], "nodes": [{"op": "aten.exp.default", "args": [{"v": 0}], "source": "model.py:7"}],
              "outputs": [], "mutations": [{"input": 1, "value": 2}]})";
  };
  for (const auto &[sizes, strides] : {std::pair("[3, 3]", "[3, 1]"), {"[12]", "[1]"}}) {
    const importer::ImportError error = importError(graph(tensor("f32", sizes, strides).c_str()));
    EXPECT_EQ(error.kind, "invalid") << error.what();
    EXPECT_EQ(error.op, "aten.exp.default");
    EXPECT_EQ(error.source, "model.py:7");
    EXPECT_THAT(error.what(),
                HasSubstr(std::string("output with shape ") + sizes + " doesn't match the result's shape [4, 3]"));
  }
  EXPECT_EQ(import(graph(tensor("f32", "[4, 3]", "[1, 4]").c_str())).nests.size(), 2u);
}

TEST(Importer, OutputsHaveMemoryOfTheirOwnAndTheDescribedStrides) {
  Module m = import(R"({"version": 1, "symbols": [],
    "inputs": [{"kind": "tensor", "dtype": "f32", "sizes": [4, 6], "strides": [6, 1]}],
    "nodes": [{"op": "aten.neg.default", "args": [{"v": 0}], "outputs": [{"dtype": "f32", "sizes": [4, 6], "strides": [1, 4]}]},
              {"op": "aten.slice.Tensor", "args": [{"v": 1}, 1, 0, 2]},
              {"op": "aten.expand.default", "args": [{"v": 1}, [5, 4, 6]],
               "outputs": [{"dtype": "f32", "sizes": [5, 4, 6], "strides": [0, 6, 1]}]}],
    "outputs": [{"v": 1}, {"v": 2}, {"v": 3}, {"v": 1}]})");
  EXPECT_EQ(str(m.outputs[0].tensor.strides), "1, 4");
  EXPECT_TRUE(m.buffers[m.outputs[1].tensor.buffer].elements.isConstant(8));
  EXPECT_EQ(str(m.outputs[2].tensor.strides), "0, 6, 1");
  EXPECT_TRUE(m.buffers[m.outputs[2].tensor.buffer].elements.isConstant(24));
  EXPECT_NE(m.outputs[0].tensor.buffer, m.outputs[3].tensor.buffer);
}

TEST(Importer, GraphsThatPyTorchRefusesAreRefused) {
  const auto invalid = [](const std::string &text, const char *message) {
    const importer::ImportError error = importError(text);
    EXPECT_EQ(error.kind, "invalid") << error.what();
    EXPECT_THAT(error.what(), HasSubstr(message));
  };
  const std::string a = tensor("f32", "[3, 4]", "[4, 1]"), b = tensor("f32", "[3, 5]", "[5, 1]");
  invalid(oneNode({a, b}, R"({"op": "aten.add.Tensor", "args": [{"v": 0}, {"v": 1}]})"),
          "The size of tensor a (4) must match the size of tensor b (5) at non-singleton dimension 1");
  invalid(oneNode({a, b}, R"({"op": "aten.mm.default", "args": [{"v": 0}, {"v": 1}]})"), "cannot be multiplied");
  invalid(oneNode({a}, R"({"op": "aten.add.Tensor", "args": [{"v": 0}]})"), "argument 'other' is missing");
  invalid(oneNode({a}, R"({"op": "aten.exp.default", "args": [{"v": 0}, 1]})"), "takes 1 arguments, 2 were given");
  invalid(oneNode({a}, R"({"op": "aten.exp.default", "args": [{"v": 0}], "kwargs": {"beta": 1}})"),
          "no argument 'beta'");
  invalid(oneNode({a}, R"({"op": "aten.exp.default", "args": ["x"]})"), "argument 'self' must be");
  invalid(oneNode({a}, R"({"op": "aten.view.default", "args": [{"v": 0}, [5, -1]]})"),
          "is invalid for input of size 12");
  invalid(oneNode({a}, R"({"op": "aten.sum.dim_IntList", "args": [{"v": 0}, [2]]})"), "Dimension out of range");
  invalid(oneNode({a}, R"({"op": "aten.select.int", "args": [{"v": 0}, 1, 4]})"), "out of range");
}

TEST(Importer, ADescribedResultThatDiffersIsAnInternalError) {
  const importer::ImportError error = importError(oneNode(
      {kMatrix},
      R"({"op": "aten.exp.default", "args": [{"v": 0}], "outputs": [{"dtype": "f64", "sizes": ["s0", "s1"]}]})"));
  EXPECT_EQ(error.kind, "internal");
  EXPECT_THAT(error.what(), HasSubstr("f32[s0, s1] by the entry, but f64[s0, s1] by the description"));
}

TEST(Importer, SavedGraphsImportWithoutIslands) {
  unsigned count = 0;
  for (const auto &file : std::filesystem::directory_iterator(TILEWRIGHT_TEST_DATA_DIR "/graphs")) {
    if (file.path().extension() != ".json")
      continue;
    std::stringstream text;
    text << std::ifstream(file.path()).rdbuf();
    Module m = import(text.str());
    for (const Nest &nest : m.nests)
      EXPECT_NE(nest.kind, Nest::External) << file.path() << ": " << nest.op << ": " << nest.reason;
    ++count;
  }
  EXPECT_GE(count, 15u);
}
