//===- Bind.h - the parts of the extension module ------------------*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/CompilerLoader.h"

#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>

namespace tilewright::npu {

/// Compiling graphs and calling them: compile_graph, CompiledGraph, CompileFailure, native_ops, freezing. Also
/// registers the external function "torch.aten" and the translation of PyTorch's C++ exceptions to Python's.
void bindCompile(nanobind::module_ &m);

/// tilewright._C.CompileFailure: its text is the compiler's error as JSON.
struct CompileFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
std::string asJson(const CompileError &error);

/// Running kernel programs after every pass: verify_kernel.
void bindVerify(nanobind::module_ &m);

/// Times of kernels: start_kernel_profile, stop_kernel_profile. For bringup and whoever asks where the time goes.
void bindKernelProfile(nanobind::module_ &m);

} // namespace tilewright::npu
