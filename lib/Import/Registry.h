//===- Registry.h - one entry per operator -----------------------*- C++ -*-===//
//
// An operator's meaning in one place: its names with overloads, its parameters with defaults as in ATen's schema
// (without types), and a function that emits nests and returns the results. To add one, add a line in the file of its
// family in lib/Import/Ops.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "Builder.h"

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace tilewright::importer {

/// nullopt: a result that PyTorch leaves out.
using Results = std::vector<std::optional<Tensor>>;
using X = std::span<const Ex>;

struct Entry {
  using Function = std::function<Results(Builder &)>;
  std::string parameters;
  Function function;
};

class Registry {
public:
  /// The entries of all families, built at the first call.
  static const Registry &instance();

  /// `names` are those of operators that take the same parameters, e.g. {"aten.add.Tensor", "aten.add.Scalar"}.
  void add(std::initializer_list<std::string_view> names, std::string_view parameters, Entry::Function function);
  const Entry *find(const std::string &name) const;
  std::vector<std::string> names() const; // sorted

private:
  std::unordered_map<std::string, std::shared_ptr<const Entry>> entries;
};

// One function for each file in lib/Import/Ops.
void addActivations(Registry &);
void addArithmetic(Registry &);
void addAttention(Registry &);
void addCasts(Registry &);
void addComparisons(Registry &);
void addConcatenation(Registry &);
void addCreation(Registry &);
void addHandWritten(Registry &);
void addIndexing(Registry &);
void addLosses(Registry &);
void addMath(Registry &);
void addMatmul(Registry &);
void addNormalisation(Registry &);
void addPadding(Registry &);
void addRandom(Registry &);
void addReductions(Registry &);
void addReshapes(Registry &);
void addSoftmax(Registry &);
void addViews(Registry &);

} // namespace tilewright::importer
