//===- NativeOps.h - registration of compiled operators ------------*- C++ -*-===//
#pragma once

#include <set>
#include <string>

namespace tilewright::npu {

/// Registers a kernel for every overload of ATen that Ops has native code for, in functional, in-place and out= form.
/// Returns their names ("aten::add.out"). Once per process.
std::set<std::string> registerNativeOps();

/// Registers the fallback by name for operators that PyTorch would otherwise compute in another way, but for those in
/// `native`.
void registerFallbackOps(const std::set<std::string> &native);

} // namespace tilewright::npu
