//===- TileDialect.td - the tile dialect: types and enumerations ----*- tablegen -*-===//
#ifndef TILEWRIGHT_DIALECT_TILE_IR_TILEDIALECT
#define TILEWRIGHT_DIALECT_TILE_IR_TILEDIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::tilewright::tile";
  let summary = "Static tiles with a valid extent on a parallel grid";
  let description = [{
    See docs/tile-dialect.md. A tile is a tensor of static shape; `arith` and `math` work on tiles as they are. Memory
    is a `!tile.buffer<T>`, addressed by offsets and strides in elements.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Tile_Type<string name, string typeMnemonic> : TypeDef<Tile_Dialect, name> { let mnemonic = typeMnemonic; }

def Tile_BufferType : Tile_Type<"Buffer", "buffer"> {
  let summary = "Memory of elements of one type";
  let description = [{
    A pointer to elements of type T, without an extent: loads and stores carry offsets, strides and valid extents. T is f32, f64,
    bf16, f16, i8, i16, i32, i64 (signedness is the operations' business) or i1. An i1 lies in memory as one byte: a load gives
    `byte != 0`, a store writes 0 or 1.
  }];
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$elementType), [{
    return $_get(elementType.getContext(), elementType);
  }]>];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Bytes of one element in memory.
    unsigned getElementBytes() const;
  }];
}

// Element types of tiles and scalars: floats, signless integers and index.
def Tile_Element : AnyTypeOf<[F32, F64, BF16, F16, I1, I8, I16, I32, I64, Index], "a tile element">;
def Tile_TileType : ConfinedType<StaticShapeTensorOf<[Tile_Element]>, [HasRankGreaterOrEqualPred<1>],
                                 "a tile (a tensor of static shape, rank 1 or more)", "::mlir::RankedTensorType">;
def Tile_TileOrScalar : AnyTypeOf<[Tile_TileType, Tile_Element], "a tile or a scalar">;

def Tile_ReduceKind : I32EnumAttr<"ReduceKind", "how elements are combined", [
  I32EnumAttrCase<"Add", 0, "add">,
  I32EnumAttrCase<"Mul", 1, "mul">,
  I32EnumAttrCase<"Max", 2, "max">,       // floats: NaN propagates; integers: signed
  I32EnumAttrCase<"Min", 3, "min">,
  I32EnumAttrCase<"MaxNum", 4, "maxnum">, // floats only: NaN is ignored
  I32EnumAttrCase<"MinNum", 5, "minnum">,
  I32EnumAttrCase<"UMax", 6, "umax">,     // integers, unsigned
  I32EnumAttrCase<"UMin", 7, "umin">,
  I32EnumAttrCase<"And", 8, "and">,       // integers, bitwise; i1: logical
  I32EnumAttrCase<"Or", 9, "or">,
  I32EnumAttrCase<"Xor", 10, "xor">]> {
  let cppNamespace = "::tilewright::tile";
  let genSpecializedAttr = 0;
}
def Tile_ReduceKindAttr : EnumAttr<Tile_Dialect, Tile_ReduceKind, "reduce_kind"> {
  let assemblyFormat = "`<` $value `>`";
}

def Tile_Function : I32EnumAttr<"Function", "a function that math lacks", [
  I32EnumAttrCase<"Erfc", 0, "erfc">,
  I32EnumAttrCase<"Lgamma", 1, "lgamma">,
  I32EnumAttrCase<"Tgamma", 2, "tgamma">]> {
  let cppNamespace = "::tilewright::tile";
  let genSpecializedAttr = 0;
}
def Tile_FunctionAttr : EnumAttr<Tile_Dialect, Tile_Function, "function"> {
  let assemblyFormat = "`<` $value `>`";
}

class Tile_Op<string opMnemonic, list<Trait> traits = []> : Op<Tile_Dialect, opMnemonic, traits>;

#endif
