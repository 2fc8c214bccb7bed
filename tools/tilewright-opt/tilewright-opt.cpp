//===- tilewright-opt.cpp - runs passes on .mlir files, for tests -------------------------------------------------===//
//
// As mlir-opt with the tile dialect and the passes of the host target; `tilewright-opt --emit=asm|object|llvm FILE
// [--level=..]` compiles a kernel to the end instead, and `tilewright-opt --graph=nests|groups|tile FILE.json` shows
// the graph level.
//
//===--------------------------------------------------------------------------------------------------------------===//

#include "EmitMode.h"
#include "GraphMode.h"

#include "tilewright/Target/Host/Lowering.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  if (argc > 1 && llvm::StringRef(argv[1]).starts_with("--emit="))
    return tilewright::emitMain(argc, argv);
  if (argc > 1 && llvm::StringRef(argv[1]).starts_with("--graph="))
    return tilewright::graphMain(argc, argv);
  mlir::DialectRegistry registry;
  tilewright::host::registerDialects(registry);
  registry.insert<mlir::tensor::TensorDialect>(); // to be refused
  tilewright::host::registerPasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Tilewright's pass driver\n", registry));
}
