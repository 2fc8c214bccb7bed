#include "tilewright/Ops/Ops.h"
#include "tilewright/Graph/Graph.h"
#include "tilewright/Runtime/Device.h"
#include "tilewright/Support/Switches.h"

#include "Runtime/CompileC.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

using namespace tilewright;
using namespace tilewright::ops;
using namespace tilewright::test;
using testing::HasSubstr;

namespace {

using Ints = std::vector<int64_t>;

/// A tensor that owns its sizes and strides over given memory.
struct Tensor {
  Ints sizes, strides;
  std::vector<float> data;
  explicit Tensor(Ints sizes, float first = 0) : sizes(sizes), strides(contiguous(sizes)) {
    data.resize(std::accumulate(sizes.begin(), sizes.end(), int64_t(1), std::multiplies<>()));
    std::iota(data.begin(), data.end(), first);
  }
  static Ints contiguous(const Ints &sizes) {
    Ints strides(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;)
      strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
    return strides;
  }
  TensorArgument arg() { return {data.data(), DType::F32, sizes, strides}; }
};

TensorArgument described(const Ints &sizes, const Ints &strides, DType dtype = DType::F32) {
  static float memory[1];
  return {memory, dtype, sizes, strides};
}

std::string graphOf(std::string_view op, std::vector<OpArgument> args, std::vector<NamedArgument> kwargs = {}) {
  return describe({op, args, kwargs});
}

/// Compiles sums of matrices (and vectors): out = a + alpha * b, written by hand.
class FakeCompiler : public Compiler {
public:
  CompileResult compile(std::string_view text, std::string_view options) override {
    ++count;
    EXPECT_THAT(std::string(options), HasSubstr("\"fallback\": \"error\""));
    graph::Graph g = graph::Graph::parse(text);
    const graph::Node &node = g.nodes.at(0);
    if (node.op == "aten.broken.default")
      throw CompileError("internal", node.op, "", "a fault", "");
    if (node.op == "aten.structural.Scalar" && node.args.at(1).get<graph::ValueRef>())
      throw CompileError("unsupported", node.op, "", "the number decides about the code", "");
    if (node.op != "aten.add.Tensor" && node.op != "aten.structural.Scalar")
      throw CompileError("unsupported", node.op, "", "nobody wrote it", "");

    Program p;
    p.name = g.name;
    p.target = "x86-64";
    p.symbolCount = g.symbols.size();
    for (uint32_t s = 0; s < p.symbolCount; ++s)
      p.symbols.push_back(binding(g, s));
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      const graph::Input &in = g.inputs[i];
      auto kind = in.kind == graph::Input::Tensor ? InputSpec::Tensor
                  : in.kind == graph::Input::Int  ? InputSpec::ScalarInt
                                                  : InputSpec::ScalarFloat;
      p.inputs.push_back({kind, in.dtype, in.sizes, in.strides, false, in.name});
      p.buffers.push_back({BufferSpec::Input, uint32_t(i), 0});
    }
    auto input = [&](const graph::Arg &a) { return a.get<graph::ValueRef>()->id; };
    uint32_t a = input(node.args.at(0)), b = node.op == "aten.add.Tensor" ? input(node.args.at(1)) : a;
    const auto &sizes = g.inputs[a].sizes;
    SizeExpr rows = sizes.size() == 2 ? sizes[0] : SizeExpr(1), cols = sizes.back();
    if (g.inputs[b].sizes.back() != cols)
      p.checks.push_back({SizeCheck::Equal, cols, g.inputs[b].sizes.back(), "sizes {lhs} and {rhs} differ"});
    auto stride = [](const graph::Input &in, size_t fromLast) {
      return in.strides.size() >= fromLast ? in.strides[in.strides.size() - fromLast] : SizeExpr(0);
    };
    uint32_t out = a; // of the mutated input
    SizeExpr outRow = stride(g.inputs[a], 2), outCol = stride(g.inputs[a], 1);
    if (!g.mutations.empty()) {
      out = g.mutations[0].input;
      p.inputs[out].mutated = true;
      outRow = stride(g.inputs[out], 2), outCol = stride(g.inputs[out], 1);
      p.outputs.push_back({OutputSpec::Fresh, DType::F32, {0}, {1}, 0, 0}); // as the compiler fills a null output
    } else {
      out = p.buffers.size();
      p.buffers.push_back({BufferSpec::Output, 0, rows * cols * 4});
      outRow = cols, outCol = 1;
      p.outputs.push_back({OutputSpec::Fresh, DType::F32, sizes,
                           sizes.size() == 2 ? std::vector<SizeExpr>{cols, 1} : std::vector<SizeExpr>{1}, 0, 0});
    }
    p.kernels.push_back({"add", "add", 1, kernel()});
    KernelStep step;
    step.kernel = 0;
    step.buffers = {a, b, out};
    const graph::Arg *alpha = node.kwargs.empty() ? nullptr : &node.kwargs[0].second;
    SizeExpr mode = 0, constant = 1;
    if (alpha && alpha->get<graph::ValueRef>()) {
      step.buffers.push_back(input(*alpha));
      mode = g.inputs[input(*alpha)].kind == graph::Input::Float ? 2 : 1;
    } else if (alpha) {
      constant = int64_t(alpha->get<double>() ? *alpha->get<double>() : *alpha->get<int64_t>());
    } else if (node.op == "aten.structural.Scalar") {
      constant = int64_t(*node.args.at(1).get<double>());
    }
    step.offsets.assign(step.buffers.size(), 0);
    step.ints = {cols,
                 stride(g.inputs[a], 2),
                 stride(g.inputs[a], 1),
                 stride(g.inputs[b], 2),
                 stride(g.inputs[b], 1),
                 outRow,
                 outCol,
                 mode,
                 constant};
    step.grid = rows;
    p.steps = {step};
    return {p.serialize(), "{}"};
  }

  std::atomic<int> count{0};

private:
  static SymbolBinding binding(const graph::Graph &g, unsigned id) {
    SizeExpr symbol = SizeExpr::symbol(id);
    for (uint32_t i = 0; i < g.inputs.size(); ++i) {
      if (g.inputs[i].kind == graph::Input::Int && g.inputs[i].symbol == int(id))
        return {SymbolBinding::ScalarInput, i, 0};
      for (uint32_t d = 0; d < g.inputs[i].sizes.size(); ++d)
        if (g.inputs[i].sizes[d] == symbol)
          return {SymbolBinding::InputSize, i, d};
    }
    for (uint32_t i = 0; i < g.inputs.size(); ++i)
      for (uint32_t d = 0; d < g.inputs[i].strides.size(); ++d)
        if (g.inputs[i].strides[d] == symbol)
          return {SymbolBinding::InputStride, i, d};
    throw std::runtime_error("unbound symbol");
  }

  static const std::vector<uint8_t> &kernel() {
    static const auto object = compileC(R"(
KERNEL(add) {
  const float *a = buffers[0], *b = buffers[1]; float *out = buffers[2];
  double alpha = ints[7] == 2 ? *(const double *)buffers[3] : ints[7] == 1 ? (double)*(const int64_t *)buffers[3] : (double)ints[8];
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < ints[0]; ++c)
      out[r * ints[5] + c * ints[6]] = a[r * ints[1] + c * ints[2]] + (float)alpha * b[r * ints[3] + c * ints[4]];
  return 0;
}
)");
    return object;
  }
};

FakeCompiler &compiler() {
  static FakeCompiler *instance = [] {
    setSwitch("TILEWRIGHT_CACHE", "off");
    auto *c = new FakeCompiler;
    setCompiler(*c);
    return c;
  }();
  return *instance;
}

struct OpsTest : testing::Test {
  OpsTest() { compiler(); }
};

std::vector<float> add(Tensor &a, Tensor &b, std::vector<NamedArgument> kwargs = {}, Stream *stream = nullptr) {
  std::vector<OpArgument> args{a.arg(), b.arg()};
  Prepared call = prepare({"aten.add.Tensor", args, kwargs});
  EXPECT_TRUE(call) << call.reason();
  EXPECT_EQ(call.outputs().size(), 1u);
  const Output &out = call.outputs()[0];
  EXPECT_EQ(Ints(out.sizes.begin(), out.sizes.end()), a.sizes);
  std::vector<float> result(a.data.size());
  void *memory[] = {result.data()};
  call.run(memory, stream);
  if (stream)
    stream->synchronize();
  return result;
}

} // namespace

//===----------------------------------------------------------------------===//
// Signatures
//===----------------------------------------------------------------------===//

TEST(OpsSignature, SizesAreSymbolsAndOnesAreConstants) {
  std::string g = graphOf("aten.add.Tensor", {described({8, 1, 5}, {5, 5, 1}), described({7, 5}, {5, 1})});
  graph::Graph parsed = graph::Graph::parse(g);
  EXPECT_EQ(parsed.device, "npu");
  ASSERT_EQ(parsed.inputs.size(), 2u);
  EXPECT_EQ(parsed.inputs[0].sizes, (std::vector<SizeExpr>{SizeExpr::symbol(0), 1, SizeExpr::symbol(1)}));
  EXPECT_EQ(parsed.inputs[0].strides, (std::vector<SizeExpr>{SizeExpr::symbol(1), SizeExpr::symbol(1), 1}));
  EXPECT_EQ(parsed.inputs[1].sizes, (std::vector<SizeExpr>{SizeExpr::symbol(2), SizeExpr::symbol(1)}))
      << "equal sizes at one place from the last share a symbol";
  EXPECT_EQ(parsed.nodes[0].args[1].get<graph::ValueRef>()->id, 1u);
  EXPECT_EQ(parsed.outputs[0]->id, 2u);
}

TEST(OpsSignature, OtherSizesAreTheSameSignature) {
  auto of = [](Ints sizes) { return graphOf("aten.relu.default", {described(sizes, Tensor::contiguous(sizes))}); };
  EXPECT_EQ(of({2, 3, 4}), of({32, 128, 384}));
  EXPECT_EQ(of({2, 3, 3}), of({32, 128, 384})) << "of one tensor, equal sizes are chance";
  EXPECT_NE(of({2, 3, 4}), of({2, 1, 4}));
  EXPECT_NE(of({2, 3, 4}), of({2, 0, 4}));
  EXPECT_NE(of({2, 3, 4}), of({2, 12}));
}

TEST(OpsSignature, StridesAreDenseConstantOrSymbols) {
  auto strides = [](Ints sizes, Ints given) {
    auto g = graph::Graph::parse(graphOf("aten.relu.default", {described(sizes, given)}));
    std::string text;
    for (const SizeExpr &e : g.inputs[0].strides)
      text += e.str() + " ";
    // The description must say the same as the call, for its own sizes.
    std::vector<int64_t> values(g.symbols.size());
    for (size_t d = 0; d < sizes.size(); ++d)
      for (auto [exprs, actual] : {std::pair(&g.inputs[0].sizes, &sizes), std::pair(&g.inputs[0].strides, &given)})
        if ((*exprs)[d].symbols().size() == 1 && (*exprs)[d] == SizeExpr::symbol((*exprs)[d].symbols()[0]))
          values[(*exprs)[d].symbols()[0]] = (*actual)[d];
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] != 1) {
        EXPECT_EQ(g.inputs[0].strides[d].evaluate(values), given[d]);
      }
    return text;
  };
  EXPECT_EQ(strides({4, 5, 6}, {30, 6, 1}), "s1*s2 s2 1 ");
  EXPECT_EQ(strides({5, 4}, {1, 5}), "1 s0 ") << "transposed";
  EXPECT_EQ(strides({4, 6, 5}, {30, 1, 6}), "s1*s2 1 s1 ") << "permuted";
  EXPECT_EQ(strides({4, 5}, {8, 1}), "s2 1 ") << "a slice of columns";
  EXPECT_EQ(strides({3, 4, 5}, {32, 8, 1}), "s1*s3 s3 1 ") << "its outer dimension is dense over it";
  EXPECT_EQ(strides({4, 5}, {0, 1}), "0 1 ") << "expanded";
  EXPECT_EQ(strides({4, 5}, {10, 2}), "s1*s2 s2 ") << "every second element";
  EXPECT_EQ(strides({4, 1, 5}, {5, 999, 1}), "s1 s1 1 ") << "nobody steps over a size of 1";
}

TEST(OpsSignature, StructureIsInTheKeyAndNumbersAreNot) {
  Ints sizes{2, 3}, strides{3, 1};
  OpArgument x = described(sizes, strides);
  auto of = [&](OpArgument a) { return graphOf("aten.op.default", {x, a}); };
  EXPECT_NE(of(int64_t(3)), of(int64_t(4)));
  EXPECT_NE(of(3.0), of(4.0));
  EXPECT_NE(of(true), of(false));
  EXPECT_NE(of(std::string_view("none")), of(std::string_view("tanh")));
  EXPECT_NE(of(DType::F32), of(DType::BF16));
  EXPECT_NE(of(OpArgument()), of(false));
  EXPECT_EQ(of(Number{3.25}), of(Number{4.5}));
  EXPECT_EQ(of(Number{int64_t(30)}), of(Number{int64_t(-40)}));
  EXPECT_NE(of(Number{3.25}), of(Number{int64_t(3)})) << "the type takes part in promotion";
  EXPECT_NE(of(Number{1.0}), of(Number{2.0})) << "compiled in";
  EXPECT_NE(of(Number{1.0}), of(Number{int64_t(1)}));
  EXPECT_NE(of(Number{-0.0}), of(Number{0.0}));
  EXPECT_EQ(of(Size{5}), of(Size{6}));
  EXPECT_NE(of(Size{5}), of(Size{-1}));
  std::vector<int64_t> a{2, 3, -1}, b{5, 7, -1};
  EXPECT_NE(of(IntList(a)), of(IntList(b)));
  EXPECT_EQ(of(SizeList{a}), of(SizeList{b}));
}

TEST(OpsSignature, EveryKindOfArgumentIsWritten) {
  Ints sizes{2, 3}, strides{3, 1}, ints{0, -1}, dims{4, -1};
  std::vector<double> floats{0.1, std::numeric_limits<double>::infinity(), std::nan("")};
  bool flags[] = {true, false, true};
  TensorArgument t = described(sizes, strides, DType::BF16);
  const TensorArgument *tensors[] = {&t, nullptr, &t};
  std::vector<OpArgument> args{t,
                               OpArgument(),
                               Number{2.75},
                               Number{true},
                               Number{int64_t(9)},
                               Size{12},
                               true,
                               int64_t(-4),
                               1e300,
                               std::string_view("say \"no\""),
                               DType::I64,
                               Opaque{"memory_format", "torch.contiguous_format"},
                               TensorList(tensors),
                               IntList(ints),
                               SizeList{dims},
                               FloatList(floats),
                               BoolList(flags)};
  std::vector<NamedArgument> kwargs{{"alpha", Number{0.125}}};
  auto g = graph::Graph::parse(describe({"aten.op.default", args, kwargs, 3}));
  ASSERT_EQ(g.inputs.size(), 8u);
  EXPECT_EQ(g.inputs[0].dtype, DType::BF16);
  EXPECT_EQ(g.inputs[1].kind, graph::Input::Float);
  EXPECT_EQ(g.inputs[2].kind, graph::Input::Int);
  EXPECT_EQ(g.inputs[2].symbol, -1);
  EXPECT_EQ(g.inputs[3].kind, graph::Input::Int);
  EXPECT_GE(g.inputs[3].symbol, 0);
  const auto &a = g.nodes[0].args;
  ASSERT_EQ(a.size(), args.size());
  EXPECT_TRUE(a[1].isNone());
  EXPECT_EQ(a[2].get<graph::ValueRef>()->id, 1u);
  EXPECT_TRUE(*a[3].get<bool>());
  EXPECT_EQ(a[4].get<graph::ValueRef>()->id, 2u);
  EXPECT_EQ(*a[5].get<SizeExpr>(), SizeExpr::symbol(g.inputs[3].symbol));
  EXPECT_EQ(*a[7].get<int64_t>(), -4);
  EXPECT_EQ(*a[8].get<double>(), 1e300);
  EXPECT_EQ(*a[9].get<std::string>(), "say \"no\"");
  EXPECT_EQ(*a[10].get<DType>(), DType::I64);
  EXPECT_EQ(a[11].get<graph::Opaque>()->text, "torch.contiguous_format");
  const auto &list = *a[12].get<graph::Arg::List>();
  EXPECT_EQ(list[0].get<graph::ValueRef>()->id, 4u);
  EXPECT_TRUE(list[1].isNone());
  EXPECT_EQ(*(*a[13].get<graph::Arg::List>())[1].get<int64_t>(), -1);
  EXPECT_EQ(*(*a[14].get<graph::Arg::List>())[1].get<int64_t>(), -1);
  EXPECT_EQ(*(*a[15].get<graph::Arg::List>())[0].get<double>(), 0.1);
  EXPECT_TRUE(std::isinf(*(*a[15].get<graph::Arg::List>())[1].get<double>()));
  EXPECT_EQ(g.nodes[0].kwargs[0].first, "alpha");
  EXPECT_EQ(g.outputs.size(), 3u);
  EXPECT_EQ(g.outputs[2]->id, 10u);
}

TEST(OpsSignature, TheListOfNativeOperatorsComesFromTheImporter) {
  EXPECT_TRUE(supported("aten.add.Tensor"));
  EXPECT_FALSE(supported("aten.no_such_thing.default"));
  EXPECT_TRUE(std::is_sorted(nativeOperators().begin(), nativeOperators().end()));
  EXPECT_GT(nativeOperators().size(), 50u);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

TEST_F(OpsTest, CompilesOncePerSignature) {
  int before = compiler().count;
  for (int64_t n : {2, 3, 50, 1000}) {
    Tensor a({n, n + 1}, 1), b({n, n + 1}, 5);
    auto sum = add(a, b);
    for (size_t i = 0; i < sum.size(); ++i)
      ASSERT_EQ(sum[i], 2 * float(i) + 6);
  }
  EXPECT_EQ(compiler().count, before + 1);
  Tensor a({4, 5}), row({1, 5}, 100);
  row.strides = {5, 1};
  add(a, row);
  EXPECT_EQ(compiler().count, before + 2);
}

TEST_F(OpsTest, NumbersChangeWithoutCompiling) {
  Tensor a({3, 4}), b({3, 4}, 1);
  add(a, b, {{"alpha", Number{0.3}}});
  add(a, b, {{"alpha", Number{int64_t(3)}}});
  int before = compiler().count;
  for (double lr : {0.1, 0.01, 17.25}) {
    auto sum = add(a, b, {{"alpha", Number{lr}}}, &Device::instance().defaultStream());
    for (size_t i = 0; i < sum.size(); ++i)
      ASSERT_EQ(sum[i], float(i) + float(lr) * float(i + 1));
  }
  for (int64_t k : {7, -9}) {
    auto sum = add(a, b, {{"alpha", Number{k}}});
    ASSERT_EQ(sum[2], 2 + 3 * float(k));
  }
  EXPECT_EQ(compiler().count, before);
}

TEST_F(OpsTest, NumbersThatDecideAboutTheCodeAreCompiledIn) {
  Tensor a({3}, 1);
  auto run = [&](double k) {
    std::vector<OpArgument> args{a.arg(), Number{k}};
    Prepared call = prepare({"aten.structural.Scalar", args});
    EXPECT_TRUE(call) << call.reason();
    std::vector<float> result(3);
    void *memory[] = {result.data()};
    call.run(memory, nullptr);
    return result[0];
  };
  EXPECT_EQ(run(3), 4);
  EXPECT_EQ(run(8), 9);
  int before = compiler().count;
  EXPECT_EQ(run(3), 4);
  EXPECT_EQ(compiler().count, before);
}

TEST_F(OpsTest, InPlaceWritesWhatItReads) {
  Tensor a({3, 4}, 1), b({3, 4}, 10);
  std::vector<OpArgument> args{a.arg(), b.arg()};
  Mutation m{0, a.arg()};
  for (int round = 1; round <= 3; ++round) {
    Prepared call = prepare({"aten.add.Tensor", args, {}, 1, std::span(&m, 1)});
    ASSERT_TRUE(call) << call.reason();
    EXPECT_TRUE(call.outputs().empty());
    call.run({}, nullptr);
    for (int i = 0; i < 12; ++i)
      ASSERT_EQ(a.data[i], i + 1 + round * (i + 10));
  }
  Tensor c({3, 4}, 1); // x += x
  std::vector<OpArgument> same{c.arg(), c.arg()};
  Mutation self{0, c.arg()};
  Prepared call = prepare({"aten.add.Tensor", same, {}, 1, std::span(&self, 1)});
  ASSERT_TRUE(call) << call.reason();
  call.run({}, nullptr);
  for (int i = 0; i < 12; ++i)
    ASSERT_EQ(c.data[i], 2 * (i + 1));
  auto g = graph::Graph::parse(describe({"aten.add.Tensor", same, {}, 1, std::span(&self, 1)}));
  EXPECT_EQ(g.inputs.size(), 1u);
  EXPECT_EQ(g.mutations[0].input, 0u);
}

TEST_F(OpsTest, OutTensorsMayHaveOtherStrides) {
  Tensor a({3, 4}, 1), b({3, 4}, 10), out({3, 8}, -1);
  Ints sizes{3, 4};
  std::vector<OpArgument> args{a.arg(), b.arg()};
  Mutation m{0, {out.data.data(), DType::F32, sizes, out.strides}};
  Prepared call = prepare({"aten.add.Tensor", args, {}, 1, std::span(&m, 1)});
  ASSERT_TRUE(call) << call.reason();
  call.run({}, nullptr);
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 8; ++c)
      EXPECT_EQ(out.data[r * 8 + c], c < 4 ? a.data[r * 4 + c] + b.data[r * 4 + c] : float(r * 8 + c - 1));

  // Memory shared in part is not for us.
  Mutation shifted{0, {a.data.data() + 1, DType::F32, sizes, a.strides}};
  EXPECT_FALSE(prepare({"aten.add.Tensor", args, {}, 1, std::span(&shifted, 1)}));
}

TEST_F(OpsTest, WrongSizesAreAnError) {
  Tensor a({3, 4}), b({3, 5});
  std::vector<OpArgument> args{a.arg(), b.arg()};
  try {
    prepare({"aten.add.Tensor", args});
    FAIL();
  } catch (const std::invalid_argument &error) {
    EXPECT_THAT(error.what(), HasSubstr("sizes 4 and 5 differ"));
  }
}

TEST_F(OpsTest, UnsupportedIsRememberedWithItsReason) {
  Tensor a({3});
  std::vector<OpArgument> args{a.arg()};
  int before = compiler().count;
  for (int i = 0; i < 3; ++i) {
    Prepared call = prepare({"aten.unknown.default", args});
    EXPECT_FALSE(call);
    EXPECT_EQ(call.reason(), "nobody wrote it");
    EXPECT_THROW(call.run({}, nullptr), std::logic_error);
  }
  EXPECT_EQ(compiler().count, before + 1);
  Tensor deep(Ints(17, 1));
  std::vector<OpArgument> many{deep.arg()};
  EXPECT_THAT(prepare({"aten.add.Tensor", many}).reason(), HasSubstr("16 dimensions"));
}

TEST_F(OpsTest, FaultsOfTheCompilerAreNeverSwallowed) {
  Tensor a({3});
  std::vector<OpArgument> args{a.arg()};
  for (int i = 0; i < 2; ++i)
    EXPECT_THROW(prepare({"aten.broken.default", args}), CompileError);
}

TEST_F(OpsTest, ManyThreadsManySignatures) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int round = 0; round < 300; ++round) {
        int64_t rows = 1 + (round * 7 + t) % 5, cols = 2 + round % 9;
        Tensor a({rows, cols}, t), b({rows, cols}, round);
        auto sum = add(a, b);
        for (size_t i = 0; i < sum.size(); ++i)
          ASSERT_EQ(sum[i], float(2 * i + t + round));
      }
    });
  for (auto &thread : threads)
    thread.join();
}
