#include "tilewright/Runtime/PackedWeights.h"
#include "tilewright/Runtime/Allocator.h"

#include "TestPrograms.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::test;

namespace {
/// y = x + packed(w), where packing is w + w.
Builder withPackedWeight() {
  Builder b("packed", 1);
  b.p.symbols = {{SymbolBinding::InputSize, 0, 0}};
  uint32_t x = b.input("x", {e("s0")}, {1}), w = b.input("w", {e("s0")}, {1}), out = b.output(e("s0"));
  uint32_t packed = b.attached(1, e("s0*4"));
  KernelStep &pack = b.step("add", {w, w, packed}, e("s0"));
  pack.role = KernelStep::Packs;
  pack.attachedBuffer = packed;
  b.step("add", {x, packed, out}, e("s0"));
  return b;
}

using PackedWeights = OnStreamOrHere;
INSTANTIATE_TEST_SUITE_P(Both, PackedWeights, testing::Values(false, true),
                         [](const auto &info) { return info.param ? "OnStream" : "Here"; });

} // namespace

TEST_P(PackedWeights, AreKeptWhileTheEpochStands) {
  releasePackedWeights(true);
  auto exe = withPackedWeight().load();
  Tensor x(100), seen(100);
  // On the device the weight's block is asked whether it is still alive.
  Block *block = GetParam() ? Device::instance().allocator().allocate(400, *stream()) : nullptr;
  std::vector<float> host(100);
  auto *w = block ? static_cast<float *>(block->data) : host.data();
  std::vector<int64_t> sizes{100}, strides{1};
  std::vector<float> out(100);
  auto step = [&](float value, uint64_t epoch) {
    std::fill(w, w + 100, value);
    Argument weight{w, sizes, strides, DType::F32};
    weight.epoch = epoch;
    call(*exe, {x.argument(), weight}, {out.data()}, stream());
    finish();
    return out[0];
  };
  auto epoch = [&](uint64_t n) -> uint64_t {
    if (!block)
      return n;
    block->touch();
    return block->epoch;
  };
  uint64_t hits = packedWeightStats().hits;
  uint64_t first = epoch(1);
  EXPECT_EQ(step(1, first), 2);
  EXPECT_EQ(packedWeightStats().count, 0u) << "seen once: it may be an activation";
  EXPECT_EQ(step(1, first), 2);
  EXPECT_EQ(packedWeightStats().count, 1u);
  EXPECT_EQ(packedWeightStats().bytes, 400u);
  EXPECT_EQ(step(1, first), 2);
  EXPECT_EQ(packedWeightStats().hits, hits + 1);
  EXPECT_EQ(step(9, first), 2) << "written without a new epoch: the kept copy is what is used";
  EXPECT_EQ(packedWeightStats().hits, hits + 2);
  uint64_t second = epoch(2);
  EXPECT_EQ(step(3, second), 6) << "a new epoch";
  EXPECT_EQ(step(4, 0), 8) << "unknown: packed in the call";
  EXPECT_EQ(step(3, second), 6);
  EXPECT_EQ(step(3, second), 6);
  EXPECT_EQ(packedWeightStats().count, 1u);

  // A second program that packs alike shares the copy.
  auto other = withPackedWeight().load();
  hits = packedWeightStats().hits;
  Argument weight{w, sizes, strides, DType::F32};
  weight.epoch = second;
  call(*other, {x.argument(), weight}, {out.data()}, stream());
  finish();
  EXPECT_EQ(packedWeightStats().hits, hits + 1);

  if (block) {
    Device::instance().allocator().free(block);
    releasePackedWeights();
    EXPECT_EQ(packedWeightStats().count, 0u) << "its weight is gone";
  } else {
    std::vector<uint64_t> epochs{second};
    releasePackedWeights(epochs);
    EXPECT_EQ(packedWeightStats().count, 0u);
  }
}

TEST(PackedWeightCopies, GoWithTheLastProgram) {
  releasePackedWeights(true);
  Tensor x(10), w(10);
  w.epoch = 5;
  std::vector<float> out(10);
  auto a = withPackedWeight().load(), b = withPackedWeight().load();
  for (auto &exe : {a, b, a})
    call(*exe, {x.argument(), w.argument()}, {out.data()});
  EXPECT_EQ(packedWeightStats().count, 1u);
  b.reset();
  EXPECT_EQ(packedWeightStats().count, 1u);
  a.reset();
  EXPECT_EQ(packedWeightStats().count, 0u);
}

TEST(PackedWeightCopies, AreSharedAcrossStreams) {
  releasePackedWeights(true);
  auto exe = withPackedWeight().load();
  Stream &s1 = Device::instance().createStream(), &s2 = Device::instance().createStream();
  Block *w = Device::instance().allocator().allocate(400000, s1);
  w->touch();
  std::fill_n(static_cast<float *>(w->data), 100000, 1.5f);
  Tensor x(100000);
  std::vector<int64_t> sizes{100000}, strides{1};
  Argument weight{w->data, sizes, strides, DType::F32};
  weight.epoch = w->epoch;
  std::vector<std::vector<float>> outs(20, std::vector<float>(100000));
  for (size_t i = 0; i < outs.size(); ++i)
    call(*exe, {x.argument(), weight}, {outs[i].data()}, i % 2 ? &s1 : &s2);
  s1.synchronize();
  s2.synchronize();
  EXPECT_EQ(packedWeightStats().count, 1u);
  for (auto &out : outs)
    for (int i = 0; i < 100000; i += 777)
      ASSERT_EQ(out[i], i + 3.0f);
  Device::instance().allocator().free(w);
  releasePackedWeights(true);
}

TEST(PackedWeightCopies, GoWhereTheDevicesMemoryIsShort) {
  constexpr size_t kBytes = size_t(12) << 20; // with a segment of its own
  releasePackedWeights(true);
  Allocator &memory = Device::instance().allocator();
  Stream &s = Device::instance().defaultStream();
  auto exe = withPackedWeight().load();
  Block *w = memory.allocate(kBytes, s);
  std::vector<int64_t> sizes{kBytes / 4}, strides{1};
  std::vector<float> x(kBytes / 4), out(kBytes / 4);
  std::fill_n(static_cast<float *>(w->data), kBytes / 4, 1.5f);
  Argument weight{w->data, sizes, strides, DType::F32}, other{x.data(), sizes, strides, DType::F32};
  weight.epoch = w->epoch;
  for (int i = 0; i < 2; ++i)
    call(*exe, {other, weight}, {out.data()}, &s);
  s.synchronize();
  memory.emptyCache();
  ASSERT_EQ(packedWeightStats().count, 1u);

  const size_t limit = memory.limit();
  const int64_t failures = memory.stats().outOfMemoryCount;
  memory.setLimit(size_t(memory.stats().reservedBytes[0].current));
  std::vector<Block *> blocks;
  for (int i = 0; i < 8 && packedWeightStats().count; ++i)
    EXPECT_NO_THROW(blocks.push_back(memory.allocate(kBytes, s)));
  EXPECT_EQ(packedWeightStats().count, 0u) << "its memory is what was short";
  EXPECT_EQ(memory.stats().outOfMemoryCount, failures);
  EXPECT_THROW(memory.allocate(kBytes, s), OutOfMemory);
  EXPECT_EQ(memory.stats().outOfMemoryCount, failures + 1);
  memory.setLimit(limit);
  for (Block *block : blocks)
    memory.free(block);
  call(*exe, {other, weight}, {out.data()}, &s);
  s.synchronize();
  EXPECT_EQ(out[7], 3.0f);
  memory.free(w);
}
