#include "tilewright/Runtime/Program.h"
#include "tilewright/Support/Hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <stdexcept>

using namespace tilewright;

namespace {

/// A program with every kind of everything in it.
Program sample() {
  auto e = [](const char *text) { return SizeExpr::parse(text); };
  Program p;
  p.target = "avx2";
  p.name = "sample";
  p.symbolCount = 2;
  p.symbols = {{SymbolBinding::InputSize, 0, 1}, {SymbolBinding::ScalarInput, 1, 0}};
  p.inputs.resize(3);
  p.inputs[0] = {InputSpec::Tensor, DType::BF16, {4, e("s0")}, {e("s0"), 1}, true, "x"};
  p.inputs[1] = {InputSpec::ScalarInt, DType::I64, {}, {}, false, "n"};
  p.inputs[2] = {InputSpec::ScalarFloat, DType::F64, {}, {}, false, "lr"};
  p.outputs = {{OutputSpec::Fresh, DType::I8, {e("s0*s1 + 1")}, {1}, 0, 0},
               {OutputSpec::AliasOfInput, DType::BF16, {e("s0")}, {4}, e("s0"), 0}};
  p.checks = {{SizeCheck::LessEqual, e("s0"), e("min(s1, 77)"), "{lhs} above {rhs}"}};
  p.constants = {{{1, 2, 3}}};
  p.buffers = {{BufferSpec::Input, 0, e("s0*8")},
               {BufferSpec::Output, 0, e("s0*s1 + 1")},
               {BufferSpec::Constant, 0, 3},
               {BufferSpec::Temp, 0, e("s0*4"), 1, 2},
               {BufferSpec::Attached, 0, 64, 0, 0, 0}};
  p.kernels = {{"copy", "tw_copy", 42, {0x7f, 'E', 'L', 'F'}}};
  KernelStep step;
  step.kernel = 0;
  step.buffers = {0, 2, 4};
  step.offsets = {0, e("s0//2"), 8};
  step.ints = {e("s0"), -7};
  step.grid = e("s0*s1");
  step.grain = 16;
  step.scratchBytes = 128;
  step.bytesMoved = e("s0*8");
  step.flops = 3;
  step.source = "model.py:3";
  step.errorSites = {{"aten.index.Tensor", "model.py:4", "index {index} of {bound}"}};
  step.role = KernelStep::Packs;
  step.attachedBuffer = 4;
  ExternalStep call;
  call.function = "torch.aten";
  call.payload = std::string("{\"op\": \"x\0\"}", 11);
  call.inputs = {{0, 4, DType::F16, {e("s0")}, {2}}};
  call.outputs = {{1, 0, DType::I8, {e("s1")}, {1}}};
  call.ints = {e("s1")};
  call.op = "aten.svd";
  call.reason = "only PyTorch has it";
  call.source = "model.py:9";
  KernelStep plain = step;
  plain.role = KernelStep::Plain;
  plain.buffers = {0, 3, 4};
  p.steps = {step, call, plain};
  return p;
}

std::string messageOf(std::span<const uint8_t> bytes) {
  try {
    Program::deserialize(bytes);
  } catch (const std::runtime_error &e) {
    return e.what();
  }
  return "";
}

/// Makes the checksum right again, as somebody who edits a file would.
void seal(std::vector<uint8_t> &bytes) {
  uint64_t size = bytes.size() - 32, checksum = hash64(bytes.data() + 32, size);
  std::memcpy(bytes.data() + 16, &size, 8);
  std::memcpy(bytes.data() + 24, &checksum, 8);
}

void expectInvalid(const Program &p, const std::string &part) {
  std::string message = messageOf(p.serialize());
  EXPECT_NE(message.find(part), std::string::npos) << "wanted \"" << part << "\", got \"" << message << "\"";
}

} // namespace

TEST(Program, RoundTripKeepsEverything) {
  Program p = sample();
  std::vector<uint8_t> bytes = p.serialize();
  Program q = Program::deserialize(bytes);
  EXPECT_EQ(q.serialize(), bytes);
  EXPECT_EQ(q.target, "avx2");
  EXPECT_EQ(q.name, "sample");
  ASSERT_EQ(q.inputs.size(), 3u);
  EXPECT_EQ(q.inputs[0].sizes, p.inputs[0].sizes);
  EXPECT_EQ(q.inputs[0].strides, p.inputs[0].strides);
  EXPECT_EQ(q.inputs[0].dtype, DType::BF16);
  EXPECT_TRUE(q.inputs[0].mutated);
  EXPECT_EQ(q.inputs[2].kind, InputSpec::ScalarFloat);
  EXPECT_EQ(q.symbols[1].kind, SymbolBinding::ScalarInput);
  EXPECT_EQ(q.outputs[1].offset, SizeExpr::symbol(0));
  EXPECT_EQ(q.checks[0].rhs.str(), "min(77, s1)");
  EXPECT_EQ(q.constants[0].bytes, p.constants[0].bytes);
  EXPECT_EQ(q.buffers[3].lastStep, 2u);
  EXPECT_EQ(q.kernels[0].object, p.kernels[0].object);
  EXPECT_EQ(q.kernels[0].hash, 42u);
  auto &step = std::get<KernelStep>(q.steps[0]);
  EXPECT_EQ(step.ints, std::get<KernelStep>(p.steps[0]).ints);
  EXPECT_EQ(step.errorSites[0].message, "index {index} of {bound}");
  EXPECT_EQ(step.role, KernelStep::Packs);
  EXPECT_EQ(step.attachedBuffer, 4u);
  auto &call = std::get<ExternalStep>(q.steps[1]);
  EXPECT_EQ(call.payload.size(), 11u);
  EXPECT_EQ(call.inputs[0].dtype, DType::F16);
  EXPECT_EQ(call.reason, "only PyTorch has it");
  EXPECT_EQ(Program::deserialize(Program().serialize()).serialize(), Program().serialize());
}

TEST(Program, EveryDamagedByteIsNoticed) {
  std::vector<uint8_t> bytes = sample().serialize();
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<uint8_t> damaged = bytes;
    damaged[i] ^= 1 << (i % 8);
    EXPECT_NE(messageOf(damaged), "") << "byte " << i;
  }
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_NE(messageOf(std::span(bytes).first(n)), "") << "cut to " << n;
  bytes.push_back(0);
  EXPECT_NE(messageOf(bytes), "");
}

TEST(Program, DamageWithAMatchingChecksumNeverCrashes) {
  std::mt19937_64 rng(1);
  std::vector<uint8_t> bytes = sample().serialize();
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> damaged = bytes;
    for (unsigned n = 1 + rng() % 4; n--;) {
      size_t at = 32 + rng() % (damaged.size() - 32);
      switch (rng() % 3) {
      case 0:
        damaged[at] = rng();
        break;
      case 1:
        damaged.erase(damaged.begin() + at, damaged.begin() + std::min(damaged.size(), at + 1 + rng() % 8));
        break;
      default:
        damaged.insert(damaged.begin() + at, 1 + rng() % 8, static_cast<uint8_t>(rng()));
      }
    }
    seal(damaged);
    try {
      Program p = Program::deserialize(damaged);
      ASSERT_EQ(Program::deserialize(p.serialize()).serialize(), p.serialize());
    } catch (const std::runtime_error &) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5000u);
}

TEST(Program, MessagesSayWhatIsWrong) {
  std::vector<uint8_t> bytes = sample().serialize();
  auto with = [&](size_t at, uint8_t value) {
    auto copy = bytes;
    copy[at] = value;
    return messageOf(copy);
  };
  EXPECT_NE(with(0, 'X').find("magic"), std::string::npos);
  EXPECT_NE(with(8, 99).find("version 99"), std::string::npos);
  EXPECT_NE(with(24, bytes[24] ^ 1).find("checksum"), std::string::npos);
  EXPECT_NE(messageOf(std::span(bytes).first(5)).find("truncated"), std::string::npos);
  EXPECT_NE(messageOf(std::span(bytes).first(100)).find("truncated"), std::string::npos);
}

TEST(Program, WrongIndicesAreNamed) {
  auto changed = [](auto change) {
    Program p = sample();
    change(p);
    return p;
  };
  auto step = [](Program &p) -> KernelStep & { return std::get<KernelStep>(p.steps[0]); };
  expectInvalid(changed([](Program &p) { p.symbols.pop_back(); }), "a binding for each symbol");
  expectInvalid(changed([](Program &p) { p.symbols[0].input = 9; }), "symbol 0: input 9 of 3");
  expectInvalid(changed([](Program &p) { p.symbols[0].dim = 2; }), "symbol 0: dimension 2 of 2");
  expectInvalid(changed([](Program &p) { p.symbols[1].input = 2; }), "no integer");
  expectInvalid(changed([](Program &p) { p.inputs[0].strides.pop_back(); }), "input 0: as many strides");
  expectInvalid(changed([](Program &p) { p.outputs[1].input = 3; }), "output 1: input 3 of 3");
  expectInvalid(changed([](Program &p) { p.outputs[0].sizes[0] = SizeExpr::symbol(2); }), "output 0: symbol 2 of 2");
  expectInvalid(changed([](Program &p) { p.buffers[0].index = 3; }), "buffer 0: input 3 of 3");
  expectInvalid(changed([](Program &p) { p.buffers[1].index = 1; }), "alias");
  expectInvalid(changed([](Program &p) { p.buffers[2].index = 1; }), "buffer 2: constant 1 of 1");
  expectInvalid(changed([](Program &p) { p.buffers[3].lastStep = 3; }), "buffer 3: step 3 of 3");
  expectInvalid(changed([](Program &p) { p.buffers[3].lastStep = 1; }), "step 2: it uses buffer 3");
  expectInvalid(changed([](Program &p) { p.buffers[4].attachedTo = 1; }), "attached to a scalar");
  expectInvalid(changed([&](Program &p) { step(p).kernel = 1; }), "step 0: kernel 1 of 1");
  expectInvalid(changed([&](Program &p) { step(p).buffers[0] = 5; }), "step 0: buffer 5 of 5");
  expectInvalid(changed([&](Program &p) { step(p).offsets.pop_back(); }), "as many offsets");
  expectInvalid(changed([&](Program &p) { step(p).attachedBuffer = 0; }), "not attached");
  expectInvalid(changed([&](Program &p) {
                  p.buffers[3].firstStep = 0;
                  step(p).buffers[1] = 3;
                }),
                "which is not that input");
  expectInvalid(changed([](Program &p) { std::get<ExternalStep>(p.steps[1]).inputs[0].buffer = 7; }), "buffer 7 of 5");
  expectInvalid(changed([](Program &p) { p.kernels[0].symbol.clear(); }), "kernel 0: it has no symbol");
}
