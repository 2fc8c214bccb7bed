//===- Generator.cpp - seed and offset of the device's random numbers ---------------------------------------------===//

#include "tilewright/Torch/Generator.h"

#include "tilewright/Torch/DeviceState.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include <cstring>

namespace tilewright::npu {

constexpr size_t kStateBytes = 16;

PhiloxGenerator::PhiloxGenerator(uint64_t seed)
    : GeneratorImpl(c10::Device(kDeviceType, 0), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), seedValue(seed) {}

void PhiloxGenerator::set_current_seed(uint64_t seed) {
  seedValue = seed;
  offset = 0;
}

uint64_t PhiloxGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seedValue;
}

void PhiloxGenerator::set_offset(uint64_t value) {
  TORCH_CHECK(value % 4 == 0, "the offset of an npu generator must be a multiple of 4, got ", value);
  offset = value;
}

void PhiloxGenerator::set_state(const c10::TensorImpl &state) {
  TORCH_CHECK_TYPE(state.layout() == c10::kStrided && state.device_type() == c10::DeviceType::CPU &&
                       state.dtype() == caffe2::TypeMeta::Make<uint8_t>() && state.is_contiguous(),
                   "an RNG state must be a contiguous torch.ByteTensor on the CPU");
  TORCH_CHECK(state.numel() == kStateBytes, "an RNG state of npu has ", kStateBytes, " bytes, got ", state.numel());
  const auto *bytes = static_cast<const uint8_t *>(state.data());
  uint64_t newOffset;
  std::memcpy(&newOffset, bytes + 8, 8);
  set_offset(newOffset);
  std::memcpy(&seedValue, bytes, 8);
}

c10::intrusive_ptr<c10::TensorImpl> PhiloxGenerator::get_state() const {
  at::Tensor state = at::detail::empty_cpu({static_cast<int64_t>(kStateBytes)}, at::kByte);
  auto *bytes = state.mutable_data_ptr<uint8_t>();
  std::memcpy(bytes, &seedValue, 8);
  std::memcpy(bytes + 8, &offset, 8);
  return state.getIntrusivePtr();
}

std::pair<uint64_t, uint64_t> PhiloxGenerator::take(uint64_t count) {
  std::pair<uint64_t, uint64_t> taken(seedValue, offset);
  offset += (count + 3) / 4 * 4;
  return taken;
}

PhiloxGenerator *PhiloxGenerator::clone_impl() const {
  auto *copy = new PhiloxGenerator(seedValue);
  copy->offset = offset;
  return copy;
}

const at::Generator &defaultGenerator() {
  static const auto *generator = new at::Generator(at::make_generator<PhiloxGenerator>());
  return *generator;
}

uint64_t drawSeed(const at::Generator &given) {
  TORCH_CHECK(given.device().type() == kDeviceType, "Expected a 'npu' device type for generator but found '",
              given.device().type(), "'");
  auto *generator = static_cast<PhiloxGenerator *>(given.unsafeGetGeneratorImpl());
  std::lock_guard lock(generator->mutex_);
  auto [seed, offset] = generator->take(4);
  at::philox_engine engine(seed, 0, offset / 4);
  uint64_t low = engine(), high = engine();
  return high << 32 | low;
}

at::Generator cpuGeneratorFor(const at::Generator &generator) {
  return at::detail::createCPUGenerator(drawSeed(generator));
}

} // namespace tilewright::npu
