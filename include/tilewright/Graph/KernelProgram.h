//===- KernelProgram.h - a kernel written by hand, as data --------*- C++ -*-===//
//
// The C++ side of docs/kernel-programs.md: what the Python front end sends as JSON and what a C++ program may build by
// hand. Plain data; the importer gives it its meaning.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/DType.h"
#include "tilewright/Support/SizeExpr.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::kernel {

struct Location {
  int64_t line = 0, column = 0;
};

/// A number of any element type.
struct Number {
  bool isFloat = false;
  double floatValue = 0;
  int64_t intValue = 0;
};

/// Where one dimension of a parameter (or of a view's source) is read: `start + sum(step * index[dim])` of the result's
/// indices, or an index that a value holds.
struct Index {
  struct Term {
    uint32_t dim;
    SizeExpr step;
  };
  SizeExpr start;
  std::vector<Term> terms;
  std::optional<uint32_t> value;
  std::vector<uint32_t> dims; // of `value`: dimension q runs with the result's dims[q]
};

/// A range [begin, end) that is walked in tiles. `start` and `size` are local symbols.
struct Axis {
  enum Tiling : uint8_t { Automatic, Fixed, Scalar };
  std::string name;
  uint32_t start = 0, size = 0; // size: not of Scalar
  SizeExpr begin, end;
  Tiling tiling = Automatic;
  int64_t tile = 0; // Fixed
};

struct Carried {
  uint32_t init, arg, next, result;
};
struct Merge {
  uint32_t thenValue, elseValue, result;
};

struct Statement {
  std::string op;
  Location loc;

  // Statements that make a value.
  std::optional<uint32_t> id;
  DType dtype = DType::F32;
  std::vector<SizeExpr> shape;
  std::vector<uint32_t> args;

  // What else an op takes; see docs/kernel-programs.md.
  Number value;                      // const
  SizeExpr size;                     // size
  uint32_t param = 0;                // scalar, load, store, atomic_add
  uint32_t axis = 0;                 // iota, concat, scan, sort
  std::string kind;                  // reduce, scan
  std::vector<uint32_t> axes;        // reduce
  std::vector<Index> index;          // load, store, atomic_add, view
  std::optional<Number> fill;        // load
  bool clip = false;                 // store
  bool descending = false;           // sort
  std::vector<uint32_t> ids;         // sort
  uint32_t symbol = 0;               // bind
  SizeExpr min, max = INT64_MAX - 1; // bind
  std::string message;               // assert

  // Statements with bodies.
  std::vector<Axis> walked; // parallel: any number; for: one
  std::vector<Carried> carried;
  std::vector<Merge> merged;
  uint32_t condition = 0;           // if, while: a value
  std::vector<Statement> body;      // parallel, for, while; if: then
  std::vector<Statement> otherwise; // if: else; while: what computes the condition
};

struct Parameter {
  enum Kind : uint8_t { In, Out, InOut, Scalar };
  enum Layout : uint8_t { Contiguous, Inner, Strided };
  std::string name;
  Kind kind = In;
  DType dtype = DType::F32;
  std::vector<SizeExpr> sizes;
  Layout layout = Contiguous;
  bool fresh = false;             // Out: allocated by the call and returned, not passed
  std::optional<uint32_t> symbol; // Scalar
  Location loc;
};

struct Relation {
  enum Op : uint8_t { Equal, NotEqual, LessEqual, Less } op = Equal;
  SizeExpr lhs, rhs;
  std::string message;
};

struct Program {
  static constexpr int64_t kVersion = 1;
  std::string name, file;
  std::vector<std::string> symbols;
  uint32_t symbolCount = 0; // with local ones
  uint32_t valueCount = 0;
  std::vector<Parameter> params;
  std::vector<Relation> relations;
  std::vector<Statement> body;
  std::string text; // what it was read from

  /// Throws graph::FormatError naming the place: a missing or unknown key, a value, parameter or symbol that does not
  /// exist or is used before it is made.
  static Program parse(std::string_view json);
  /// Whether a description is a kernel program, not a graph.
  static bool recognises(std::string_view json);
  /// "file.py:12" for messages.
  std::string where(const Location &loc) const;
};

} // namespace tilewright::kernel
