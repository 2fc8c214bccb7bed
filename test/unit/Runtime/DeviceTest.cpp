#include "tilewright/Runtime/Device.h"
#include "tilewright/Runtime/Allocator.h"
#include "tilewright/Runtime/Cpu.h"
#include "tilewright/Runtime/HostMemory.h"
#include "tilewright/Runtime/Stream.h"
#include "tilewright/Support/Switches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

using namespace tilewright;
namespace fs = std::filesystem;

TEST(Device, SaysWhatItIs) {
  const DeviceCapabilities &c = Device::instance().capabilities();
  EXPECT_TRUE(c.name.starts_with("Tilewright host ("));
  EXPECT_EQ(c.cpuLevel, cpuLevel());
  EXPECT_EQ(c.vectorBits, vectorBits(processCpuLevel()));
  EXPECT_GE(c.threads, 1u);
  EXPECT_GT(c.totalMemory, size_t(64) << 20);
  EXPECT_LE(c.totalMemory, usableHostMemory());
  EXPECT_EQ(Device::instance().allocator().limit(), c.totalMemory);
}

TEST(Device, Streams) {
  Device &device = Device::instance();
  EXPECT_EQ(device.defaultStream().id(), 0);
  EXPECT_EQ(&device.stream(0), &device.defaultStream());
  Stream &stream = device.createStream(-1);
  EXPECT_GT(stream.id(), 0);
  EXPECT_EQ(stream.priority(), -1);
  EXPECT_EQ(&device.stream(stream.id()), &stream);
  EXPECT_THROW(device.stream(-1), std::out_of_range);
  EXPECT_THROW(device.stream(1000000), std::out_of_range);
}

TEST(Device, ADestroyedStreamIsDrainedAndGone) {
  Device &device = Device::instance();
  Stream &stream = device.createStream();
  int64_t id = stream.id();
  std::atomic<bool> ran{false};
  stream.enqueue([&] { ran = true; });
  Block *block = device.allocator().allocate(1 << 20, stream, Purpose::Tensor);
  device.destroyStream(id);
  EXPECT_TRUE(ran);
  EXPECT_EQ(block->stream, &device.defaultStream());
  device.allocator().free(block);
  EXPECT_THROW(device.stream(id), std::out_of_range);
  EXPECT_THROW(device.destroyStream(id), std::out_of_range);
  EXPECT_THROW(device.destroyStream(0), std::invalid_argument);
  device.synchronize();
}

TEST(Device, SynchronizeWaitsForAllAndRaisesTheFirstError) {
  Device &device = Device::instance();
  Stream &a = device.createStream(), &b = device.createStream();
  std::atomic<int> ran{0};
  b.enqueue([&] {
    ran++;
    throw std::runtime_error("of b, first");
  });
  b.waitUntil(b.submitted());
  a.enqueue([&] {
    ran++;
    throw std::runtime_error("of a, second");
  });
  auto message = [&]() -> std::string {
    try {
      device.synchronize();
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(), "of b, first");
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(message(), "of a, second");
  EXPECT_EQ(message(), "");
  device.destroyStream(a.id());
  device.destroyStream(b.id());
}

TEST(Device, MemoryLimit) {
  Device &device = Device::instance();
  size_t old = device.allocator().limit();
  device.setMemoryLimit(4096);
  EXPECT_THROW(device.allocator().allocate(size_t(1) << 30, device.defaultStream(), Purpose::Tensor), OutOfMemory);
  device.setMemoryLimit(old);
  EXPECT_EQ(device.allocator().limit(), old);
}

TEST(HostMemory, DefaultLimit) {
  setSwitch("TILEWRIGHT_MEMORY_LIMIT", "3G");
  EXPECT_EQ(defaultMemoryLimit(), size_t(3) << 30);
  setSwitch("TILEWRIGHT_MEMORY_LIMIT", "50%");
  EXPECT_EQ(defaultMemoryLimit(), static_cast<size_t>(static_cast<double>(usableHostMemory()) * 0.5));
  setSwitch("TILEWRIGHT_MEMORY_LIMIT", "");
  EXPECT_EQ(defaultMemoryLimit(), static_cast<size_t>(static_cast<double>(usableHostMemory()) * 0.75));
  setSwitch("TILEWRIGHT_MEMORY_LIMIT", std::nullopt);
}

TEST(HostMemory, ControlGroups) {
  fs::path root = fs::path(::testing::TempDir()) / "tilewright_cgroup";
  fs::remove_all(root);
  auto write = [&](const char *path, const char *text) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << "\n";
  };
  auto limit = [&](const char *membership) { return cgroupMemoryLimit(membership, root.string()); };
  EXPECT_EQ(limit("0::/\n"), SIZE_MAX);
  write("memory.max", "max");
  write("a/memory.max", "1000");
  write("a/b/memory.max", "5000");
  EXPECT_EQ(limit("0::/\n"), SIZE_MAX);
  EXPECT_EQ(limit("0::/a\n"), 1000u);
  EXPECT_EQ(limit("0::/a/b\n"), 1000u) << "the level above holds too";
  EXPECT_EQ(limit("0::/not/visible\n"), SIZE_MAX);
  write("memory/x/memory.limit_in_bytes", "7000");
  write("memory/memory.limit_in_bytes", "9223372036854771712"); // v1: none
  EXPECT_EQ(limit("5:cpu,cpuacct:/x\n4:memory:/x\n"), 7000u);
  EXPECT_EQ(limit("4:memory:/\n"), SIZE_MAX);
  fs::remove_all(root);
}
