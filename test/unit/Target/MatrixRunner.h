//===- MatrixRunner.h - compiles and runs packed products for tests
//------------------------------------------------===//
#pragma once

#include "tilewright/Runtime/ObjectLoader.h"
#include "tilewright/Target/Host/ContractPlan.h"
#include "tilewright/Target/Host/HostTarget.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tilewright::test {

/// Memory that ends at an unreadable page: an access beyond the last byte faults. Starts are aligned to the element
/// only.
class GuardedMemory {
public:
  explicit GuardedMemory(size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory &) = delete;
  void *data() const { return start; }
  template <typename T> T *as() const { return static_cast<T *>(start); }

private:
  void *mapping, *start;
  size_t mapped;
};

/// A kernel compiled from text for one level. Throws std::runtime_error with the compiler's message.
class CompiledKernel {
public:
  CompiledKernel(const std::string &text, const std::string &level, bool assembly = false);
  /// A kernel of its own making in a fresh context.
  CompiledKernel(const std::function<mlir::OwningOpRef<mlir::ModuleOp>(mlir::MLIRContext &)> &build,
                 const std::string &level);

  /// Runs grid points [begin, end) in one call with scratch of `scratchBytes`.
  void run(std::vector<void *> buffers, std::vector<int64_t> ints, int64_t begin, int64_t end,
           size_t scratchBytes = 0) const;

  std::string assembly;
  double seconds = 0; // lowering and code generation
  std::vector<host::Phase> phases;
  KernelFunction function = nullptr;

private:
  void load(host::ObjectCode code);
  std::shared_ptr<const LoadedObject> object;
};

/// Levels that this machine can run, lowest first.
std::vector<std::string> runnableLevels();

/// Text of a kernel with grid (panels) that packs a k x n matrix: buffers w, p; ints k, n, sk, sn, elements of a panel.
std::string packKernel(const host::MatrixShape &shape);
/// Text of a kernel with grid (row blocks, column blocks) for c[i, j] = sum + bias[j]: buffers a, p, bias, c
/// (accumulator type); ints m, n, k, sm, sk, ldc, mc, nc, elements of a panel.
std::string productKernel(const host::MatrixShape &shape);

/// The name of a type in MLIR.
std::string mlirName(DType type);
/// bf16 and f16 as doubles and back (round to nearest even).
double toDouble(DType type, const void *element);
void fromDouble(DType type, double value, void *element);

/// Packs and multiplies: C[m, n] += bias, with block sizes mc and nc. A's element (i, k) is at i * sm + k * sk, B's (k,
/// j) at k * sbk + j * sbn.
class MatrixProduct {
public:
  MatrixProduct(DType operand, const std::string &level);
  void pack(const void *b, int64_t k, int64_t n, int64_t sbk, int64_t sbn, void *panels) const;
  void multiply(const void *a, const void *panels, const void *bias, void *c, int64_t m, int64_t n, int64_t k,
                int64_t sm, int64_t sk, int64_t ldc, int64_t mc, int64_t nc) const;
  int64_t panelElements(int64_t k) const { return (k + shape.depth - 1) / shape.depth * shape.depth * shape.width; }
  int64_t packedBytes(int64_t k, int64_t n) const {
    return (n + shape.width - 1) / shape.width * panelElements(k) * static_cast<int64_t>(sizeOf(shape.panel));
  }

  host::MatrixShape shape;
  CompiledKernel packing, product;
};

} // namespace tilewright::test
