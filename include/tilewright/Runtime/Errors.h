//===- Errors.h - errors that only the data shows ----------------*- C++ -*-===//
#pragma once

#include "tilewright/Support/DataErrorKind.h"

#include <cstdint>
#include <stdexcept>
#include <string>

namespace tilewright {

/// An index (or another value) that a kernel found out of range. The kernel has touched nothing out of bounds.
class DataError : public std::runtime_error {
public:
  DataError(std::string op, std::string source, int64_t index, int64_t bound, const std::string &message,
            DataErrorKind kind = DataErrorKind::Index)
      : std::runtime_error(op + ": " + message + (source.empty() ? "" : " (" + source + ")")), op(std::move(op)),
        source(std::move(source)), index(index), bound(bound), kind(kind) {}

  const std::string op;     // "aten.index_select.default"
  const std::string source; // the model's line, if known
  const int64_t index;      // the value
  const int64_t bound;      // the extent it should be below
  const DataErrorKind kind; // what the Torch room makes of it
};

} // namespace tilewright
