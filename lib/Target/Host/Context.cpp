//===- Context.cpp - dialects of the host target and a pool of contexts ------------------------------------------===//

#include "tilewright/Dialect/Tile/IR/TileDialect.h"
#include "tilewright/Target/Host/HostTarget.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"

#include <mutex>

using namespace mlir;

namespace tilewright::host {

void registerDialects(DialectRegistry &registry) {
  registry.insert<tile::TileDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect, vector::VectorDialect,
                  func::FuncDialect, cf::ControlFlowDialect, LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

static std::unique_ptr<MLIRContext> createContext() {
  DialectRegistry registry;
  registerDialects(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

namespace {

struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<MLIRContext>> idle;
};

} // namespace

/// Never destroyed: a context may be given back by a static destructor.
static Pool &pool() {
  static Pool *instance = new Pool;
  return *instance;
}

PooledContext::PooledContext() {
  {
    std::lock_guard lock(pool().mutex);
    if (!pool().idle.empty()) {
      context = std::move(pool().idle.back());
      pool().idle.pop_back();
    }
  }
  if (!context)
    context = createContext();
}

PooledContext::~PooledContext() {
  if (!context)
    return;
  std::lock_guard lock(pool().mutex);
  pool().idle.push_back(std::move(context));
}

} // namespace tilewright::host
