//===- Signature.h - what of a call decides its code -------------*- C++ -*-===//
//
// A call is walked once; the walk numbers symbols, classifies sizes and strides, and writes the key. The graph's text
// is written from the same walk, so two calls with one key have one graph by construction.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Ops/Ops.h"

#include <optional>
#include <string>
#include <vector>

namespace tilewright::ops {

inline constexpr unsigned kMaxRank = 16;

/// How a size or stride is known: a constant, a symbol, or (strides) dense over the next inner dimension.
struct Extent {
  enum Kind : uint8_t { Constant, Symbol, Dense } kind = Constant;
  uint8_t value = 0; // Constant: 0 or 1; Symbol: its number; Dense: the dimension whose stride times size this is
};

struct TensorClass {
  const TensorArgument *tensor = nullptr;
  uint8_t rank = 0;
  Extent sizes[kMaxRank], strides[kMaxRank];
};

/// A graph input, in order.
struct InputClass {
  enum Kind : uint8_t { Tensor, Int, SymbolInt, Float } kind = Tensor;
  TensorClass tensor;
  int64_t scalarInt = 0; // Int, SymbolInt
  double scalarFloat = 0;
  uint8_t symbol = 0; // SymbolInt
};

class Signature {
public:
  /// `inlineNumbers`: run-time numbers become constants, for operators whose code depends on them.
  Signature(const OpCall &call, bool inlineNumbers);

  /// Nothing, or why there can be no program for this call.
  const char *refusal = nullptr;
  std::string_view key() const { return text; }
  /// The graph description.
  std::string graph() const;
  /// Whether there are numbers that inlineNumbers would change.
  bool hasNumbers = false;

  const std::vector<InputClass> &inputs() const { return list; }
  /// The input of each tensor or number in order of occurrence; one that is given twice in a call that writes is one
  /// input.
  const std::vector<uint32_t> &occurrences() const { return refs; }
  /// Per mutation: the input it writes.
  const std::vector<uint32_t> &destinations() const { return written; }

private:
  void walk();
  void argument(const OpArgument &a);
  void tensor(const TensorArgument &t);
  std::optional<uint32_t> findSame(const TensorArgument &t) const;
  InputClass &addInput();
  void classify(const TensorArgument &t, TensorClass &c);
  void number(const Number &n);
  void size(int64_t value);
  uint8_t newSymbol();
  bool isRunTime(const Number &n) const;
  bool overlaps() const;

  const OpCall &call;
  const bool inlineNumbers;
  std::string &text;                     // the key; storage is reused from call to call
  std::vector<InputClass> &list;         // likewise
  std::vector<uint32_t> &written, &refs; // likewise
  struct Known {
    unsigned fromLast;
    int64_t value;
    uint8_t symbol;
  };
  std::vector<Known> &known; // likewise: sizes of tensors that have a symbol
  size_t symbolCount = 0;
  friend class GraphText;
};

} // namespace tilewright::ops
