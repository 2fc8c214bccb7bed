//===- Kernel.h - tile kernels from C++ -----------------------------*- C++ -*-===//
//
// The tile programs of the Python language (docs/language.md), built, compiled and run from C++ without Python or
// torch:
//
//   using namespace tilewright::kernel;
//   Builder k("scale_add");
//   Size m = k.symbol("M"), n = k.symbol("N");
//   Param x = k.in("X", DType::F32, {m, n}), y = k.out("Y", DType::F32, {m, n});
//   Number a = k.scalar("a");
//   k.parallel({m, n}, [&](std::span<const Axis> ij) {
//     k.store(y, {ij[0], ij[1]}, k.load(x, {ij[0], ij[1]}) * a);
//   });
//   Compiled f = k.compile();
//   f({{input, {rows, columns}}, {output, {rows, columns}}, 2.0});
//
// A tile is exactly as large as it is valid; the compiler chooses tile sizes where none are given. The text that is
// built is the kernel program of docs/kernel-programs.md; the compiler checks it and its errors name the statement by
// number.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/DType.h"
#include "tilewright/Support/SizeExpr.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tilewright {
class Stream;
class Executable;
} // namespace tilewright

namespace tilewright::kernel {

class Builder;
class Tile;
using Size = SizeExpr;

Tile binary(std::string_view op, const Tile &x, const Tile &y);
Tile binary(std::string_view op, const Tile &x, double y); // y takes x's dtype
Tile binary(std::string_view op, double x, const Tile &y);

/// A value: a tile of static rank and symbolic shape, or a number (rank 0). Operators work element by element between
/// equal shapes; a number meets a tile of any shape, and a tile of size 1 in a dimension is repeated along it.
/// std::invalid_argument says which shapes or dtypes do not agree.
class Tile {
public:
  DType dtype() const { return type; }
  const std::vector<Size> &shape() const { return sizes; }

private:
  friend class Builder;
  friend Tile binary(std::string_view op, const Tile &x, const Tile &y);
  friend Tile binary(std::string_view op, const Tile &x, double y);
  friend Tile binary(std::string_view op, double x, const Tile &y);
  Builder *builder = nullptr;
  uint32_t id = 0;
  DType type = DType::F32;
  std::vector<Size> sizes;
};
using Number = Tile;

/// A range of indices that is walked in tiles, or (tile 1 asked for) one index.
class Axis {
public:
  Size start() const { return begin; }
  /// How many indices this step has; 1 for single indices.
  Size size() const { return extent ? *extent : Size(1); }

private:
  friend class Builder;
  Size begin;
  std::optional<Size> extent;
};

struct Range {
  Size begin, end;
  int64_t tile = 0; // 0: the compiler chooses; 1: single indices, which add no dimension
  Range(Size end, int64_t tile = 0) : end(std::move(end)), tile(tile) {}
  Range(Size begin, Size end, int64_t tile) : begin(std::move(begin)), end(std::move(end)), tile(tile) {}
};

struct All {};
inline constexpr All all;
/// Where a dimension is read: an axis (its indices), all of it, or one index.
using Where = std::variant<Axis, All, Size>;

class Param {
  friend class Builder;
  uint32_t index = 0;
  DType dtype = DType::F32;
  std::vector<Size> sizes;
};

/// A tensor by address, sizes and (if not dense in C order) strides, in elements; or a number. `Compiled` checks dtype
/// by the parameter's declaration: the memory must hold it.
struct Value {
  Value(const void *data, std::vector<int64_t> sizes, std::vector<int64_t> strides = {})
      : data(const_cast<void *>(data)), sizes(std::move(sizes)), strides(std::move(strides)) {}
  Value(double number) : number(number) {}
  Value(int64_t number) : number(double(number)), integer(number) {}
  void *data = nullptr;
  std::vector<int64_t> sizes, strides;
  double number = 0;
  int64_t integer = 0;
};

/// A compiled kernel. Calls are thread-safe.
class Compiled {
public:
  /// Arguments in the order of declaration. Runs on `stream` (returns at once), or here and on the thread pool. Throws
  /// std::invalid_argument for sizes that do not fit, DataError (Runtime/Errors.h) for errors of data.
  void operator()(std::span<const Value> arguments, Stream *stream = nullptr) const;
  void operator()(std::initializer_list<Value> arguments, Stream *stream = nullptr) const {
    (*this)(std::span<const Value>(arguments.begin(), arguments.size()), stream);
  }

private:
  friend class Builder;
  std::shared_ptr<Executable> executable;
};

class Builder {
public:
  explicit Builder(std::string name);
  ~Builder();
  Builder(const Builder &) = delete;

  /// A size that a call binds.
  Size symbol(std::string name);
  Param in(std::string name, DType dtype, std::vector<Size> sizes) {
    return param("in", name, dtype, std::move(sizes));
  }
  Param out(std::string name, DType dtype, std::vector<Size> sizes) {
    return param("out", name, dtype, std::move(sizes));
  }
  Param inout(std::string name, DType dtype, std::vector<Size> sizes) {
    return param("inout", name, dtype, std::move(sizes));
  }
  /// A run-time number.
  Number scalar(std::string name, DType dtype = DType::F32);

  /// The grid: once, last. Points are independent of each other.
  void parallel(std::vector<Range> ranges, const std::function<void(std::span<const Axis>)> &body);
  /// A loop in order; gives what the last turn returned (or `init`). Each value keeps its dtype and shape.
  std::vector<Tile> loop(Range range, std::vector<Tile> init,
                         const std::function<std::vector<Tile>(Axis, std::span<const Tile>)> &body);

  Tile load(const Param &from, const std::vector<Where> &where);
  void store(const Param &to, const std::vector<Where> &where, const Tile &value);

  Tile constant(double value, DType dtype);
  Tile full(std::vector<Size> shape, double value, DType dtype);
  Tile size(const Size &value); // as an i64 number
  /// Indices of an axis, i64.
  Tile indices(const Axis &axis);
  Tile cast(const Tile &x, DType dtype);
  /// Any elementwise operation of docs/kernel-programs.md by name: "exp", "max", "fma", "eq", ...
  Tile apply(std::string_view op, std::vector<Tile> operands);
  Tile select(const Tile &condition, const Tile &x, const Tile &y) { return apply("select", {condition, x, y}); }
  /// sum, prod, max, min, argmax, argmin, any, all over `axes`, which are dropped or kept with size 1.
  Tile reduce(std::string_view kind, const Tile &x, std::vector<uint32_t> axes, bool keep = false);
  Tile matmul(const Tile &a, const Tile &b);
  Tile transpose(const Tile &x); // the last two dimensions

  /// The program as JSON (docs/kernel-programs.md).
  std::string text() const;
  /// From the cache, or compiled now. Throws CompileError (Runtime/CompilerLoader.h).
  Compiled compile() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;

  Param param(const char *kind, std::string name, DType dtype, std::vector<Size> sizes);
  Tile value(std::string_view op, std::string fields, DType dtype, std::vector<Size> shape);
  Tile broadcast(const Tile &x, const std::vector<Size> &shape);
  std::string places(const Param &param, const std::vector<Where> &where, std::vector<Size> *shape);
  Axis open(const Range &range, std::string &text);
};

#define TILEWRIGHT_TILE_OPERATOR(symbol, name)                                                                         \
  inline Tile operator symbol(const Tile &x, const Tile &y) { return binary(name, x, y); }                             \
  inline Tile operator symbol(const Tile &x, double y) { return binary(name, x, y); }                                  \
  inline Tile operator symbol(double x, const Tile &y) { return binary(name, x, y); }
TILEWRIGHT_TILE_OPERATOR(+, "add")
TILEWRIGHT_TILE_OPERATOR(-, "sub")
TILEWRIGHT_TILE_OPERATOR(*, "mul")
TILEWRIGHT_TILE_OPERATOR(/, "div")
TILEWRIGHT_TILE_OPERATOR(<, "lt")
TILEWRIGHT_TILE_OPERATOR(<=, "le")
#undef TILEWRIGHT_TILE_OPERATOR

} // namespace tilewright::kernel
