//===- Archive.h - little-endian reading and writing -------------*- C++ -*-===//
//
// A Writer and a Reader with the same calls, so that one function describes a structure's serialised form for both.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/SizeExpr.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright {

static_assert(std::endian::native == std::endian::little, "programs are stored as they lie in memory");

/// T & when reading, const T & when writing.
template <class Ar, class T> using FieldOf = std::conditional_t<Ar::reading, T &, const T &>;

class Writer {
public:
  static constexpr bool reading = false;

  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(const T &value) {
    const auto *p = reinterpret_cast<const uint8_t *>(&value);
    bytes.insert(bytes.end(), p, p + sizeof(T));
  }
  void operator()(const bool &value) { (*this)(static_cast<uint8_t>(value)); }
  void operator()(const std::string &text) {
    length(text.size());
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  /// Expressions repeat a lot: each distinct one is written once, into a table.
  void operator()(const SizeExpr &e) {
    auto [it, added] = expressionIds.try_emplace(e, expressionIds.size());
    if (added)
      expressions.push_back(e);
    (*this)(it->second);
  }
  template <class E> void enumeration(const E &value, unsigned /*count*/, const char * /*what*/) {
    (*this)(static_cast<uint8_t>(value));
  }
  template <class T, class Fn> void list(const std::vector<T> &values, Fn &&each) {
    length(values.size());
    for (const T &value : values)
      each(value);
  }
  template <class T> void list(const std::vector<T> &values) {
    list(values, [&](const T &value) { (*this)(value); });
  }
  void blob(const std::vector<uint8_t> &data) {
    length(data.size());
    bytes.insert(bytes.end(), data.begin(), data.end());
  }
  void length(size_t n) { (*this)(static_cast<uint64_t>(n)); }

  std::vector<uint8_t> bytes;
  std::vector<SizeExpr> expressions;

private:
  std::map<SizeExpr, uint32_t> expressionIds;
};

class Reader {
public:
  static constexpr bool reading = true;

  explicit Reader(std::span<const uint8_t> data) : data(data) {}

  [[noreturn]] static void fail(const std::string &what) { throw std::runtime_error("damaged program: " + what); }

  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(T &value) {
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
  }
  void operator()(bool &value) {
    uint8_t byte = *take(1);
    if (byte > 1)
      fail("a truth value is " + std::to_string(byte));
    value = byte;
  }
  void operator()(std::string &text) {
    size_t n = length(1);
    text.assign(reinterpret_cast<const char *>(take(n)), n);
  }
  void operator()(SizeExpr &e) {
    uint32_t id = 0;
    (*this)(id);
    if (id >= expressions.size())
      fail("size expression " + std::to_string(id) + " of " + std::to_string(expressions.size()));
    e = expressions[id];
  }
  template <class E> void enumeration(E &value, unsigned count, const char *what) {
    uint8_t byte = *take(1);
    if (byte >= count)
      fail(std::string(what) + " " + std::to_string(byte) + " is unknown");
    value = static_cast<E>(byte);
  }
  template <class T, class Fn> void list(std::vector<T> &values, Fn &&each) {
    // Each element takes at least a byte, so a damaged length cannot ask for more memory than a multiple of the file.
    values.resize(length(1));
    for (T &value : values)
      each(value);
  }
  template <class T> void list(std::vector<T> &values) {
    list(values, [&](T &value) { (*this)(value); });
  }
  void blob(std::vector<uint8_t> &out) {
    size_t n = length(1);
    const uint8_t *p = take(n);
    out.assign(p, p + n);
  }
  size_t length(size_t bytesEach) {
    uint64_t n = 0;
    (*this)(n);
    if (n > (data.size() - at) / bytesEach)
      fail("truncated (a length of " + std::to_string(n) + " at byte " + std::to_string(at) + ")");
    return n;
  }
  bool atEnd() const { return at == data.size(); }

  std::vector<SizeExpr> expressions;

private:
  const uint8_t *take(size_t n) {
    if (n > data.size() - at)
      fail("truncated at byte " + std::to_string(at));
    at += n;
    return data.data() + at - n;
  }

  std::span<const uint8_t> data;
  size_t at = 0;
};

} // namespace tilewright
