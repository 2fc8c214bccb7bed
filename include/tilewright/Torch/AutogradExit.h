//===- AutogradExit.h - lets backward threads finish before Python does -*- C++ -*-===//
#pragma once

namespace tilewright::npu {

/// A thread says that the device is current for it, as PyTorch's backward threads do when they start.
void noteDeviceThread();

/// Returns when the device's backward thread, if there is one, has dropped all finished passes. Called without the GIL,
/// before the interpreter ends.
void settleAutograd();

} // namespace tilewright::npu
