//===- TileOps.td - operations of the tile dialect ------------------*- tablegen -*-===//
#ifndef TILEWRIGHT_DIALECT_TILE_IR_TILEOPS
#define TILEWRIGHT_DIALECT_TILE_IR_TILEOPS

include "tilewright/Dialect/Tile/IR/TileDialect.td"
include "mlir/Dialect/LLVMIR/LLVMOpBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

def Tile_KernelOp : Tile_Op<"kernel", [IsolatedFromAbove, Symbol, SingleBlock, NoTerminator]> {
  let summary = "One kernel: buffers first, then index arguments";
  let description = [{
    ```mlir
    tile.kernel @add(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) { ... tile.grid ... }
    ```
    Holds exactly one `tile.grid`, as its last operation. What stands before the grid is uniform: it is computed once per call of
    the kernel function. Buffers and integers reach the function in the order of the arguments (Runtime/KernelContext.h).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::TypeRange":$bufferTypes, "unsigned":$ints)>];
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// Arguments of buffer type; they come first.
    unsigned getNumBuffers();
    unsigned getNumInts() { return getBlock().getNumArguments() - getNumBuffers(); }
    ::mlir::BlockArgument getBuffer(unsigned i) { return getBlock().getArgument(i); }
    ::mlir::BlockArgument getInt(unsigned i) { return getBlock().getArgument(getNumBuffers() + i); }
    GridOp getGrid();
  }];
}

def Tile_GridOp : Tile_Op<"grid", [SingleBlock, NoTerminator, HasParent<"KernelOp">, RecursiveMemoryEffects,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "The parallel grid, row-major";
  let description = [{
    `tile.grid (%i, %j) in (%m, %n) { ... }` runs its body once for every point; points are independent of each other. The last
    dimension varies fastest. A dimension whose size is the constant 1 costs nothing. No dimension: one point.
  }];
  let arguments = (ins Variadic<Index>:$sizes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::ValueRange":$sizes)>];
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    ::mlir::Block::BlockArgListType getIndices() { return getBody().getArguments(); }
  }];
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

// Shared by loads and stores: mixed strides and optional valid extents, one per dimension of the tile.
class Tile_AccessOp<string opMnemonic, list<Trait> traits = []>
    : Tile_Op<opMnemonic, !listconcat([AttrSizedOperandSegments], traits)> {
  let hasVerifier = 1;
  code accessDeclarations = [{
    /// Stride of a dimension: an IntegerAttr or an index Value.
    ::llvm::SmallVector<::mlir::OpFoldResult> getMixedStrides();
    bool hasValid() { return !getValid().empty(); }
  }];
}

def Tile_LoadOp : Tile_AccessOp<"load"> {
  let summary = "Loads a tile";
  let description = [{
    ```mlir
    %t = tile.load %x[%o] strides [%ld, 1] valid [%m, %n] fill 0.0 : f32 : !tile.buffer<f32> -> tensor<4x16xf32>
    %s = tile.load %x[%o] : !tile.buffer<f32> -> f32
    ```
    Element (i0, i1, ..) is at `offset + sum(stride_d * i_d)` in elements. A static stride 1 is contiguous, 0 a broadcast. Where i_d is
    not below valid_d the element is `fill` (0 if not given) and nothing is read; a valid extent at or below 0 makes everything invalid. Without
    `valid` the whole tile is read. A scalar result is a plain load.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$buffer, Index:$offset, Variadic<Index>:$strides,
                       DenseI64ArrayAttr:$static_strides, Variadic<Index>:$valid, OptionalAttr<TypedAttrInterface>:$fill);
  let results = (outs Tile_TileOrScalar:$result);
  let assemblyFormat = [{
    $buffer `[` $offset `]` custom<Access>($strides, $static_strides, $valid) (`fill` $fill^)? attr-dict `:` qualified(type($buffer)) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$buffer, "::mlir::Value":$offset,
                                 "::llvm::ArrayRef<::mlir::OpFoldResult>":$strides,
                                 CArg<"::mlir::ValueRange", "{}">:$valid, CArg<"::mlir::TypedAttr", "{}">:$fill)>];
  let extraClassDeclaration = accessDeclarations;
}

def Tile_StoreOp : Tile_AccessOp<"store"> {
  let summary = "Stores a tile or a scalar";
  let description = [{
    `tile.store %t, %y[%o] strides [1] valid [%n] : tensor<16xf32>, !tile.buffer<f32>`: addresses as in tile.load. Nothing beyond the valid
    extent is touched. Where several elements have one address (stride 0), the last one stays. `{streaming}` writes past the caches: a whole
    contiguous tile at an address that is a multiple of 64 bytes (see tile.misalignment). The kernel ends with a fence.
  }];
  let arguments = (ins Tile_TileOrScalar:$value, Arg<Tile_BufferType, "", [MemWrite]>:$buffer, Index:$offset,
                       Variadic<Index>:$strides, DenseI64ArrayAttr:$static_strides, Variadic<Index>:$valid,
                       UnitAttr:$streaming);
  let assemblyFormat = [{
    $value `,` $buffer `[` $offset `]` custom<Access>($strides, $static_strides, $valid) attr-dict `:` type($value) `,` qualified(type($buffer))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$buffer, "::mlir::Value":$offset,
                                 "::llvm::ArrayRef<::mlir::OpFoldResult>":$strides,
                                 CArg<"::mlir::ValueRange", "{}">:$valid, CArg<"bool", "false">:$streaming)>];
  let extraClassDeclaration = accessDeclarations;
}

def Tile_MisalignmentOp : Tile_Op<"misalignment", [Pure]> {
  let summary = "How far an element is beyond a multiple of 64 bytes";
  let description = [{
    `%m = tile.misalignment %y[%o] : !tile.buffer<f32>`: the address of element `offset` modulo 64, in bytes.
  }];
  let arguments = (ins Tile_BufferType:$buffer, Index:$offset);
  let results = (outs Index:$bytes);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` qualified(type($buffer))";
}

// Index tiles hold integers of 32 or 64 bits or `index`.
def Tile_IndexTile : ConfinedType<StaticShapeTensorOf<[I32, I64, Index]>, [HasRankGreaterOrEqualPred<1>],
                                  "a tile of i32, i64 or index", "::mlir::RankedTensorType">;

def Tile_GatherOp : Tile_AccessOp<"gather"> {
  let summary = "Loads the elements whose indices a tile holds";
  let description = [{
    `tile.gather %b[%o] indices %idx stride 1 valid [%n] : tensor<16xi64>, !tile.buffer<f32> -> tensor<16xf32>`: element i is at
    `offset + idx[i] * stride`. Invalid elements are `fill` and their indices are not looked at. Indices must have been checked.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$buffer, Index:$offset, Tile_IndexTile:$indices,
                       Optional<Index>:$stride, OptionalAttr<I64Attr>:$static_stride, Variadic<Index>:$valid,
                       OptionalAttr<TypedAttrInterface>:$fill);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = [{
    $buffer `[` $offset `]` `indices` $indices `stride` custom<Stride>($stride, $static_stride) custom<Valid>($valid)
    (`fill` $fill^)? attr-dict `:` type($indices) `,` qualified(type($buffer)) `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$buffer, "::mlir::Value":$offset,
                                 "::mlir::Value":$indices, "::mlir::OpFoldResult":$stride,
                                 CArg<"::mlir::ValueRange", "{}">:$valid, CArg<"::mlir::TypedAttr", "{}">:$fill)>];
  let extraClassDeclaration = [{
    ::mlir::OpFoldResult getMixedStride();
    bool hasValid() { return !getValid().empty(); }
  }];
}

def Tile_ScatterOp : Tile_AccessOp<"scatter"> {
  let summary = "Stores elements at the indices that a tile holds, in ascending order of elements";
  let description = [{
    `tile.scatter %t, %b[%o] indices %idx stride 1 valid [%n] : tensor<16xf32>, tensor<16xi64>, !tile.buffer<f32>`. Where two elements have
    one address, the later one stays. `{atomic}`: elements are added to what is there, as tile.atomic_add does.
  }];
  let arguments = (ins Tile_TileType:$value, Arg<Tile_BufferType, "", [MemRead, MemWrite]>:$buffer, Index:$offset,
                       Tile_IndexTile:$indices, Optional<Index>:$stride, OptionalAttr<I64Attr>:$static_stride,
                       Variadic<Index>:$valid, UnitAttr:$atomic);
  let assemblyFormat = [{
    $value `,` $buffer `[` $offset `]` `indices` $indices `stride` custom<Stride>($stride, $static_stride) custom<Valid>($valid)
    attr-dict `:` type($value) `,` type($indices) `,` qualified(type($buffer))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$buffer, "::mlir::Value":$offset,
                                 "::mlir::Value":$indices, "::mlir::OpFoldResult":$stride,
                                 CArg<"::mlir::ValueRange", "{}">:$valid, CArg<"bool", "false">:$atomic)>];
  let extraClassDeclaration = [{
    ::mlir::OpFoldResult getMixedStride();
    bool hasValid() { return !getValid().empty(); }
  }];
}

def Tile_AtomicAddOp : Tile_Op<"atomic_add"> {
  let summary = "Adds a number to an element, whoever else does so at the same time";
  let description = [{
    `tile.atomic_add %x, %y[%o] : f32, !tile.buffer<f32>`: for numbers of 32 and 64 bits. The order of additions, and with it the rounding of
    floating-point sums, is not determined.
  }];
  let arguments = (ins AnyTypeOf<[F32, F64, I32, I64]>:$value, Arg<Tile_BufferType, "", [MemRead, MemWrite]>:$buffer,
                       Index:$offset);
  let assemblyFormat = "$value `,` $buffer `[` $offset `]` attr-dict `:` type($value) `,` qualified(type($buffer))";
}

def Tile_ScratchOp : Tile_Op<"scratch", [Pure]> {
  let summary = "Memory of the running thread";
  let description = [{
    `%s = tile.scratch [%bytes] : !tile.buffer<f32>`: the thread's scratch memory from a byte offset on (`KernelStep::scratchBytes` in all,
    64-byte aligned at offset 0). Its contents do not survive from one grid point to another.
  }];
  let arguments = (ins Index:$byte_offset);
  let results = (outs Tile_BufferType:$result);
  let assemblyFormat = "`[` $byte_offset `]` attr-dict `:` qualified(type($result))";
}

def Tile_AddressOp : Tile_Op<"address", [Pure]> {
  let summary = "The address of a buffer's first element";
  let description = [{
    `%p = tile.address %b : !tile.buffer<f32> -> !llvm.ptr`. It appears while a kernel is lowered: what has become plain memory access
    addresses buffers through it until the kernel becomes a function.
  }];
  let arguments = (ins Tile_BufferType:$buffer);
  let results = (outs LLVM_AnyPointer:$result);
  let assemblyFormat = "$buffer attr-dict `:` qualified(type($buffer)) `->` qualified(type($result))";
  let builders = [OpBuilder<(ins "::mlir::Value":$buffer)>];
}

def Tile_CheckIndexOp : Tile_Op<"check_index", [AllTypesMatch<["index", "result"]>, MemoryEffects<[MemWrite]>]> {
  let summary = "An index that is certainly within bounds";
  let description = [{
    `%j = tile.check_index %i below %bound site 3 valid [%n] : tensor<16xi64>`: `i` where `0 <= i < bound`; else error `site` is recorded
    with i and bound in the kernel's context (`errorCode` is 1 + site) and the kernel ends there: nothing is read with a wrong index, which
    matters most where the bound is 0 and no index is right. Invalid elements of a tile are not checked and give 0.
  }];
  let arguments = (ins AnyTypeOf<[I32, I64, Index, Tile_IndexTile]>:$index, Index:$bound, Variadic<Index>:$valid,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$site);
  let results = (outs AnyTypeOf<[I32, I64, Index, Tile_IndexTile]>:$result);
  let assemblyFormat = "$index `below` $bound `site` $site custom<Valid>($valid) attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_RecordErrorOp : Tile_Op<"record_error", [MemoryEffects<[MemWrite]>]> {
  let summary = "Records an index that is out of bounds";
  let description = [{
    `tile.record_error %i, %bound site 3`: what tile.check_index becomes on the way to an error. Writes the kernel's context and ends the kernel.
  }];
  let arguments = (ins Index:$index, Index:$bound, I64Attr:$site);
  let assemblyFormat = "$index `,` $bound `site` $site attr-dict";
}

def Tile_LeaveOp : Tile_Op<"leave", [MemoryEffects<[MemWrite]>]> {
  let summary = "Ends the kernel after an error";
  let description = [{
    `tile.leave`: what follows in its block does not run, and the kernel's function returns 1. It stands for a return where structured control
    flow has none, and becomes one when that is gone.
  }];
  let assemblyFormat = "attr-dict";
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

def Tile_ReduceOp : Tile_Op<"reduce", [Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "All elements of a tile combined to one scalar";
  let description = [{
    `%m = tile.reduce <max> %t valid [%n] : tensor<16xf32>`. Elements beyond the valid extent take no part; the result is the kind's identity
    where none is valid (add 0, mul 1, max -inf or the smallest integer, and all ones, ...). Float sums are a balanced tree.
  }];
  let arguments = (ins Tile_ReduceKindAttr:$kind, Tile_TileType:$source, Variadic<Index>:$valid);
  let results = (outs Tile_Element:$result);
  let assemblyFormat = "$kind $source custom<Valid>($valid) attr-dict `:` type($source)";
  let hasVerifier = 1;
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "A tile whose elements are one scalar";
  let arguments = (ins Tile_Element:$source);
  let results = (outs Tile_TileType:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_IotaOp : Tile_Op<"iota", [Pure]> {
  let summary = "0, 1, 2, ... along the last dimension";
  let results = (outs Tile_IndexTile:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tile_MathOp : Tile_Op<"math", [Pure, SameOperandsAndResultType, Elementwise, Scalarizable, Vectorizable, Tensorizable]> {
  let summary = "An elementary function that the math dialect lacks, element by element";
  let description = "`%y = tile.math <erfc> %x : tensor<16xf32>`: erfc, lgamma (log |gamma(x)|), tgamma.";
  let arguments = (ins Tile_FunctionAttr:$function, FloatLike:$operand);
  let results = (outs FloatLike:$result);
  let assemblyFormat = "$function $operand attr-dict `:` type($result)";
}

include "tilewright/Dialect/Tile/IR/TileContractOps.td"

#endif
