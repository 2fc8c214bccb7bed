//===- NativeCall.h - a boxed call as a call of Ops ----------------*- C++ -*-===//
#pragma once

#include "tilewright/Ops/Ops.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <deque>
#include <optional>
#include <string_view>
#include <vector>

namespace tilewright::npu {

/// Arguments as Ops takes them. Holds the tensors and lists that they refer to. Where an argument has no native form (a
/// CPU tensor, a conjugate view, a complex number, a generator), `refused` becomes true and the call has to go another
/// way.
class NativeArguments {
public:
  NativeArguments() = default;
  NativeArguments(const NativeArguments &) = delete;

  /// The value as the schema's argument. The IValue must outlive this.
  ops::OpArgument convert(const c10::Argument &argument, const c10::IValue &value);
  /// The tensor, or nothing (and refused).
  std::optional<ops::TensorArgument> tensor(const at::Tensor &tensor);

  bool refused = false;
  /// Tensors of the device in order of occurrence.
  std::vector<const at::Tensor *> tensors;

private:
  std::deque<at::Tensor> kept;
  std::deque<ops::TensorArgument> elements;
  std::deque<std::vector<const ops::TensorArgument *>> tensorLists;
  std::deque<std::vector<int64_t>> intLists;
  std::deque<std::vector<double>> floatLists;
  std::deque<std::array<bool, 8>> boolLists;

  ops::OpArgument refuse();
  ops::OpArgument convertTensor(const at::Tensor &tensor);
  ops::OpArgument convertList(const c10::Argument &argument, const c10::IValue &value);
  ops::TensorList keepList(const std::vector<at::Tensor> &list);
};

/// Allocates the results, runs on the current stream and returns them. Nothing if there is no native code for the call;
/// throws what the compiler or the runtime throw otherwise, as c10's exceptions. A result that is a view of an argument
/// is not expected of the operators that come here.
std::optional<std::vector<at::Tensor>> runNatively(const ops::OpCall &call);

/// Converts the dtype of strided device tensors of one shape, or says that it cannot.
bool convertNatively(const at::Tensor &from, const at::Tensor &to);

} // namespace tilewright::npu
