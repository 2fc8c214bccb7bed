//===- Hooks.h - registration with PyTorch ------------------------*- C++ -*-===//
#pragma once

namespace tilewright::npu {

/// Gives PyTorch the device's hooks and allocator; it keeps the pointers for good. Once per process, before the
/// device's name is used. Kernels and the device guard register themselves when the extension is loaded.
void registerWithTorch();

} // namespace tilewright::npu
