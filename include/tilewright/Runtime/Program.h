//===- Program.h - what is compiled, cached, saved and run -----*- C++ -*-===//
//
// A Program is plain data: no pointers, no handles. It is what the compiler returns (serialised), what the cache stores
// and what Executable::load takes.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/DType.h"
#include "tilewright/Support/DataErrorKind.h"
#include "tilewright/Support/SizeExpr.h"

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace tilewright {

/// Where a symbol's value comes from at a call.
struct SymbolBinding {
  enum Kind : uint8_t { InputSize, InputStride, ScalarInput } kind;
  uint32_t input; // index into Program::inputs
  uint32_t dim;   // for InputSize and InputStride
};

struct InputSpec {
  enum Kind : uint8_t {
    Tensor,
    ScalarInt,  // passed as int64; may bind a symbol (then not negative); kernels read it as a 0-d i64 buffer
    ScalarFloat // passed as double; kernels read it as a 0-d f64 buffer
  } kind = Tensor;
  DType dtype = DType::F32;
  std::vector<SizeExpr> sizes;   // checked at the call
  std::vector<SizeExpr> strides; // in elements; checked at the call, except where the size is 0 or 1
  bool mutated = false;          // the program writes it
  std::string name;              // for messages
};

/// A relation that must hold, e.g. two sizes that must agree. Checked after binding and before anything runs.
struct SizeCheck {
  enum Op : uint8_t { Equal, NotEqual, LessEqual, Less } op;
  SizeExpr lhs, rhs;
  std::string message; // "{lhs}" and "{rhs}" are replaced by the values
};

/// A piece of memory. Tensors are views of buffers: offset and strides are in the steps' integers.
struct BufferSpec {
  enum Kind : uint8_t {
    Input,    // of input `index`; its pointer is the tensor's first element
    Output,   // of output `index`; allocated by the caller before launch
    Constant, // constant `index`
    Temp,     // in the arena; lives from firstStep to lastStep
    Attached  // kept with the program while `attachedTo` (an input) keeps address and write epoch; filled by its
              // prologue steps
  } kind;
  uint32_t index = 0;
  SizeExpr bytes;
  uint32_t firstStep = 0, lastStep = 0; // Temp: inclusive
  uint32_t attachedTo = 0;              // Attached: index of the input it is derived from
  /// Attached: not 0 where packing for a single call does not pay. Then a call with a weight of unknown epoch leaves
  /// the buffer without memory, and runs Unpacked steps in the place of Packs and Packed ones.
  SizeExpr spared = 0;
};

struct OutputSpec {
  enum Kind : uint8_t { Fresh, AliasOfInput } kind = Fresh;
  DType dtype = DType::F32;
  std::vector<SizeExpr> sizes, strides;
  SizeExpr offset;    // in elements from the start of the buffer; Fresh: 0
  uint32_t input = 0; // AliasOfInput
};

struct ConstantSpec {
  std::vector<uint8_t> bytes; // aligned to 64 when loaded
};

/// One kernel, shared by every step with the same code. `object` is a relocatable ELF file for one function `symbol`.
struct KernelCode {
  std::string name;   // readable, for profiles: "row_softmax_3f2a"
  std::string symbol; // in the object
  uint64_t hash;      // of the object and target; equal hashes share one loaded copy per process
  std::vector<uint8_t> object;
};

/// What an error of data at a site of a kernel says; "{index}" and "{bound}" in the message are replaced by the values.
struct ErrorSiteSpec {
  std::string op, source, message;
  DataErrorKind kind = DataErrorKind::Index;
};

/// Runs grid points [0, grid) of a kernel, in chunks of `grain` points.
struct KernelStep {
  uint32_t kernel;               // index into Program::kernels
  std::vector<uint32_t> buffers; // indices into Program::buffers, in the kernel's order
  std::vector<SizeExpr> offsets; // bytes added to each buffer's pointer (same length as buffers)
  std::vector<SizeExpr> ints;
  SizeExpr grid;             // number of grid points
  SizeExpr grain = 1;        // a thread takes at least so many points
  SizeExpr scratchBytes = 0; // per thread, 64-byte aligned: KernelContext::scratch
  // For explain and debug output:
  SizeExpr bytesMoved = 0, flops = 0;
  std::string source;                    // the model's source line or the operator names
  std::vector<ErrorSiteSpec> errorSites; // KernelContext::errorCode - 1 is an index
  /// What the step has to do with the Attached buffer `attachedBuffer`. Packs: it fills the buffer, is skipped while
  /// that is valid, and uses its input, constants and the buffer itself only. Packed: it reads the buffer. Unpacked: it
  /// computes what Packed steps do from the input as it lies.
  enum Role : uint8_t { Plain, Packs, Packed, Unpacked } role = Plain;
  uint32_t attachedBuffer = 0;
};

/// A tensor handed to an external call.
struct TensorView {
  uint32_t buffer;
  SizeExpr offset; // bytes
  DType dtype;
  std::vector<SizeExpr> sizes, strides; // strides in elements
};

/// A call by name through the registry (see ExternalCall.h), on the calling thread with the stream drained.
struct ExternalStep {
  std::string function; // e.g. "torch.aten"
  std::string payload;  // what the function needs to know: for torch.aten the node as JSON
  std::vector<TensorView> inputs, outputs;
  std::vector<SizeExpr> ints; // symbolic integers the payload refers to
  std::string op, reason, source;
};

using Step = std::variant<KernelStep, ExternalStep>;

struct Program {
  static constexpr uint32_t kVersion = 3;

  std::string target; // CPU level the objects need: "x86-64", "avx2", "avx512", "avx512bf16"
  std::string name;
  uint32_t symbolCount = 0;
  std::vector<SymbolBinding> symbols; // [symbolCount]
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<SizeCheck> checks;
  std::vector<ConstantSpec> constants;
  std::vector<BufferSpec> buffers;
  std::vector<KernelCode> kernels;
  std::vector<Step> steps;

  /// Little-endian, with a magic number, kVersion and a checksum.
  std::vector<uint8_t> serialize() const;
  /// Throws std::runtime_error that says what is wrong (magic, version, checksum, truncated, an index out of range).
  static Program deserialize(std::span<const uint8_t> bytes);
};

} // namespace tilewright
