//===- ExternalCall.cpp - functions that other rooms provide by name ------===//
#include "tilewright/Runtime/ExternalCall.h"

#include <map>
#include <mutex>
#include <stdexcept>

namespace tilewright {

namespace {
struct Registry {
  std::mutex mutex;
  std::map<std::string, ExternalFunction, std::less<>> functions;
};
/// Filled by constructors of other libraries, in any order.
Registry &registry() {
  static auto *instance = new Registry;
  return *instance;
}
} // namespace

void registerExternalFunction(std::string name, ExternalFunction function) {
  if (name.empty() || !function)
    throw std::logic_error("an external function needs a name and an address");
  std::lock_guard lock(registry().mutex);
  auto [it, added] = registry().functions.try_emplace(std::move(name), function);
  if (!added && it->second != function)
    throw std::logic_error("two different external functions are called " + it->first);
}

ExternalFunction findExternalFunction(std::string_view name) {
  std::lock_guard lock(registry().mutex);
  auto it = registry().functions.find(name);
  return it == registry().functions.end() ? nullptr : it->second;
}

} // namespace tilewright
