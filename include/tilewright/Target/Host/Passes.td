//===- Passes.td - passes of the host target ------------------------*- tablegen -*-===//
#ifndef TILEWRIGHT_TARGET_HOST_PASSES
#define TILEWRIGHT_TARGET_HOST_PASSES

include "mlir/Pass/PassBase.td"

class HostPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect", "::mlir::func::FuncDialect", "::mlir::math::MathDialect",
                           "::mlir::cf::ControlFlowDialect"];
}
class HostLevelPass<string name> : HostPass<name> {
  let options = [Option<"level", "level", "std::string", "\"avx512\"", "CPU level: x86-64, avx2, avx512 or avx512bf16">];
}

def TileUnroll : HostPass<"tile-unroll"> { let summary = "Tiles of higher rank become tiles of rank 1"; }
def TilePeelTails : HostPass<"tile-peel-tails"> {
  let summary = "Loops with valid extents become a loop over whole tiles and one partial step";
}
def TileToVector : HostLevelPass<"tile-to-vector"> { let summary = "Tiles become vectors, tile loads and stores memory access"; }
def TileLowerContract : HostLevelPass<"tile-lower-contract"> { let summary = "Matrix products become micro-kernels"; }
def TileLowerGrid : HostPass<"tile-lower-grid"> { let summary = "A kernel becomes a function that runs a range of grid points"; }
def ExpandMath : HostLevelPass<"expand-math"> { let summary = "Elementary functions become polynomials of at most 2 ULP"; }
def TileToLlvm : HostPass<"tile-to-llvm"> { let summary = "Everything left becomes the LLVM dialect"; }

#endif
