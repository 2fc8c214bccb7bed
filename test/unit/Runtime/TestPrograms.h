//===- TestPrograms.h - hand-made programs with kernels from C ---*- C++ -*-===//
#pragma once

#include "tilewright/Runtime/Device.h"
#include "tilewright/Runtime/Executable.h"

#include "CompileC.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tilewright::test {

inline SizeExpr e(const char *text) { return SizeExpr::parse(text); }

/// Kernels for all tests: one object, compiled once.
inline const std::vector<uint8_t> &kernels() {
  static const std::vector<uint8_t> object = compileC(R"(
KERNEL(add) { // c = a + b
  const float *a = buffers[0], *b = buffers[1]; float *c = buffers[2];
  for (int64_t i = begin; i < end; ++i) c[i] = a[i] + b[i];
  return 0;
}
KERNEL(scale) { // y = x * f, f a run-time double
  const float *x = buffers[0]; const double *f = buffers[1]; float *y = buffers[2];
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] * (float)*f;
  return 0;
}
KERNEL(plus) { // y = x + integer argument and integer scalar
  const float *x = buffers[0]; const int64_t *n = buffers[1]; float *y = buffers[2];
  for (int64_t i = begin; i < end; ++i) y[i] = x[i] + ints[0] + *n;
  return 0;
}
KERNEL(gather) { // y[i] = x[index[i]], checked
  const float *x = buffers[0]; const int64_t *index = buffers[1]; float *y = buffers[2];
  int64_t status = 0;
  for (int64_t i = begin; i < end; ++i) {
    int64_t at = index[i];
    if (at < 0 || at >= ints[0]) {
      if (!context->errorCode) { context->errorCode = 1; context->errorIndex = at; context->errorBound = ints[0]; }
      status = 1; at = 0;
    }
    y[i] = x[at];
  }
  return status;
}
KERNEL(reverse) { // through scratch: y = x reversed, in blocks of ints[0]
  const float *x = buffers[0]; float *y = buffers[1], *s = context->scratch;
  if ((uintptr_t)s % 64) return 1;
  for (int64_t g = begin; g < end; ++g) {
    for (int64_t i = 0; i < ints[0]; ++i) s[i] = x[g * ints[0] + i];
    for (int64_t i = 0; i < ints[0]; ++i) y[g * ints[0] + i] = s[ints[0] - 1 - i];
  }
  return 0;
}
KERNEL(count) { // adds the number of its grid points to a counter
  __atomic_fetch_add((int64_t *)buffers[0], end - begin, __ATOMIC_RELAXED);
  return 0;
}
KERNEL(fill) { // ints[0] elements, whatever the grid
  for (int64_t i = 0; i < ints[0]; ++i) ((float *)buffers[0])[i] = 1;
  return 0;
}
KERNEL(slow) { // takes ints[0] rounds a point
  for (int64_t g = begin; g < end; ++g)
    for (volatile int64_t i = 0; i < ints[0]; ++i) {}
  return 0;
}
)");
  return object;
}

/// A program in the making.
struct Builder {
  Program p;
  Builder(const char *name, uint32_t symbols = 0) {
    p.name = name;
    p.target = "x86-64";
    p.symbolCount = symbols;
    p.symbols.resize(symbols);
  }
  uint32_t input(const char *name, std::vector<SizeExpr> sizes, std::vector<SizeExpr> strides,
                 DType dtype = DType::F32) {
    p.inputs.push_back({InputSpec::Tensor, dtype, sizes, strides, false, name});
    p.buffers.push_back({BufferSpec::Input, uint32_t(p.inputs.size() - 1), 0});
    return p.buffers.size() - 1;
  }
  uint32_t scalar(InputSpec::Kind kind, const char *name) {
    p.inputs.push_back({kind, kind == InputSpec::ScalarInt ? DType::I64 : DType::F64, {}, {}, false, name});
    p.buffers.push_back({BufferSpec::Input, uint32_t(p.inputs.size() - 1), 8});
    return p.buffers.size() - 1;
  }
  uint32_t output(SizeExpr n, DType dtype = DType::F32) {
    p.outputs.push_back({OutputSpec::Fresh, dtype, {n}, {1}, 0, 0});
    p.buffers.push_back({BufferSpec::Output, uint32_t(p.outputs.size() - 1), n * int64_t(sizeOf(dtype))});
    return p.buffers.size() - 1;
  }
  uint32_t temp(SizeExpr bytes, uint32_t first, uint32_t last) {
    p.buffers.push_back({BufferSpec::Temp, 0, bytes, first, last});
    return p.buffers.size() - 1;
  }
  uint32_t attached(uint32_t input, SizeExpr bytes) {
    p.buffers.push_back({BufferSpec::Attached, 0, bytes, 0, 0, input});
    return p.buffers.size() - 1;
  }
  KernelStep &step(const char *symbol, std::vector<uint32_t> buffers, SizeExpr grid, std::vector<SizeExpr> ints = {}) {
    uint32_t kernel = 0;
    while (kernel < p.kernels.size() && p.kernels[kernel].symbol != symbol)
      ++kernel;
    if (kernel == p.kernels.size())
      p.kernels.push_back({std::string(symbol) + "_kernel", symbol, 1, kernels()});
    KernelStep s;
    s.kernel = kernel;
    s.offsets.assign(buffers.size(), 0);
    s.buffers = std::move(buffers);
    s.ints = std::move(ints);
    s.grid = grid;
    s.source = "model.py:7";
    return std::get<KernelStep>(p.steps.emplace_back(std::move(s)));
  }
  std::shared_ptr<Executable> load() {
    // What is serialised is what runs.
    return Executable::load(Program::deserialize(p.serialize()));
  }
};

/// Argument over a vector, which owns sizes and strides.
struct Tensor {
  std::vector<int64_t> sizes, strides;
  std::vector<float> data;
  uint64_t epoch = 0;
  explicit Tensor(int64_t n, float first = 0) : sizes{n}, strides{1}, data(n) {
    std::iota(data.begin(), data.end(), first);
  }
  Argument argument() {
    Argument a;
    a.data = data.data();
    a.sizes = sizes;
    a.strides = strides;
    a.epoch = epoch;
    return a;
  }
};

inline Argument scalarInt(int64_t value) {
  Argument a;
  a.scalarInt = value;
  return a;
}
inline Argument scalarFloat(double value) {
  Argument a;
  a.scalarFloat = value;
  return a;
}

inline void call(Executable &x, std::vector<Argument> arguments, std::vector<void *> outputs,
                 Stream *stream = nullptr) {
  std::vector<OutputMemory> memory;
  for (void *p : outputs)
    memory.push_back({p});
  x.run(x.bind(arguments), arguments, memory, stream);
}

inline std::string bindError(Executable &x, std::vector<Argument> arguments) {
  try {
    x.bind(arguments);
  } catch (const std::invalid_argument &error) {
    return error.what();
  }
  return "";
}

/// Tests that hold with a stream and without.
class OnStreamOrHere : public testing::TestWithParam<bool> {
protected:
  Stream *stream() { return GetParam() ? &Device::instance().defaultStream() : nullptr; }
  void finish() {
    if (GetParam())
      Device::instance().defaultStream().synchronize();
  }
};
} // namespace tilewright::test
