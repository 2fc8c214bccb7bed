//===- TileOps.cpp - building, parsing, printing and verifying tile operations -----------------------------------===//

#include "tilewright/Dialect/Tile/IR/TileDialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace tilewright::tile;

//===----------------------------------------------------------------------===//
// Mixed lists of static integers and index values
//===----------------------------------------------------------------------===//

using Operands = SmallVectorImpl<OpAsmParser::UnresolvedOperand>;

static SmallVector<OpFoldResult> mixed(MLIRContext *context, ArrayRef<int64_t> integers, ValueRange values) {
  SmallVector<OpFoldResult> result;
  for (int64_t integer : integers) {
    if (integer != ShapedType::kDynamic) {
      result.push_back(IntegerAttr::get(IndexType::get(context), integer));
    } else {
      result.push_back(values.front());
      values = values.drop_front();
    }
  }
  return result;
}

/// Values that are constants become static integers, so that a builder need not look.
static void split(ArrayRef<OpFoldResult> all, SmallVectorImpl<Value> &values, SmallVectorImpl<int64_t> &integers) {
  for (OpFoldResult one : all) {
    if (std::optional<int64_t> constant = getConstantIntValue(one)) {
      integers.push_back(*constant);
    } else {
      integers.push_back(ShapedType::kDynamic);
      values.push_back(cast<Value>(one));
    }
  }
}

static ParseResult parseValid(OpAsmParser &parser, Operands &valid) {
  if (failed(parser.parseOptionalKeyword("valid")))
    return success();
  return parser.parseOperandList(valid, AsmParser::Delimiter::Square);
}

static void printValid(OpAsmPrinter &printer, Operation *, OperandRange valid) {
  if (!valid.empty())
    printer << " valid [" << valid << "]";
}

static ParseResult parseAccess(OpAsmParser &parser, Operands &strides, DenseI64ArrayAttr &integers, Operands &valid) {
  if (succeeded(parser.parseOptionalKeyword("strides"))) {
    if (parseDynamicIndexList(parser, strides, integers))
      return failure();
  } else {
    integers = parser.getBuilder().getDenseI64ArrayAttr({});
  }
  return parseValid(parser, valid);
}

static void printAccess(OpAsmPrinter &printer, Operation *op, OperandRange strides, DenseI64ArrayAttr integers,
                        OperandRange valid) {
  if (!integers.empty()) {
    printer << "strides ";
    printDynamicIndexList(printer, op, strides, integers);
  }
  printValid(printer, op, valid);
}

static ParseResult parseStride(OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &stride,
                               IntegerAttr &integer) {
  OpAsmParser::UnresolvedOperand operand;
  OptionalParseResult value = parser.parseOptionalOperand(operand);
  if (value.has_value()) {
    stride = operand;
    return *value;
  }
  int64_t number;
  if (parser.parseInteger(number))
    return failure();
  integer = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}

static void printStride(OpAsmPrinter &printer, Operation *, Value stride, IntegerAttr integer) {
  if (stride)
    printer << stride;
  else
    printer << integer.getInt();
}

//===----------------------------------------------------------------------===//
// What several verifiers share
//===----------------------------------------------------------------------===//

/// The shape of a tile; a scalar has none.
static ArrayRef<int64_t> shapeOf(Type type) {
  if (auto tile = dyn_cast<RankedTensorType>(type))
    return tile.getShape();
  return {};
}

static Type elementOf(Type type) { return getElementTypeOrSelf(type); }

static LogicalResult verifyValid(Operation *op, Type tile, ValueRange valid) {
  const size_t rank = shapeOf(tile).size();
  if (!valid.empty() && valid.size() != rank)
    return op->emitOpError() << "has " << valid.size() << " valid extents for a tile of rank " << rank << " (" << tile
                             << "): give one for every dimension or none";
  return success();
}

static LogicalResult verifyElements(Operation *op, Type tile, Type buffer, StringRef what) {
  Type inMemory = cast<BufferType>(buffer).getElementType();
  if (elementOf(tile) != inMemory)
    return op->emitOpError() << what << " elements of type " << elementOf(tile) << " but the buffer holds " << inMemory
                             << ": convert the tile with an arith operation";
  return success();
}

static LogicalResult verifyFill(Operation *op, Type tile, std::optional<TypedAttr> fill, bool hasValid) {
  if (!fill)
    return success();
  if (fill->getType() != elementOf(tile))
    return op->emitOpError() << "fills with a value of type " << fill->getType() << ", the tile has elements of type "
                             << elementOf(tile);
  if (!hasValid)
    return op->emitOpError() << "has a fill value but no valid extent, so nothing is ever filled";
  return success();
}

static LogicalResult verifyAccess(Operation *op, Type tile, ArrayRef<int64_t> strides, ValueRange dynamic,
                                  ValueRange valid) {
  const size_t rank = shapeOf(tile).size();
  if (strides.size() != rank)
    return op->emitOpError() << "has " << strides.size() << " strides for a tile of rank " << rank << " (" << tile
                             << ")";
  size_t holes = llvm::count(strides, ShapedType::kDynamic);
  if (holes != dynamic.size())
    return op->emitOpError() << "has " << dynamic.size() << " stride operands for " << holes << " dynamic strides";
  return verifyValid(op, tile, valid);
}

//===----------------------------------------------------------------------===//
// kernel, grid
//===----------------------------------------------------------------------===//

void KernelOp::build(OpBuilder &builder, OperationState &state, StringRef name, TypeRange buffers, unsigned ints) {
  state.addAttribute(getSymNameAttrName(state.name), builder.getStringAttr(name));
  Block &block = state.addRegion()->emplaceBlock();
  for (Type type : buffers)
    block.addArgument(type, state.location);
  for (unsigned i = 0; i < ints; ++i)
    block.addArgument(builder.getIndexType(), state.location);
}

unsigned KernelOp::getNumBuffers() {
  return llvm::count_if(getBlock().getArgumentTypes(), [](Type type) { return isa<BufferType>(type); });
}

GridOp KernelOp::getGrid() { return cast<GridOp>(getBlock().back()); }

/// `{ }` without operations stands for a block without operations.
static ParseResult parseBody(OpAsmParser &parser, OperationState &result, ArrayRef<OpAsmParser::Argument> arguments) {
  Region &region = *result.addRegion();
  if (parser.parseRegion(region, arguments))
    return failure();
  if (region.empty())
    region.emplaceBlock();
  return success();
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseSymbolName(name, getSymNameAttrName(result.name), result.attributes) ||
      parser.parseArgumentList(arguments, AsmParser::Delimiter::Paren, /*allowType=*/true) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parseBody(parser, result, arguments);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << '(';
  llvm::interleaveComma(getBlock().getArguments(), printer,
                        [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ')';
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getSymNameAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
}

LogicalResult KernelOp::verify() {
  bool ints = false;
  for (BlockArgument argument : getBlock().getArguments()) {
    bool isBuffer = isa<BufferType>(argument.getType());
    if (!isBuffer && !argument.getType().isIndex())
      return emitOpError() << "argument " << argument.getArgNumber() << " has type " << argument.getType()
                           << ": arguments are buffers and, after these, integers of type index";
    if (isBuffer && ints)
      return emitOpError() << "argument " << argument.getArgNumber()
                           << " is a buffer after an integer: buffers come first";
    ints |= !isBuffer;
  }
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  size_t grids = llvm::range_size(getBlock().getOps<GridOp>());
  if (grids != 1 || !isa<GridOp>(getBlock().back())) // With one grid the block is not empty.
    return emitOpError() << "has " << grids << " grids: a kernel holds exactly one tile.grid, as its last operation";
  return success();
}

void GridOp::build(OpBuilder &builder, OperationState &state, ValueRange sizes) {
  state.addOperands(sizes);
  Block &block = state.addRegion()->emplaceBlock();
  for (size_t i = 0; i < sizes.size(); ++i)
    block.addArgument(builder.getIndexType(), state.location);
}

ParseResult GridOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> indices;
  SmallVector<OpAsmParser::UnresolvedOperand> sizes;
  Type index = parser.getBuilder().getIndexType();
  if (parser.parseArgumentList(indices, AsmParser::Delimiter::Paren) || parser.parseKeyword("in") ||
      parser.parseOperandList(sizes, AsmParser::Delimiter::Paren) ||
      parser.resolveOperands(sizes, index, result.operands) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  for (OpAsmParser::Argument &argument : indices)
    argument.type = index;
  return parseBody(parser, result, indices);
}

void GridOp::print(OpAsmPrinter &printer) {
  printer << " (";
  llvm::interleaveComma(getIndices(), printer, [&](BlockArgument argument) { printer << argument; });
  printer << ") in (" << getSizes() << ')';
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs());
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false, /*printBlockTerminators=*/false);
}

void GridOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  for (BlockArgument argument : region.getArguments())
    if (argument.getArgNumber() < 4)
      setName(argument, StringRef("ijkl").substr(argument.getArgNumber(), 1));
}

LogicalResult GridOp::verifyRegions() {
  if (getIndices().size() != getSizes().size())
    return emitOpError() << "has " << getIndices().size() << " indices for " << getSizes().size() << " sizes";
  if (!llvm::all_of(getBlock().getArgumentTypes(), [](Type type) { return type.isIndex(); }))
    return emitOpError() << "indices have type index";
  return success();
}

//===----------------------------------------------------------------------===//
// load, store, gather, scatter
//===----------------------------------------------------------------------===//

void LoadOp::build(OpBuilder &builder, OperationState &state, Type result, Value buffer, Value offset,
                   ArrayRef<OpFoldResult> strides, ValueRange valid, TypedAttr fill) {
  SmallVector<Value> values;
  SmallVector<int64_t> integers;
  split(strides, values, integers);
  build(builder, state, result, buffer, offset, values, builder.getDenseI64ArrayAttr(integers), valid, fill);
}

SmallVector<OpFoldResult> LoadOp::getMixedStrides() { return mixed(getContext(), getStaticStrides(), getStrides()); }

LogicalResult LoadOp::verify() {
  if (failed(verifyElements(*this, getType(), getBuffer().getType(), "gives")) ||
      failed(verifyAccess(*this, getType(), getStaticStrides(), getStrides(), getValid())))
    return failure();
  return verifyFill(*this, getType(), getFill(), hasValid());
}

void StoreOp::build(OpBuilder &builder, OperationState &state, Value value, Value buffer, Value offset,
                    ArrayRef<OpFoldResult> strides, ValueRange valid, bool streaming) {
  SmallVector<Value> values;
  SmallVector<int64_t> integers;
  split(strides, values, integers);
  build(builder, state, value, buffer, offset, values, builder.getDenseI64ArrayAttr(integers), valid, streaming);
}

SmallVector<OpFoldResult> StoreOp::getMixedStrides() { return mixed(getContext(), getStaticStrides(), getStrides()); }

LogicalResult StoreOp::verify() {
  if (failed(verifyElements(*this, getValue().getType(), getBuffer().getType(), "writes")))
    return failure();
  if (getStreaming() && (hasValid() || getStaticStrides().size() != 1 || getStaticStrides().front() != 1))
    return emitOpError("streams whole contiguous tiles of rank 1 only");
  return verifyAccess(*this, getValue().getType(), getStaticStrides(), getStrides(), getValid());
}

/// A gather or scatter: shapes of indices and values agree, one stride.
static LogicalResult verifyIndexed(Operation *op, Type tile, RankedTensorType indices, Value stride,
                                   std::optional<uint64_t> integer, ValueRange valid) {
  if (shapeOf(tile) != indices.getShape())
    return op->emitOpError() << "has indices of shape " << indices << " for a tile " << tile;
  if (static_cast<bool>(stride) == integer.has_value())
    return op->emitOpError() << "has one stride: a value or an integer";
  return verifyValid(op, tile, valid);
}

template <typename Op> static OpFoldResult mixedStride(Op op) {
  if (op.getStride())
    return op.getStride();
  return IntegerAttr::get(IndexType::get(op.getContext()), *op.getStaticStride());
}

static std::pair<Value, IntegerAttr> splitStride(OpBuilder &builder, OpFoldResult stride) {
  if (std::optional<int64_t> constant = getConstantIntValue(stride))
    return {Value(), builder.getI64IntegerAttr(*constant)};
  return {cast<Value>(stride), IntegerAttr()};
}

void GatherOp::build(OpBuilder &builder, OperationState &state, Type result, Value buffer, Value offset, Value indices,
                     OpFoldResult stride, ValueRange valid, TypedAttr fill) {
  auto [value, integer] = splitStride(builder, stride);
  build(builder, state, result, buffer, offset, indices, value, integer, valid, fill);
}

OpFoldResult GatherOp::getMixedStride() { return mixedStride(*this); }

LogicalResult GatherOp::verify() {
  if (failed(verifyElements(*this, getType(), getBuffer().getType(), "gives")) ||
      failed(verifyIndexed(*this, getType(), getIndices().getType(), getStride(), getStaticStride(), getValid())))
    return failure();
  return verifyFill(*this, getType(), getFill(), hasValid());
}

void ScatterOp::build(OpBuilder &builder, OperationState &state, Value value, Value buffer, Value offset, Value indices,
                      OpFoldResult stride, ValueRange valid, bool atomic) {
  auto [dynamic, integer] = splitStride(builder, stride);
  build(builder, state, value, buffer, offset, indices, dynamic, integer, valid, atomic);
}

OpFoldResult ScatterOp::getMixedStride() { return mixedStride(*this); }

LogicalResult ScatterOp::verify() {
  if (failed(verifyElements(*this, getValue().getType(), getBuffer().getType(), "writes")))
    return failure();
  return verifyIndexed(*this, getValue().getType(), getIndices().getType(), getStride(), getStaticStride(), getValid());
}

void AddressOp::build(OpBuilder &builder, OperationState &state, Value buffer) {
  build(builder, state, LLVM::LLVMPointerType::get(builder.getContext()), buffer);
}

LogicalResult CheckIndexOp::verify() { return verifyValid(*this, getType(), getValid()); }

//===----------------------------------------------------------------------===//
// reduce, splat
//===----------------------------------------------------------------------===//

LogicalResult ReduceOp::inferReturnTypes(MLIRContext *, std::optional<Location>, ValueRange operands, DictionaryAttr,
                                         OpaqueProperties, RegionRange, SmallVectorImpl<Type> &types) {
  types.push_back(elementOf(operands.front().getType()));
  return success();
}

LogicalResult ReduceOp::verify() {
  Type element = elementOf(getSource().getType());
  if (!supports(getKind(), element))
    return emitOpError() << "cannot combine elements of type " << element << " by " << stringifyReduceKind(getKind())
                         << (isa<FloatType>(element)
                                 ? " (floats: add mul max min maxnum minnum)"
                                 : " (integers: add mul max min umax umin and or xor; i1: umax umin and or xor)");
  return verifyValid(*this, getSource().getType(), getValid());
}

LogicalResult SplatOp::verify() {
  if (getSource().getType() != elementOf(getType()))
    return emitOpError() << "makes a tile " << getType() << " of a scalar " << getSource().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// pack, contract
//===----------------------------------------------------------------------===//

void PackOp::build(OpBuilder &builder, OperationState &state, Value source, Value offset,
                   ArrayRef<OpFoldResult> strides, Value k, Value n, Value panel, Value panelOffset) {
  SmallVector<Value> values;
  SmallVector<int64_t> integers;
  split(strides, values, integers);
  build(builder, state, source, offset, values, builder.getDenseI64ArrayAttr(integers), k, n, panel, panelOffset);
}

SmallVector<OpFoldResult> PackOp::getMixedStrides() { return mixed(getContext(), getStaticStrides(), getStrides()); }

static LogicalResult verifyMatrixStrides(Operation *op, ArrayRef<int64_t> strides, ValueRange dynamic) {
  if (strides.size() != 2)
    return op->emitOpError() << "has " << strides.size() << " strides for a matrix: give two";
  if (size_t holes = llvm::count(strides, ShapedType::kDynamic); holes != dynamic.size())
    return op->emitOpError() << "has " << dynamic.size() << " stride operands for " << holes << " dynamic strides";
  return success();
}

/// Panels have the type of the matrix, or hold its bf16 or f16 elements as f32 (where the target has no dot product of
/// them).
static bool arePanelsOf(Value panels, Value matrix) {
  Type packed = cast<BufferType>(panels.getType()).getElementType();
  Type element = cast<BufferType>(matrix.getType()).getElementType();
  return packed == element || (packed.isF32() && (element.isBF16() || element.isF16()));
}

LogicalResult PackOp::verify() {
  if (!arePanelsOf(getPanel(), getSource()))
    return emitOpError() << "packs " << getSource().getType() << " into " << getPanel().getType()
                         << ": the types must agree, or be bf16 or f16 and f32";
  return verifyMatrixStrides(*this, getStaticStrides(), getStrides());
}

void ContractOp::build(OpBuilder &builder, OperationState &state, Value lhs, Value lhsOffset,
                       ArrayRef<OpFoldResult> strides, Value panels, Value panelOffset, Value m, Value n, Value k,
                       RankedTensorType accumulator) {
  SmallVector<Value> values;
  SmallVector<int64_t> integers;
  split(strides, values, integers);
  state.addOperands({lhs, lhsOffset});
  state.addOperands(values);
  state.addOperands({panels, panelOffset, m, n, k});
  state.addAttribute(getStaticStridesAttrName(state.name), builder.getDenseI64ArrayAttr(integers));
  Block &block = state.addRegion()->emplaceBlock();
  Type index = builder.getIndexType();
  block.addArguments({accumulator, index, index, index}, SmallVector<Location>(4, state.location));
}

SmallVector<OpFoldResult> ContractOp::getMixedStrides() {
  return mixed(getContext(), getStaticStrides(), getStrides());
}

void ContractOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  for (auto [argument, name] : llvm::zip(region.getArguments(), ArrayRef<StringRef>{"acc", "i", "j", "valid"}))
    setName(argument, name);
}

LogicalResult ContractOp::verify() {
  if (!arePanelsOf(getPanels(), getLhs()))
    return emitOpError() << "multiplies " << getLhs().getType() << " with panels of " << getPanels().getType()
                         << ": the types must agree, or be bf16 or f16 and f32";
  return verifyMatrixStrides(*this, getStaticStrides(), getStrides());
}

LogicalResult ContractOp::verifyRegions() {
  Block &block = getBlock();
  bool good = block.getNumArguments() == 4;
  for (unsigned i = 1; good && i < 4; ++i)
    good = block.getArgument(i).getType().isIndex();
  auto accumulator = good ? dyn_cast<ShapedType>(block.getArgument(0).getType()) : ShapedType();
  if (!accumulator || accumulator.getRank() != 1 || !accumulator.hasStaticShape())
    return emitOpError()
           << "region takes (tensor<Wxf32>, index, index, index): accumulator, row, column, valid columns";
  if (isa<VectorType>(accumulator)) // Tiles have become vectors, loads and stores those of the target.
    return success();
  WalkResult result = getEpilogue().walk([&](Operation *op) -> WalkResult {
    if (isa<StoreOp>(op) || isMemoryEffectFree(op) || op->hasTrait<OpTrait::HasRecursiveMemoryEffects>())
      return WalkResult::advance();
    if (auto effects = dyn_cast<MemoryEffectOpInterface>(op);
        effects && !effects.hasEffect<MemoryEffects::Write>() && !effects.hasEffect<MemoryEffects::Free>())
      return WalkResult::advance();
    return op->emitOpError("stands in the epilogue of a tile.contract, which may load and compute and has no side "
                           "effects but tile.store");
  });
  return failure(result.wasInterrupted());
}

#define GET_OP_CLASSES
#include "tilewright/Dialect/Tile/IR/TileOps.cpp.inc"
