//===- Ops.h - eager operators, free of torch --------------------*- C++ -*-===//
//
// An operator's name and a description of its arguments become a one-node graph, which the compiler turns into a
// Program once per *signature*; after that a call looks the signature up, binds its sizes and runs. What an operator
// means stands in lib/Import/Ops only.
//
//   Prepared call = prepare({"aten.add.Tensor", args, kwargs});
//   if (!call)                       // not native: call.reason() says why; use another implementation
//     ...
//   for each i in call.outputs()     // sizes, strides and dtype of the result
//     memory[i] = allocate(...)
//   call.run(memory, stream);        // nullptr: here and now
//
// The signature: overload; for each tensor its dtype, rank, which sizes are 0 or 1, which sizes agree with those of
// other tensors (counted from the last dimension, as broadcasting does), the order of its strides and which of them are
// 0, 1, or dense; the types of numbers; all other arguments by value. Sizes, other strides and numbers are run-time
// values: a new batch size or learning rate compiles nothing.
//
// Every function is thread-safe.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/CompilerLoader.h"
#include "tilewright/Runtime/Executable.h"
#include "tilewright/Support/DType.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tilewright::ops {

/// A tensor as it lies in memory. Sizes and strides (in elements, not negative) stay the caller's for the call of
/// prepare and until run has returned.
struct TensorArgument {
  void *data = nullptr; // of the first element
  DType dtype = DType::F32;
  std::span<const int64_t> sizes, strides;
  uint64_t epoch = 0;     // see Argument::epoch
  bool parameter = false; // a weight: what is derived from it (packed copies) is worth keeping while the epoch stands
};

/// An argument whose schema type is `Scalar`: read at run time (0, 1, -1, 2 and 0.5, which often have code of their
/// own, are compiled in).
struct Number {
  std::variant<bool, int64_t, double> value;
};

/// An argument whose schema type is `SymInt`: read at run time.
struct Size {
  int64_t value;
};

/// layout, device or memory_format, as PyTorch prints it ("torch.strided").
struct Opaque {
  std::string_view kind, text;
};

struct OpArgument;
using TensorList = std::span<const TensorArgument *const>; // nullptr: None
using IntList = std::span<const int64_t>;                  // by value: dims
using FloatList = std::span<const double>;
using BoolList = std::span<const bool>;

/// SymInt[]: read at run time.
struct SizeList {
  std::span<const int64_t> values;
};

/// Nothing is copied: what an argument refers to lives as long as the OpCall. `int64_t`, `double`, `bool` and strings
/// are structure: their values are part of the signature.
struct OpArgument {
  std::variant<std::monostate, TensorArgument, Number, Size, bool, int64_t, double, std::string_view, DType, Opaque,
               TensorList, IntList, SizeList, FloatList, BoolList>
      value;

  OpArgument() = default; // None
  template <class T>
    requires(!std::is_same_v<std::remove_cvref_t<T>, OpArgument>)
  OpArgument(T &&v) : value(std::forward<T>(v)) {}
};

struct NamedArgument {
  std::string_view name;
  OpArgument value;
};

/// `destination` gets result `result` (converted to its dtype; of the same sizes).
struct Mutation {
  uint32_t result = 0;
  TensorArgument destination;
};

/// One call. For an in-place operator (aten.add_.Tensor) `op` is the functional overload (aten.add.Tensor) and
/// `mutations` says that its first argument gets result 0; for an out= overload, that the out tensors get the results.
/// Results that are written so are not outputs.
struct OpCall {
  std::string_view op; // "aten.add.Tensor"
  std::span<const OpArgument> args;
  std::span<const NamedArgument> kwargs = {}; // defaults may be left out
  unsigned results = 1;
  std::span<const Mutation> mutations = {};
  std::string_view device = "npu"; // where it runs
};

/// A result that the caller allocates. Sizes and strides (in elements) are valid as long as the Prepared.
struct Output {
  uint32_t result; // which of the operator's results
  DType dtype;
  std::span<const int64_t> sizes, strides;
  /// Not -1: it is a view of this argument's memory, in the order in which tensors occur in the call; `offset` is where
  /// it starts, in elements.
  int32_t aliasOf = -1;
  int64_t offset = 0;
};

/// A call that has its program and its sizes.
class Prepared {
public:
  explicit operator bool() const { return executable != nullptr; }
  /// Why there is no native code.
  const std::string &reason() const;

  std::span<const Output> outputs() const { return results; }

  /// `memory` in the order of outputs() (ignored for views; nullptr for empty results). On a stream it returns at once;
  /// memory must stay allocated in stream order. See Executable::run for errors. The caller raises the write epochs of
  /// what is written: outputs and mutated tensors.
  void run(std::span<void *const> memory, Stream *stream) const;

private:
  friend class Library;
  friend Prepared prepare(const OpCall &call);
  std::shared_ptr<Executable> executable;
  std::shared_ptr<const BoundSizes> sizes;
  std::vector<Argument> arguments;
  std::vector<Output> results;
  std::shared_ptr<const std::string> why;
  size_t outputCount = 0; // of the program, those that are mutations included
};

/// Finds or compiles the program. Sizes that do not go together are std::invalid_argument with the names and values of
/// what differs. A fault of the compiler is CompileError of kind "internal"; what it does not support gives an empty
/// Prepared, and so does a call whose written tensors overlap others in part.
Prepared prepare(const OpCall &call);

/// Whether the operator has an entry in the compiler (a use of it may still be unsupported: see prepare). Costs a hash
/// look-up.
bool supported(std::string_view op);
/// All such operators, sorted.
std::span<const std::string_view> nativeOperators();

/// Who compiles in this process; default nativeCompiler(). For tests.
void setCompiler(Compiler &compiler);

struct OpsStats {
  uint64_t signatures = 0, unsupported = 0; // known so far
  uint64_t compiled = 0;                    // by the compiler, in this process; the others came from the disk
  double compileSeconds = 0;                // spent on first calls
};
OpsStats stats();

/// The graph description of a call (docs/graph-format.md): for tests, debugging and bug reports.
std::string describe(const OpCall &call);

} // namespace tilewright::ops
