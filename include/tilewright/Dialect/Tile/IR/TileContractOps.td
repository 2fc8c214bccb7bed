//===- TileContractOps.td - matrix products of the tile dialect -----*- tablegen -*-===//
#ifndef TILEWRIGHT_DIALECT_TILE_IR_TILECONTRACTOPS
#define TILEWRIGHT_DIALECT_TILE_IR_TILECONTRACTOPS

include "tilewright/Dialect/Tile/IR/TileDialect.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_PackOp : Tile_Op<"pack"> {
  let summary = "Writes one panel in the layout that tile.contract reads";
  let description = [{
    ```mlir
    tile.pack %w[%off] strides [%sk, %sn] shape [%k, %n], %p[%poff] : !tile.buffer<f32>, !tile.buffer<f32>
    ```
    Writes the panel `k x n` (n at most the target's panel width NR) of the matrix whose element (i, j) is at `off + i * sk + j * sn`; columns
    from n to NR are zero. The panel takes k * NR elements (bf16: rows in pairs, an odd k rounded up).
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$source, Index:$offset, Variadic<Index>:$strides,
                       DenseI64ArrayAttr:$static_strides, Index:$k, Index:$n,
                       Arg<Tile_BufferType, "", [MemWrite]>:$panel, Index:$panel_offset);
  let assemblyFormat = [{
    $source `[` $offset `]` `strides` custom<DynamicIndexList>($strides, $static_strides) `shape` `[` $k `,` $n `]` `,`
    $panel `[` $panel_offset `]` attr-dict `:` qualified(type($source)) `,` qualified(type($panel))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$source, "::mlir::Value":$offset,
                                 "::llvm::ArrayRef<::mlir::OpFoldResult>":$strides, "::mlir::Value":$k, "::mlir::Value":$n,
                                 "::mlir::Value":$panel, "::mlir::Value":$panelOffset)>];
  let extraClassDeclaration = "::llvm::SmallVector<::mlir::OpFoldResult> getMixedStrides();";
  let hasVerifier = 1;
}

def Tile_ContractOp : Tile_Op<"contract", [SingleBlock, NoTerminator,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "A block of a matrix product with its epilogue";
  let description = [{
    ```mlir
    tile.contract %a[%aoff] strides [%sm, 1], %p[%poff] shape [%m, %n, %k] : !tile.buffer<f32>, !tile.buffer<f32> {
    ^bb0(%acc: tensor<16xf32>, %i: index, %j: index, %valid: index):
      ...
      tile.store ...
    }
    ```
    `acc[w] = sum_k a[i, k] * b[k, j + w]` for every row i < m and every column vector j = 0, W, 2W, ... < n, where W is the width of the region's
    first argument (the target's vector width for the accumulator). The region is the epilogue: it ends in stores and has no other side
    effects. `valid` is min(W, n - j). `%p` holds packed panels of b (tile.pack): panel q at `poff + q * k * NR`.
    Products are summed in the type of `acc`.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$lhs, Index:$lhs_offset, Variadic<Index>:$strides,
                       DenseI64ArrayAttr:$static_strides, Arg<Tile_BufferType, "", [MemRead]>:$panels, Index:$panel_offset,
                       Index:$m, Index:$n, Index:$k);
  let regions = (region SizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    $lhs `[` $lhs_offset `]` `strides` custom<DynamicIndexList>($strides, $static_strides) `,`
    $panels `[` $panel_offset `]` `shape` `[` $m `,` $n `,` $k `]` attr-dict `:` qualified(type($lhs)) `,` qualified(type($panels)) $epilogue
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$lhsOffset,
                                 "::llvm::ArrayRef<::mlir::OpFoldResult>":$strides, "::mlir::Value":$panels,
                                 "::mlir::Value":$panelOffset, "::mlir::Value":$m, "::mlir::Value":$n, "::mlir::Value":$k,
                                 "::mlir::RankedTensorType":$accumulator)>];
  let skipDefaultBuilders = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::mlir::OpFoldResult> getMixedStrides();
    ::mlir::Block &getBlock() { return getEpilogue().front(); }
    ::mlir::BlockArgument getAccumulator() { return getBlock().getArgument(0); }
    ::mlir::BlockArgument getRow() { return getBlock().getArgument(1); }
    ::mlir::BlockArgument getColumn() { return getBlock().getArgument(2); }
    ::mlir::BlockArgument getValidColumns() { return getBlock().getArgument(3); }
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

#endif
