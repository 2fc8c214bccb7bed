//===- Matrices.cpp - tile.pack and tile.contract as sums over k -----------===//

#include "Tiles.h"

#include "tilewright/Dialect/Tile/IR/ElementTypes.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace tilewright::interpret {

namespace {

host::MatrixShape shapeOf(Frame &frame, Value operand) {
  std::optional<DType> type = tile::dtypeOf(cast<tile::BufferType>(operand.getType()).getElementType());
  std::optional<host::MatrixShape> shape;
  if (type)
    shape = host::MatrixShape::get(*type, frame.machine.options.target);
  if (!shape)
    throw Unknown("there are no matrix products of this type");
  return *shape;
}

/// The element of a panel in which element (k, column) of the matrix lies.
int64_t panelElement(const host::MatrixShape &shape, int64_t k, int64_t column) {
  return (k / shape.depth * shape.width + column) * shape.depth + k % shape.depth;
}

int64_t padded(const host::MatrixShape &shape, int64_t k) {
  return (k + shape.depth - 1) / shape.depth * int64_t(shape.depth);
}

uint64_t converted(Element from, Element to, uint64_t bits) {
  return from.kind == to.kind ? bits : bitsOf(to, singleOf(from, bits));
}

void pack(Frame &frame, Operation *op) {
  auto pack = cast<tile::PackOp>(op);
  const host::MatrixShape shape = shapeOf(frame, pack.getSource());
  const Element from = elementOfBuffer(pack.getSource()), to = elementOfBuffer(pack.getPanel());
  const int64_t k = frame.integer(pack.getK()), n = frame.integer(pack.getN());
  if (n <= 0)
    return;
  if (n > int64_t(shape.width))
    throw Fault("packs " + std::to_string(n) + " columns into a panel of " + std::to_string(shape.width));
  const int64_t sk = numberOf(frame, pack.getMixedStrides()[0]), sn = numberOf(frame, pack.getMixedStrides()[1]);
  const uint64_t source = frame.scalar(pack.getSource()) + frame.integer(pack.getOffset()) * from.bytes();
  const uint64_t panel = frame.scalar(pack.getPanel()) + frame.integer(pack.getPanelOffset()) * to.bytes();
  for (int64_t i = 0; i < padded(shape, k); ++i)
    for (int64_t j = 0; j < int64_t(shape.width); ++j) {
      uint64_t value = 0;
      if (i < k && j < n)
        value = converted(from, to, loadElement(frame, from, source + (i * sk + j * sn) * from.bytes()));
      frame.memory.store(panel + panelElement(shape, i, j) * to.bytes(), to.bytes(), value);
    }
}

/// An accumulator's elements as the host has them: float, double, or integers that wrap.
template <typename T> T hosted(Element from, uint64_t bits) {
  if constexpr (std::is_same_v<T, float>)
    return singleOf(from, bits);
  else if constexpr (std::is_same_v<T, double>)
    return doubleOf(from, bits);
  else
    return static_cast<T>(signedOf(bits, from.bits));
}

template <typename T> uint64_t bitsOfSum(Element accumulator, T sum) {
  if constexpr (std::is_floating_point_v<T>)
    return bitsOf(accumulator, sum);
  else
    return cut(sum, accumulator.bits);
}

/// Sums of products, k ascending, each product and each sum rounded to the accumulator's type. With Freedom::sums in
/// any order, products fused into the sum or not.
template <typename T> T sumOfProducts(const T *a, const T *b, ArrayRef<size_t> order, bool fused) {
  T total = 0;
  for (size_t k : order) {
    if constexpr (std::is_floating_point_v<T>)
      total = fused ? std::fma(a[k], b[k], total) : total + a[k] * b[k];
    else
      total += a[k] * b[k];
  }
  return total;
}

template <typename T> void contractIn(Frame &frame, tile::ContractOp contract) {
  const host::MatrixShape shape = shapeOf(frame, contract.getLhs());
  const Element left = elementOfBuffer(contract.getLhs()), right = elementOfBuffer(contract.getPanels());
  const int64_t m = frame.integer(contract.getM()), n = frame.integer(contract.getN()),
                k = frame.integer(contract.getK());
  const int64_t sm = numberOf(frame, contract.getMixedStrides()[0]),
                sk = numberOf(frame, contract.getMixedStrides()[1]);
  const uint64_t lhs = frame.scalar(contract.getLhs()) + frame.integer(contract.getLhsOffset()) * left.bytes();
  const uint64_t panels = frame.scalar(contract.getPanels()) + frame.integer(contract.getPanelOffset()) * right.bytes();
  auto accumulator = cast<ShapedType>(contract.getAccumulator().getType());
  const Element sum = elementOf(accumulator);
  const int64_t lanes = accumulator.getNumElements();
  if (shape.width % lanes)
    throw Unknown("accumulators of " + std::to_string(lanes) + " lanes do not fit panels of " +
                  std::to_string(shape.width) + " columns");
  if (m <= 0 || n <= 0)
    return;
  const int64_t columns = (n + lanes - 1) / lanes * lanes;
  std::vector<T> a(std::max<int64_t>(k, 0)), b(columns * a.size()); // a row, and the matrix column by column
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t p = 0; p < k; ++p) {
      int64_t at = j / shape.width * padded(shape, k) * shape.width + panelElement(shape, p, j % shape.width);
      b[j * k + p] = hosted<T>(right, loadElement(frame, right, panels + at * right.bytes()));
    }
  const bool free = frame.machine.options.freedom.sums;
  SmallVector<size_t> order(a.size());
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p)
      a[p] = hosted<T>(left, loadElement(frame, left, lhs + (i * sm + p * sk) * left.bytes()));
    if (free)
      for (size_t p = order.size(); p-- > 1;)
        std::swap(order[p], order[frame.machine.pick(0, static_cast<int64_t>(p))]);
    for (int64_t j = 0; j < n; j += lanes) {
      const bool fused = free && frame.machine.pick(0, 1);
      Lanes sums(lanes);
      for (int64_t lane = 0; lane < lanes; ++lane)
        sums[lane] = bitsOfSum(sum, sumOfProducts(a.data(), b.data() + (j + lane) * k, order, fused));
      frame.set(contract.getAccumulator(), std::move(sums));
      frame.set(contract.getRow(), static_cast<uint64_t>(i));
      frame.set(contract.getColumn(), static_cast<uint64_t>(j));
      frame.set(contract.getValidColumns(), static_cast<uint64_t>(std::min(lanes, n - j)));
      frame.runBlock(contract.getBlock());
    }
  }
}

void contract(Frame &frame, Operation *op) {
  auto contract = cast<tile::ContractOp>(op);
  switch (elementOf(contract.getAccumulator().getType()).kind) {
  case Element::F32:
    return contractIn<float>(frame, contract);
  case Element::F64:
    return contractIn<double>(frame, contract);
  case Element::Integer:
    return contractIn<uint64_t>(frame, contract);
  default:
    throw Unknown("there are no accumulators of this type");
  }
}

} // namespace

void addMatrices(Table &table) {
  table["tile.pack"] = pack;
  table["tile.contract"] = contract;
}

} // namespace tilewright::interpret
