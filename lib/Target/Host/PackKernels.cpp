//===- PackKernels.cpp - packing one panel, and copies of A ---------------------------------------------------===//
//
// A panel is written in one of three ways, chosen by the strides at run time:
//
//   rows       columns are contiguous ([K, N] weights): whole rows are copied; bf16 pairs are two rows interleaved
//   transpose  k is contiguous ([N, K] weights, x @ W.T): W x W blocks are transposed in registers; a bf16 pair is one
//   word elements   any strides, and tails of the other two
//
//===----------------------------------------------------------------------===//

#include "tilewright/Target/Host/ContractKernels.h"

#include "ContractEmit.h"
#include "ContractTypes.h"

using namespace mlir;

namespace tilewright::host {

namespace {

using Predicate = Emitter::Predicate;

/// Rows that are transposed lie far apart, so that the hardware's prefetchers see no stream: 256 bytes ahead gave +10
/// to +30%.
constexpr int64_t kPrefetchBytes = 256;

/// Transposes W vectors of W elements of `bytes` bytes: blocks within 128-bit lanes first, then the lanes.
SmallVector<Value> transpose(Emitter &e, SmallVector<Value> rows, unsigned bytes) {
  const int width = rows.size(), perLane = 16 / bytes, lanes = width / perLane;
  // Elements `pick` of every lane; element i >= perLane is element i - perLane of y.
  auto withinLanes = [&](Value x, Value y, ArrayRef<int> pick) {
    SmallVector<int32_t> mask;
    for (int lane = 0; lane < lanes; ++lane)
      for (int p : pick)
        mask.push_back(p < perLane ? lane * perLane + p : width + lane * perLane + p - perLane);
    return e.shuffle(x, y, mask);
  };
  auto wholeLanes = [&](Value x, Value y, ArrayRef<int> pick) {
    SmallVector<int32_t> mask;
    for (int p : pick)
      for (int i = 0; i < perLane; ++i)
        mask.push_back(p * perLane + i);
    return e.shuffle(x, y, mask);
  };
  // inLane[p][q]: lane l holds rows p * perLane .. of column l * perLane + q.
  SmallVector<SmallVector<Value>> inLane;
  for (int p = 0; p < lanes; ++p) {
    Value *r = &rows[p * perLane];
    if (perLane == 2) {
      inLane.push_back({withinLanes(r[0], r[1], {0, 2}), withinLanes(r[0], r[1], {1, 3})});
      continue;
    }
    Value low01 = withinLanes(r[0], r[1], {0, 4, 1, 5}), high01 = withinLanes(r[0], r[1], {2, 6, 3, 7});
    Value low23 = withinLanes(r[2], r[3], {0, 4, 1, 5}), high23 = withinLanes(r[2], r[3], {2, 6, 3, 7});
    inLane.push_back({withinLanes(low01, low23, {0, 1, 4, 5}), withinLanes(low01, low23, {2, 3, 6, 7}),
                      withinLanes(high01, high23, {0, 1, 4, 5}), withinLanes(high01, high23, {2, 3, 6, 7})});
  }
  SmallVector<Value> columns(width);
  for (int q = 0; q < perLane; ++q) {
    auto column = [&](int lane) -> Value & { return columns[lane * perLane + q]; };
    if (lanes == 1) {
      column(0) = inLane[0][q];
    } else if (lanes == 2) {
      column(0) = wholeLanes(inLane[0][q], inLane[1][q], {0, 2});
      column(1) = wholeLanes(inLane[0][q], inLane[1][q], {1, 3});
    } else {
      Value even01 = wholeLanes(inLane[0][q], inLane[1][q], {0, 2, 4, 6});
      Value odd01 = wholeLanes(inLane[0][q], inLane[1][q], {1, 3, 5, 7});
      Value even23 = wholeLanes(inLane[2][q], inLane[3][q], {0, 2, 4, 6});
      Value odd23 = wholeLanes(inLane[2][q], inLane[3][q], {1, 3, 5, 7});
      column(0) = wholeLanes(even01, even23, {0, 2, 4, 6});
      column(1) = wholeLanes(odd01, odd23, {0, 2, 4, 6});
      column(2) = wholeLanes(even01, even23, {1, 3, 5, 7});
      column(3) = wholeLanes(odd01, odd23, {1, 3, 5, 7});
    }
  }
  return columns;
}

/// The pieces of a pack function; the operands are those of ContractKernels::pack.
struct PackBody {
  Emitter &e;
  const MatrixTarget &target;
  const MatrixShape &shape;
  Value source, sk, sn, k, n, panel;
  const int64_t elementBytes = sizeOf(shape.operand), panelBytes = sizeOf(shape.panel);
  const int64_t rowBytes = int64_t(shape.width) * shape.depth * panelBytes; // of one step of k

  Value laneMask(Value valid, unsigned lanes) {
    SmallVector<int32_t> iota = llvm::to_vector(llvm::seq<int32_t>(0, int32_t(lanes)));
    auto type = VectorType::get(lanes, e.i32);
    Value index = e.op<LLVM::ConstantOp>(type, DenseElementsAttr::get(type, ArrayRef<int32_t>(iota)));
    return e.compare(Predicate::slt, index, e.splat(e.op<LLVM::TruncOp>(e.i32, valid), type));
  }

  /// Element (k, j) for k in [from, to), every column; an odd last row of pairs gets its zero partner.
  void elements(Value from, Value to) {
    Value end = shape.depth == 1 ? to : e.both(e.add(to, e.constant(1)), e.constant(-2));
    Value width = e.constant(shape.width), none = e.constant(0);
    Value zero = e.zero(loadAs(e, shape.operand, shape.panel, 1, source).getType());
    e.loop(from, end, 1, [&](Value row) {
      Value step = row, within = none;
      if (shape.depth == 2) {
        step = e.op<LLVM::LShrOp>(row, e.constant(1));
        within = e.mul(e.both(row, e.constant(1)), panelBytes);
      }
      Value out = e.at(e.at(panel, e.mul(step, rowBytes)), within), in = e.at(source, e.mul(row, sk));
      Value valid = e.select(e.compare(Predicate::slt, row, to), n, none);
      auto address = [&](Value j) { return e.at(out, e.mul(j, panelBytes * shape.depth)); };
      e.loop(none, valid, 1,
             [&](Value j) { e.store(loadAs(e, shape.operand, shape.panel, 1, e.at(in, e.mul(j, sn))), address(j)); });
      e.loop(valid, width, 1, [&](Value j) { e.store(zero, address(j)); });
    });
  }

  /// `width / lanes` vectors of one row of the source; masked: columns from n on are zero and not read.
  SmallVector<Value> loadRow(Value address, unsigned lanes, ArrayRef<Value> masks) {
    SmallVector<Value> vectors;
    for (unsigned v = 0; v < shape.width / lanes; ++v) {
      Value from = e.at(address, int64_t(v) * lanes * elementBytes);
      if (masks.empty()) {
        vectors.push_back(loadAs(e, shape.operand, shape.panel, lanes, from));
        continue;
      }
      bool half = shape.operand == DType::BF16;
      auto type = VectorType::get(lanes, half ? e.i16 : tile::elementType(e.b.getContext(), shape.operand));
      vectors.push_back(e.op<LLVM::MaskedLoadOp>(type, from, masks[v], ValueRange{e.zero(type)},
                                                 static_cast<unsigned>(elementBytes)));
    }
    return vectors;
  }

  void rows(bool masked) {
    const unsigned lanes = shape.depth == 2 ? shape.width : shape.lanes;
    SmallVector<Value> masks;
    for (unsigned v = 0; masked && v < shape.width / lanes; ++v)
      masks.push_back(laneMask(e.sub(n, e.constant(int64_t(v) * lanes)), lanes));
    Value whole = shape.depth == 1 ? k : e.both(k, e.constant(-2));
    e.loop(e.constant(0), whole, shape.depth, [&](Value row) {
      Value in = e.at(source, e.mul(row, sk));
      SmallVector<Value> out = loadRow(in, lanes, masks);
      Value step = row;
      if (shape.depth == 2) {
        step = e.op<LLVM::LShrOp>(row, e.constant(1));
        Value second = loadRow(e.at(in, sk), lanes, masks)[0];
        SmallVector<int32_t> low, high;
        for (int32_t j = 0; j < int32_t(shape.lanes); ++j) {
          low.append({j, j + int32_t(lanes)});
          high.append({j + int32_t(shape.lanes), j + int32_t(shape.lanes + lanes)});
        }
        out = {e.shuffle(out[0], second, low), e.shuffle(out[0], second, high)};
      }
      Value to = e.at(panel, e.mul(step, rowBytes));
      for (auto [v, vector] : llvm::enumerate(out))
        e.store(vector, e.at(to, int64_t(v) * target.vectorBytes));
    });
    if (shape.depth == 2)
      e.branch(e.compare(Predicate::slt, whole, k), [&] { elements(whole, k); });
  }

  void transposed() {
    const unsigned lanes = shape.lanes;
    const int64_t unitBytes = shape.depth * panelBytes; // what is transposed: an element or a pair
    const int64_t stepBytes = shape.depth * elementBytes;
    Value steps = shape.depth == 1 ? k : e.op<LLVM::LShrOp>(k, e.constant(1)).getResult();
    Value whole = e.both(steps, e.constant(-int64_t(lanes)));
    Value last = e.sub(n, e.constant(1));
    // Half a panel at a time; columns from n on read column n - 1 and are zeroed.
    e.loop(e.constant(0), e.constant(shape.width), lanes, [&](Value half) {
      SmallVector<Value> from;
      for (unsigned j = 0; j < lanes; ++j)
        from.push_back(e.at(source, e.mul(e.min(e.add(half, e.constant(j)), last), sn)));
      Value mask = laneMask(e.sub(n, half), lanes), out = e.at(panel, e.mul(half, unitBytes));
      e.loop(e.constant(0), whole, lanes, [&](Value step) {
        Value offset = e.mul(step, stepBytes);
        SmallVector<Value> vectors;
        for (Value row : from) {
          Value address = e.at(row, offset);
          e.op<LLVM::Prefetch>(e.at(address, kPrefetchBytes), 0u, 3u, 1u);
          if (shape.depth == 2)
            vectors.push_back(e.op<LLVM::LoadOp>(VectorType::get(lanes, e.i32), address, 2u));
          else
            vectors.push_back(loadAs(e, shape.operand, shape.panel, lanes, address));
        }
        Value to = e.at(out, e.mul(step, rowBytes));
        for (auto [i, column] : llvm::enumerate(transpose(e, vectors, unitBytes)))
          e.op<LLVM::StoreOp>(e.select(mask, column, e.zero(column.getType())), e.at(to, int64_t(i) * rowBytes),
                              static_cast<unsigned>(panelBytes));
      });
    });
    elements(shape.depth == 1 ? whole : e.mul(whole, shape.depth), k);
  }
};

} // namespace

LLVM::LLVMFuncOp ContractKernels::pack() {
  std::string symbol = name("pack");
  if (auto existing = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol))
    return existing;
  OpBuilder builder(module.getContext());
  Emitter e(builder, module.getLoc());
  auto function = createFunction(module, symbol, {e.ptr, e.i64, e.i64, e.i64, e.i64, e.ptr});
  Block *entry = &function.getBody().front();
  e.enter(entry);
  auto arg = [&](unsigned i) { return entry->getArgument(i); };
  PackBody body{e, target, shape, arg(0), arg(1), arg(2), arg(3), arg(4), arg(5)};
  Value element = e.constant(body.elementBytes), zero = e.constant(0);
  auto is = [&](Value x, Value y) { return e.compare(Predicate::eq, x, y); };
  // Masked loads are instructions on AVX-512 only; f16 has no vectors of its own type to load.
  const bool masks = target.vectorBytes == 64 && !shape.widens();
  Value wide = is(body.n, e.constant(shape.width)), rowsLie = is(body.sn, element);
  e.branch(
      rowsLie,
      [&] {
        e.branch(
            wide, [&] { body.rows(/*masked=*/false); },
            [&] { masks ? body.rows(/*masked=*/true) : body.elements(zero, body.k); });
      },
      [&] { e.branch(is(body.sk, element), [&] { body.transposed(); }, [&] { body.elements(zero, body.k); }); });
  e.op<LLVM::ReturnOp>(ValueRange{});
  return function;
}

LLVM::LLVMFuncOp ContractKernels::copyRows() {
  std::string symbol = name("copy_rows");
  if (auto existing = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol))
    return existing;
  OpBuilder builder(module.getContext());
  Emitter e(builder, module.getLoc());
  auto function = createFunction(module, symbol, {e.ptr, e.i64, e.i64, e.i64, e.i64, e.ptr, e.i64});
  Block *entry = &function.getBody().front();
  e.enter(entry);
  auto arg = [&](unsigned i) { return entry->getArgument(i); };
  Value sk = arg(2), k = arg(4), zero = e.constant(0);
  const int64_t elementBytes = sizeOf(shape.operand), panelBytes = sizeOf(shape.panel);
  const unsigned lanes = target.vectorBytes / panelBytes;
  Value contiguous = e.compare(Predicate::eq, sk, e.constant(elementBytes));
  Value whole = e.select(contiguous, e.both(k, e.constant(-int64_t(lanes))), zero);
  e.loop(zero, arg(3), 1, [&](Value i) {
    Value in = e.at(arg(0), e.mul(i, arg(1))), out = e.at(arg(5), e.mul(i, arg(6)));
    auto copy = [&](Value j, unsigned count) {
      Value value = loadAs(e, shape.operand, shape.panel, count, e.at(in, e.mul(j, sk)));
      e.store(value, e.at(out, e.mul(j, panelBytes)));
    };
    e.loop(zero, whole, lanes, [&](Value j) { copy(j, lanes); });
    e.loop(whole, k, 1, [&](Value j) { copy(j, 1); });
    if (shape.depth == 2)
      e.branch(e.compare(Predicate::ne, e.both(k, e.constant(1)), zero),
               [&] { e.store(e.zero(e.i16), e.at(out, e.mul(k, panelBytes))); });
  });
  e.op<LLVM::ReturnOp>(ValueRange{});
  return function;
}

} // namespace tilewright::host
