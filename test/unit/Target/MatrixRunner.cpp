#include "MatrixRunner.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/APFloat.h"

#include <chrono>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

namespace tilewright::test {

GuardedMemory::GuardedMemory(size_t bytes) {
  const size_t page = sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  mapped = whole + page;
  mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED || mprotect(static_cast<char *>(mapping) + whole, page, PROT_NONE) != 0)
    throw std::runtime_error("cannot map memory with a guard page");
  start = static_cast<char *>(mapping) + whole - bytes;
  std::memset(mapping, 0xff, whole); // NaN in every type
}

GuardedMemory::~GuardedMemory() { munmap(mapping, mapped); }

CompiledKernel::CompiledKernel(const std::string &text, const std::string &level, bool assemblyToo) {
  host::PooledContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  if (!module)
    throw std::runtime_error("the kernel's text does not parse:\n" + text);
  host::DumpOptions options;
  options.assembly = assemblyToo;
  auto start = std::chrono::steady_clock::now();
  auto code = host::compileKernel(*module, host::HostTarget::get(level), options);
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!code)
    throw std::runtime_error(llvm::toString(code.takeError()));
  load(std::move(*code));
}

CompiledKernel::CompiledKernel(const std::function<mlir::OwningOpRef<mlir::ModuleOp>(mlir::MLIRContext &)> &build,
                               const std::string &level) {
  host::PooledContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = build(*context);
  auto start = std::chrono::steady_clock::now();
  auto code = host::compileKernel(*module, host::HostTarget::get(level));
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!code)
    throw std::runtime_error(llvm::toString(code.takeError()));
  load(std::move(*code));
}

void CompiledKernel::load(host::ObjectCode code) {
  object = loadObject(code.bytes, code.symbol);
  function = object->function(code.symbol);
  assembly = std::move(code.assembly);
  phases = std::move(code.phases);
}

void CompiledKernel::run(std::vector<void *> buffers, std::vector<int64_t> ints, int64_t begin, int64_t end,
                         size_t scratchBytes) const {
  std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(64, (scratchBytes + 127) / 64 * 64),
                                                      std::free);
  std::memset(scratch.get(), 0xff, scratchBytes);
  KernelContext context{scratch.get(), 0, 0, 0, 0};
  if (function(buffers.data(), ints.data(), begin, end, &context) != 0)
    throw std::runtime_error("the kernel recorded an error of data");
}

std::vector<std::string> runnableLevels() {
  std::vector<std::string> levels{"x86-64"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    levels.push_back("avx2");
  if (__builtin_cpu_supports("x86-64-v4"))
    levels.push_back("avx512");
  if (__builtin_cpu_supports("avx512bf16"))
    levels.push_back("avx512bf16");
  return levels;
}

std::string mlirName(DType type) { return std::string(nameOf(type)); }

static const llvm::fltSemantics &semantics(DType type) {
  return type == DType::BF16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf();
}

double toDouble(DType type, const void *element) {
  switch (type) {
  case DType::F32:
    return *static_cast<const float *>(element);
  case DType::F64:
    return *static_cast<const double *>(element);
  case DType::I32:
    return *static_cast<const int32_t *>(element);
  case DType::I64:
    return static_cast<double>(*static_cast<const int64_t *>(element));
  case DType::BF16: {
    uint32_t bits = uint32_t(*static_cast<const uint16_t *>(element)) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  default: {
    llvm::APFloat value(semantics(type), llvm::APInt(16, *static_cast<const uint16_t *>(element)));
    return value.convertToDouble();
  }
  }
}

void fromDouble(DType type, double value, void *element) {
  switch (type) {
  case DType::F32:
    *static_cast<float *>(element) = static_cast<float>(value);
    return;
  case DType::F64:
    *static_cast<double *>(element) = value;
    return;
  case DType::I32:
    *static_cast<int32_t *>(element) = static_cast<int32_t>(value);
    return;
  case DType::I64:
    *static_cast<int64_t *>(element) = static_cast<int64_t>(value);
    return;
  default: {
    llvm::APFloat number(value);
    bool lost;
    number.convert(semantics(type), llvm::APFloat::rmNearestTiesToEven, &lost);
    *static_cast<uint16_t *>(element) = static_cast<uint16_t>(number.bitcastToAPInt().getZExtValue());
  }
  }
}

std::string packKernel(const host::MatrixShape &shape) {
  std::string t = "!tile.buffer<" + mlirName(shape.operand) + ">", p = "!tile.buffer<" + mlirName(shape.panel) + ">";
  return "tile.kernel @pack(%w: " + t + ", %p: " + p +
         ", %k: index, %n: index, %sk: index, %sn: index, %panel: index) {\n"
         "  %nr = arith.constant " +
         std::to_string(shape.width) +
         " : index\n"
         "  %panels = arith.ceildivsi %n, %nr : index\n"
         "  tile.grid (%q) in (%panels) {\n"
         "    %j = arith.muli %q, %nr : index\n"
         "    %left = arith.subi %n, %j : index\n"
         "    %count = arith.minsi %left, %nr : index\n"
         "    %off = arith.muli %j, %sn : index\n"
         "    %poff = arith.muli %q, %panel : index\n"
         "    tile.pack %w[%off] strides [%sk, %sn] shape [%k, %count], %p[%poff] : " +
         t + ", " + p +
         "\n"
         "  }\n}\n";
}

std::string productKernel(const host::MatrixShape &shape) {
  std::string t = "!tile.buffer<" + mlirName(shape.operand) + ">", p = "!tile.buffer<" + mlirName(shape.panel) + ">";
  std::string element = mlirName(shape.accumulator), c = "!tile.buffer<" + element + ">";
  std::string vector = "tensor<" + std::to_string(shape.lanes) + "x" + element + ">";
  std::string add = isFloat(shape.accumulator) ? "arith.addf" : "arith.addi";
  return "tile.kernel @product(%a: " + t + ", %p: " + p + ", %bias: " + c + ", %c: " + c +
         ", %m: index, %n: index, %k: index, %sm: index, %sk: index, %ldc: index, %mc: index, %nc: index, %panel: "
         "index) {\n"
         "  %nr = arith.constant " +
         std::to_string(shape.width) +
         " : index\n"
         "  %rows = arith.ceildivsi %m, %mc : index\n"
         "  %cols = arith.ceildivsi %n, %nc : index\n"
         "  tile.grid (%r, %q) in (%rows, %cols) {\n"
         "    %i0 = arith.muli %r, %mc : index\n"
         "    %j0 = arith.muli %q, %nc : index\n"
         "    %mleft = arith.subi %m, %i0 : index\n"
         "    %nleft = arith.subi %n, %j0 : index\n"
         "    %mm = arith.minsi %mleft, %mc : index\n"
         "    %nn = arith.minsi %nleft, %nc : index\n"
         "    %aoff = arith.muli %i0, %sm : index\n"
         "    %pq = arith.divsi %j0, %nr : index\n"
         "    %poff = arith.muli %pq, %panel : index\n"
         "    tile.contract %a[%aoff] strides [%sm, %sk], %p[%poff] shape [%mm, %nn, %k] : " +
         t + ", " + p +
         " {\n"
         "    ^bb0(%acc: " +
         vector +
         ", %i: index, %j: index, %valid: index):\n"
         "      %ii = arith.addi %i0, %i : index\n"
         "      %jj = arith.addi %j0, %j : index\n"
         "      %row = arith.muli %ii, %ldc : index\n"
         "      %at = arith.addi %row, %jj : index\n"
         "      %x = tile.load %bias[%jj] strides [1] valid [%valid] : " +
         c + " -> " + vector +
         "\n"
         "      %y = " +
         add + " %acc, %x : " + vector +
         "\n"
         "      tile.store %y, %c[%at] strides [1] valid [%valid] : " +
         vector + ", " + c +
         "\n"
         "    }\n  }\n}\n";
}

MatrixProduct::MatrixProduct(DType operand, const std::string &level)
    : shape(host::MatrixShape::get(operand, *host::MatrixTarget::forLevel(level)).value()),
      packing(packKernel(shape), level), product(productKernel(shape), level) {}

void MatrixProduct::pack(const void *b, int64_t k, int64_t n, int64_t sbk, int64_t sbn, void *panels) const {
  packing.run({const_cast<void *>(b), panels}, {k, n, sbk, sbn, panelElements(k)}, 0,
              (n + shape.width - 1) / shape.width);
}

void MatrixProduct::multiply(const void *a, const void *panels, const void *bias, void *c, int64_t m, int64_t n,
                             int64_t k, int64_t sm, int64_t sk, int64_t ldc, int64_t mc, int64_t nc) const {
  int64_t grid = (m + mc - 1) / mc * ((n + nc - 1) / nc);
  product.run({const_cast<void *>(a), const_cast<void *>(panels), const_cast<void *>(bias), c},
              {m, n, k, sm, sk, ldc, mc, nc, panelElements(k)}, 0, grid);
}

} // namespace tilewright::test
