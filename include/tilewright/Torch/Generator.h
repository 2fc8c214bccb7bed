//===- Generator.h - the device's random state --------------------*- C++ -*-===//
//
// Philox counter-based: the state is a seed and an offset, as on CUDA, so that compiled code can take both as numbers.
// A saved state is 16 bytes: seed (uint64), offset (int64), little endian.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <utility>

namespace tilewright::npu {

class PhiloxGenerator final : public c10::GeneratorImpl {
public:
  explicit PhiloxGenerator(uint64_t seed = c10::default_rng_seed_val);

  void set_current_seed(uint64_t seed) override; // also sets the offset back to 0
  uint64_t current_seed() const override { return seedValue; }
  uint64_t seed() override; // a new one from the system's randomness
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return offset; }
  void set_state(const c10::TensorImpl &state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  /// Takes `count` 32-bit numbers: returns (seed, offset) for them and moves the offset on, rounded up to a multiple of
  /// 4 (what one Philox round gives). The caller holds mutex_.
  std::pair<uint64_t, uint64_t> take(uint64_t count);

private:
  PhiloxGenerator *clone_impl() const override;
  uint64_t seedValue;
  uint64_t offset = 0;
};

/// The generator of npu:0, in place of a missing `generator=`.
const at::Generator &defaultGenerator();

/// A CPU generator whose seed is drawn from the device generator, which moves on. Throws c10::Error for a generator of
/// another device. For CPU kernels that stand in for the device's.
at::Generator cpuGeneratorFor(const at::Generator &generator);
/// The drawn seed alone.
uint64_t drawSeed(const at::Generator &generator);

} // namespace tilewright::npu
