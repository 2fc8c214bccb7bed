//===- ExternalAten.h - islands: operators that PyTorch runs -------*- C++ -*-===//
#pragma once

namespace tilewright::npu {

/// Registers the external function "torch.aten". Idempotent.
void registerExternalAten();

} // namespace tilewright::npu
