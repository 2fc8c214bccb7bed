//===- Registry.cpp - one entry per operator ------------------------------===//
#include "Registry.h"

#include "tilewright/Import/Importer.h"

#include <algorithm>

namespace tilewright::importer {

const Registry &Registry::instance() {
  static const Registry registry = [] {
    Registry r;
    for (auto family : {addActivations, addArithmetic, addAttention, addCasts, addComparisons, addConcatenation,
                        addCreation, addHandWritten, addIndexing, addLosses, addMath, addMatmul, addNormalisation,
                        addPadding, addRandom, addReductions, addReshapes, addSoftmax, addViews})
      family(r);
    return r;
  }();
  return registry;
}

void Registry::add(std::initializer_list<std::string_view> names, std::string_view parameters,
                   Entry::Function function) {
  auto entry = std::make_shared<const Entry>(Entry{std::string(parameters), std::move(function)});
  for (std::string_view name : names)
    if (!entries.emplace(std::string(name), entry).second)
      throw std::logic_error("operator " + std::string(name) + " has two entries");
}

const Entry *Registry::find(const std::string &name) const {
  auto found = entries.find(name);
  return found == entries.end() ? nullptr : found->second.get();
}

std::vector<std::string> Registry::names() const {
  std::vector<std::string> result;
  for (const auto &[name, entry] : entries)
    result.push_back(name);
  std::sort(result.begin(), result.end());
  return result;
}

std::vector<std::string> nativeOperators() { return Registry::instance().names(); }

} // namespace tilewright::importer
