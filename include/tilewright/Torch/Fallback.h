//===- Fallback.h - operators without a native kernel --------------*- C++ -*-===//
//
// Device memory is host memory, so an operator that has no native kernel runs as PyTorch's CPU kernel on the same
// memory: wait for the stream, view the device tensors as CPU tensors, call, map the results back. Every such call is
// counted by overload name and announced once per operator; TILEWRIGHT_FALLBACK=error refuses it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <map>
#include <string>

namespace tilewright::npu {

/// Calls by overload name ("aten::add.out") since start or reset.
std::map<std::string, int64_t> fallbackCounts();
void resetFallbackCounts();

/// Counts a call that PyTorch computes for the device, announces it or refuses it. `operatorName` as in fallbackCounts.
void noteFallback(const std::string &operatorName);

/// The boxed kernel.
void fallback(const c10::OperatorHandle &op, torch::jit::Stack *stack);

} // namespace tilewright::npu
