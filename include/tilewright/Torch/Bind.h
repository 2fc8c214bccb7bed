//===- Bind.h - the parts of the extension module ------------------*- C++ -*-===//
#pragma once

#include <nanobind/nanobind.h>

namespace tilewright::npu {

/// Compiling graphs and calling them: compile_graph, CompiledGraph, CompileFailure, native_ops, freezing. Also
/// registers the external function "torch.aten" and the translation of PyTorch's C++ exceptions to Python's.
void bindCompile(nanobind::module_ &m);

/// Times of kernels: start_kernel_profile, stop_kernel_profile. For bringup and whoever asks where the time goes.
void bindKernelProfile(nanobind::module_ &m);

} // namespace tilewright::npu
