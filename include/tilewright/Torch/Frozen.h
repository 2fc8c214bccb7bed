//===- Frozen.h - CPU tensors whose packed copies may be kept ------*- C++ -*-===//
//
// On npu every write raises the epoch of its block. On cpu nobody tells us of writes through `.data`, NumPy or DLPack,
// so what is derived from a tensor (packed weights) is kept across calls only after the user has frozen it. Writes that
// PyTorch counts (in-place operators, optimisers, load_state_dict) are noticed even then: the tensor's version takes
// part in the token.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tilewright::npu {

/// Freezes the tensor's storage. Idempotent. Throws c10::Error for a tensor without storage or of another device than
/// cpu.
void freezeStorage(const at::Tensor &tensor);

/// Thaws it and drops what was packed from it. False if it was not frozen.
bool thawStorage(const at::Tensor &tensor);

bool isFrozen(const at::Tensor &tensor);

/// The token for Argument::epoch: the same as long as neither storage nor version of a frozen tensor changes; 0 if it
/// is not frozen or keeps no version (inference tensors are versionless: their token is the storage's alone).
uint64_t frozenEpoch(const at::Tensor &tensor);

} // namespace tilewright::npu
