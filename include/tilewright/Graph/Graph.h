//===- Graph.h - the graph description ---------------------------*- C++ -*-===//
//
// Door 1: what Python makes from FX and Ops from an eager call, and what Import reads. The JSON is specified in
// docs/graph-format.md. Nothing here knows torch's objects.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/DType.h"
#include "tilewright/Support/SizeExpr.h"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tilewright::graph {

/// A description that breaks the format. what() starts with the place, e.g. `nodes[3].args[1]: ...`.
struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A reference to a value: inputs first, then the outputs of each node in order.
struct ValueRef {
  uint32_t id;
  bool operator==(const ValueRef &) const = default;
};

/// layout, device or memory_format, as PyTorch prints it ("torch.strided").
struct Opaque {
  std::string kind, text;
  bool operator==(const Opaque &) const = default;
};

struct Complex {
  double re, im;
  bool operator==(const Complex &) const = default;
};

/// One argument of a node.
struct Arg {
  using List = std::vector<Arg>;
  /// monostate: None. Symbolic integers that are constant become int64_t.
  std::variant<std::monostate, ValueRef, bool, int64_t, double, std::string, SizeExpr, DType, Opaque, Complex, List>
      value;

  bool isNone() const { return std::holds_alternative<std::monostate>(value); }
  template <typename T> const T *get() const { return std::get_if<T>(&value); }
};

struct Symbol {
  std::string name;
  std::optional<int64_t> min, max; // bounds, if known; without a minimum it is a size: not negative
  std::optional<int64_t> hint;     // the value at the call that made the graph
};

struct Input {
  enum Kind : uint8_t { Tensor, Int, Float } kind = Tensor;
  DType dtype = DType::F32;             // Tensor
  std::vector<SizeExpr> sizes, strides; // Tensor; strides in elements
  std::optional<SizeExpr> offset;       // Tensor: of its first element in its storage, if known
  int symbol = -1;                      // Int: the symbol it binds, or -1
  std::string name, role = "input";     // role: input, parameter, buffer
};

/// What a node's result is said to be.
struct OutputInfo {
  DType dtype = DType::F32;
  std::vector<SizeExpr> sizes;
  std::optional<std::vector<SizeExpr>> strides;
};

struct Node {
  std::string op; // "aten.add.Tensor"
  std::vector<Arg> args;
  std::vector<std::pair<std::string, Arg>> kwargs;
  std::vector<std::optional<OutputInfo>> outputs; // one per result; nullopt: not described
  uint32_t firstValue = 0;                        // id of its first result
  std::string source;
};

struct Mutation {
  uint32_t input; // index into inputs
  ValueRef value;
};

struct Graph {
  static constexpr int kVersion = 1;

  std::string name, device = "cpu"; // device: "cpu" or "npu"
  std::vector<Symbol> symbols;
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  std::vector<std::optional<ValueRef>> outputs;
  std::vector<Mutation> mutations;

  /// Throws FormatError for text that is no JSON, for anything the format does not allow, and for references to values
  /// that are not there yet.
  static Graph parse(std::string_view json);
};

} // namespace tilewright::graph
