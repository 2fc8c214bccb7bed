//===- TileAccessTest.cpp - loads, stores, gathers and scatters on every level -----------------------------------===//
//
// Memory ends at an unreadable page, so that a read or write beyond a valid extent faults.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "MatrixRunner.h"

#include <gtest/gtest.h>

using namespace tilewright;
using namespace tilewright::test;

namespace {

struct Element {
  const char *type;
  unsigned bytes;
  const char *fill; // as an attribute, and as bits
  uint64_t fillBits;
};

const Element kElements[] = {{"f32", 4, "1.5 : f32", 0x3fc00000},
                             {"f64", 8, "1.5 : f64", 0x3ff8000000000000},
                             {"bf16", 2, "1.5 : bf16", 0x3fc0},
                             {"f16", 2, "1.5 : f16", 0x3e00},
                             {"i8", 1, "7 : i8", 7},
                             {"i16", 2, "7 : i16", 7},
                             {"i32", 4, "7 : i32", 7},
                             {"i64", 8, "7 : i64", 7},
                             {"i1", 1, "true", 1}};

std::string tile(int64_t lanes, const std::string &type) {
  return "tensor<" + std::to_string(lanes) + "x" + type + ">";
}

uint64_t read(const void *memory, unsigned bytes, int64_t at) {
  uint64_t value = 0;
  std::memcpy(&value, static_cast<const char *>(memory) + at * bytes, bytes);
  return value;
}

void write(void *memory, unsigned bytes, int64_t at, uint64_t value) {
  std::memcpy(static_cast<char *>(memory) + at * bytes, &value, bytes);
}

uint64_t sample(const Element &e, int64_t i) {
  if (std::string(e.type) == "i1")
    return i * 7 % 3 == 0 ? 0 : 1;
  return (uint64_t(i) * 0x9e3779b97f4a7c15 + 0x1234567) >> (64 - 8 * e.bytes) & ~uint64_t(0) >> (64 - 8 * e.bytes + 2);
}

/// y[i] = x[i * stride] for i < valid, else fill; y is written whole.
std::string loadKernel(const Element &e, int64_t lanes, const std::string &stride, bool valid, bool fill) {
  std::string buffer = std::string("!tile.buffer<") + e.type + ">", t = tile(lanes, e.type);
  return "tile.kernel @f(%x: " + buffer + ", %y: " + buffer +
         ", %s: index, %v: index) {\n%c0 = arith.constant 0 : index\ntile.grid () in () {\n" +
         "%t = tile.load %x[%c0] strides [" + stride + "]" + (valid ? " valid [%v]" : "") +
         (fill ? std::string(" fill ") + e.fill : "") + " : " + buffer + " -> " + t +
         "\ntile.store %t, %y[%c0] strides [1] : " + t + ", " + buffer + "\n}\n}\n";
}

/// All types at a full and a wide tile; odd sizes for one type of each kind of access.
std::vector<int64_t> lanesFor(const Element &e) {
  std::string type = e.type;
  if (type == "f32" || type == "i1")
    return {1, 5, 16, 64};
  return {16};
}

TEST(TileLoad, ReadsValidElementsAndFillsTheRest) {
  for (const std::string &level : runnableLevels())
    for (const Element &e : kElements)
      for (int64_t lanes : lanesFor(e))
        for (const char *stride : {"1", "0", "3", "%s"})
          for (bool valid : {false, true})
            for (bool fill : {false, true}) {
              if (fill != (valid && *stride != '%'))
                continue;
              CompiledKernel kernel(loadKernel(e, lanes, stride, valid, fill), level);
              int64_t step = *stride == '%' ? 2 : std::atoi(stride);
              std::vector<int64_t> extents{lanes};
              if (valid)
                extents = {0, 1, lanes / 2, lanes - 1, lanes, lanes + 3, -5};
              for (int64_t extent : extents) {
                int64_t count = std::max<int64_t>(0, std::min(extent, lanes));
                int64_t elements = count == 0 ? 0 : (count - 1) * step + 1;
                GuardedMemory x(elements * e.bytes), y(lanes * e.bytes);
                for (int64_t i = 0; i < elements; ++i)
                  write(x.data(), e.bytes, i, sample(e, i));
                kernel.run({x.data(), y.data()}, {2, extent}, 0, 1);
                for (int64_t i = 0; i < lanes; ++i) {
                  uint64_t wanted = i < count ? sample(e, i * step) : fill ? e.fillBits : 0;
                  ASSERT_EQ(read(y.data(), e.bytes, i), wanted)
                      << e.type << " lanes " << lanes << " stride " << stride << " valid " << extent << " lane " << i
                      << " on " << level;
                }
              }
            }
}

TEST(TileStore, TouchesValidElementsOnly) {
  for (const std::string &level : runnableLevels())
    for (const Element &e : kElements)
      for (int64_t lanes : lanesFor(e))
        for (const char *stride : {"1", "0", "3", "%s"})
          for (bool valid : {false, true}) {
            std::string buffer = std::string("!tile.buffer<") + e.type + ">", t = tile(lanes, e.type);
            std::string text = "tile.kernel @f(%x: " + buffer + ", %y: " + buffer +
                               ", %s: index, %v: index) {\n%c0 = arith.constant 0 : index\n" +
                               "tile.grid () in () {\n%t = tile.load %x[%c0] strides [1] : " + buffer + " -> " + t +
                               "\ntile.store %t, %y[%c0] strides [" + stride + "]" + (valid ? " valid [%v]" : "") +
                               " : " + t + ", " + buffer + "\n}\n}\n";
            CompiledKernel kernel(text, level);
            int64_t step = *stride == '%' ? 2 : std::atoi(stride);
            std::vector<int64_t> extents{lanes};
            if (valid)
              extents = {0, 1, lanes / 2, lanes - 1, lanes, lanes + 3, -5};
            for (int64_t extent : extents) {
              int64_t count = std::max<int64_t>(0, std::min(extent, lanes));
              int64_t elements = count == 0 ? 0 : (count - 1) * step + 1;
              GuardedMemory x(lanes * e.bytes), y(elements * e.bytes);
              for (int64_t i = 0; i < lanes; ++i)
                write(x.data(), e.bytes, i, sample(e, i));
              std::vector<uint64_t> wanted(elements);
              for (int64_t i = 0; i < elements; ++i)
                wanted[i] = read(y.data(), e.bytes, i);
              for (int64_t i = 0; i < count; ++i)
                wanted[i * step] = sample(e, i); // stride 0: the last one stays
              kernel.run({x.data(), y.data()}, {2, extent}, 0, 1);
              for (int64_t i = 0; i < elements; ++i)
                ASSERT_EQ(read(y.data(), e.bytes, i), wanted[i])
                    << e.type << " lanes " << lanes << " stride " << stride << " valid " << extent << " element " << i
                    << " on " << level;
            }
          }
}

TEST(TileLoad, TakesEveryNonZeroByteForTrueAndStoresOne) {
  for (const std::string &level : runnableLevels()) {
    CompiledKernel kernel(loadKernel({"i1", 1, "true", 1}, 16, "1", false, false), level);
    GuardedMemory x(16), y(16);
    for (int i = 0; i < 16; ++i)
      x.as<uint8_t>()[i] = uint8_t(i * 16);
    kernel.run({x.data(), y.data()}, {1, 16}, 0, 1);
    for (int i = 0; i < 16; ++i)
      EXPECT_EQ(y.as<uint8_t>()[i], i != 0) << level;
  }
}

TEST(TileGather, ReadsAtIndicesAndScatterWritesInOrder) {
  for (const std::string &level : runnableLevels())
    for (const Element &e : kElements)
      for (const char *index : {"i32", "i64"})
        for (const char *stride : {"1", "2", "%s"})
          for (bool valid : {false, true}) {
            const int64_t lanes = 16;
            std::string buffer = std::string("!tile.buffer<") + e.type + ">",
                        indices = std::string("!tile.buffer<") + index + ">";
            std::string t = tile(lanes, e.type), it = tile(lanes, index), tail = valid ? " valid [%v]" : "";
            std::string text = "tile.kernel @f(%x: " + buffer + ", %p: " + indices + ", %q: " + indices +
                               ", %y: " + buffer +
                               ", %s: index, %v: index) {\n%c0 = arith.constant 0 : index\ntile.grid () in () {\n%a = "
                               "tile.load %p[%c0] strides [1]" +
                               tail + " : " + indices + " -> " + it + "\n%b = tile.load %q[%c0] strides [1]" + tail +
                               " : " + indices + " -> " + it + "\n%t = tile.gather %x[%c0] indices %a stride " +
                               stride + tail + (valid ? std::string(" fill ") + e.fill : "") + " : " + it + ", " +
                               buffer + " -> " + t + "\ntile.scatter %t, %y[%c0] indices %b stride " + stride + tail +
                               " : " + t + ", " + it + ", " + buffer + "\n}\n}\n";
            CompiledKernel kernel(text, level);
            int64_t step = *stride == '%' ? 3 : std::atoi(stride);
            for (int64_t extent : valid ? std::vector<int64_t>{0, 1, 7, 15, 16, 99} : std::vector<int64_t>{16}) {
              int64_t count = std::min(extent, lanes), width = *index == 'i' && index[1] == '3' ? 4 : 8;
              GuardedMemory x(((8 - 1) * step + 1) * e.bytes), y(((8 - 1) * step + 1) * e.bytes), p(count * width),
                  q(count * width);
              for (int64_t i = 0; i <= 7 * step; ++i) {
                write(x.data(), e.bytes, i, sample(e, i));
                write(y.data(), e.bytes, i, 0);
              }
              std::vector<uint64_t> wanted(7 * step + 1);
              for (int64_t i = 0; i < count; ++i) {
                int64_t from = i * 5 % 8, to = i * 3 % 8; // 16 elements to 8 places: later ones stay
                write(p.data(), width, i, from);
                write(q.data(), width, i, to);
                wanted[to * step] = sample(e, from * step);
              }
              kernel.run({x.data(), p.data(), q.data(), y.data()}, {3, extent}, 0, 1);
              for (int64_t i = 0; i <= 7 * step; ++i)
                ASSERT_EQ(read(y.data(), e.bytes, i), wanted[i])
                    << e.type << " " << index << " stride " << stride << " valid " << extent << " on " << level;
            }
          }
}

} // namespace
