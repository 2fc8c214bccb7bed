//===- Program.cpp - the serialised form of programs ----------------------===//
//
//   bytes 0..7    magic
//         8..11   kVersion
//        12..15   zero
//        16..23   number of bytes that follow the header
//        24..31   hash64 of these
//        32..     table of size expressions as text, then the fields of Program in order
//
//===----------------------------------------------------------------------===//
#include "tilewright/Runtime/Program.h"

#include "Archive.h"
#include "ProgramValidate.h"
#include "tilewright/Support/Hash.h"

#include <algorithm>

namespace tilewright {

static constexpr char kMagic[8] = {'T', 'W', 'P', 'R', 'O', 'G', '\r', '\n'};
static constexpr size_t kHeaderBytes = 32;

#define X(e, ...) +1
static constexpr unsigned kDTypeCount = 0 TILEWRIGHT_DTYPES(X);
#undef X

namespace {

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, SymbolBinding> b) {
  ar.enumeration(b.kind, 3, "symbol binding");
  ar(b.input);
  ar(b.dim);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, InputSpec> s) {
  ar.enumeration(s.kind, 3, "input kind");
  ar.enumeration(s.dtype, kDTypeCount, "dtype");
  ar.list(s.sizes);
  ar.list(s.strides);
  ar(s.mutated);
  ar(s.name);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, OutputSpec> s) {
  ar.enumeration(s.kind, 2, "output kind");
  ar.enumeration(s.dtype, kDTypeCount, "dtype");
  ar.list(s.sizes);
  ar.list(s.strides);
  ar(s.offset);
  ar(s.input);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, SizeCheck> c) {
  ar.enumeration(c.op, 4, "check");
  ar(c.lhs);
  ar(c.rhs);
  ar(c.message);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, BufferSpec> b) {
  ar.enumeration(b.kind, 5, "buffer kind");
  ar(b.index);
  ar(b.bytes);
  ar(b.firstStep);
  ar(b.lastStep);
  ar(b.attachedTo);
  ar(b.spared);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, KernelCode> k) {
  ar(k.name);
  ar(k.symbol);
  ar(k.hash);
  ar.blob(k.object);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, ErrorSiteSpec> s) {
  ar(s.op);
  ar(s.source);
  ar(s.message);
  ar.enumeration(s.kind, 2, "kind of an error of data");
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, KernelStep> s) {
  ar(s.kernel);
  ar.list(s.buffers);
  ar.list(s.offsets);
  ar.list(s.ints);
  ar(s.grid);
  ar(s.grain);
  ar(s.scratchBytes);
  ar(s.bytesMoved);
  ar(s.flops);
  ar(s.source);
  ar.list(s.errorSites, [&](auto &site) { transfer(ar, site); });
  ar.enumeration(s.role, 4, "role of a step");
  ar(s.attachedBuffer);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, TensorView> t) {
  ar(t.buffer);
  ar(t.offset);
  ar.enumeration(t.dtype, kDTypeCount, "dtype");
  ar.list(t.sizes);
  ar.list(t.strides);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, ExternalStep> s) {
  ar(s.function);
  ar(s.payload);
  ar.list(s.inputs, [&](auto &t) { transfer(ar, t); });
  ar.list(s.outputs, [&](auto &t) { transfer(ar, t); });
  ar.list(s.ints);
  ar(s.op);
  ar(s.reason);
  ar(s.source);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, Step> step) {
  uint8_t kind = step.index();
  ar.enumeration(kind, std::variant_size_v<Step>, "step kind");
  if constexpr (Ar::reading)
    if (kind == 1)
      step.template emplace<1>();
  std::visit([&](auto &s) { transfer(ar, s); }, step);
}

template <class Ar> void transfer(Ar &ar, FieldOf<Ar, Program> p) {
  ar(p.target);
  ar(p.name);
  ar(p.symbolCount);
  ar.list(p.symbols, [&](auto &s) { transfer(ar, s); });
  ar.list(p.inputs, [&](auto &s) { transfer(ar, s); });
  ar.list(p.outputs, [&](auto &s) { transfer(ar, s); });
  ar.list(p.checks, [&](auto &s) { transfer(ar, s); });
  ar.list(p.constants, [&](auto &s) { ar.blob(s.bytes); });
  ar.list(p.buffers, [&](auto &s) { transfer(ar, s); });
  ar.list(p.kernels, [&](auto &s) { transfer(ar, s); });
  ar.list(p.steps, [&](auto &s) { transfer(ar, s); });
}

} // namespace

std::vector<uint8_t> Program::serialize() const {
  Writer fields;
  transfer(fields, *this);
  Writer file;
  file.bytes.reserve(fields.bytes.size() + 4096);
  file.bytes.assign(kMagic, kMagic + sizeof(kMagic));
  file(kVersion);
  file(uint32_t(0));
  file(uint64_t(0)); // size and hash, filled in below
  file(uint64_t(0));
  file.list(fields.expressions, [&](const SizeExpr &e) { file(e.str()); });
  file.bytes.insert(file.bytes.end(), fields.bytes.begin(), fields.bytes.end());
  uint64_t size = file.bytes.size() - kHeaderBytes;
  uint64_t checksum = hash64(file.bytes.data() + kHeaderBytes, size);
  std::memcpy(file.bytes.data() + 16, &size, 8);
  std::memcpy(file.bytes.data() + 24, &checksum, 8);
  return std::move(file.bytes);
}

Program Program::deserialize(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeaderBytes)
    Reader::fail("truncated (" + std::to_string(bytes.size()) + " bytes, the header alone has 32)");
  if (std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    Reader::fail("it does not start with the magic number of a Tilewright program");
  uint32_t version, reserved;
  uint64_t size, checksum;
  std::memcpy(&version, bytes.data() + 8, 4);
  std::memcpy(&reserved, bytes.data() + 12, 4);
  std::memcpy(&size, bytes.data() + 16, 8);
  std::memcpy(&checksum, bytes.data() + 24, 8);
  if (version != kVersion || reserved != 0)
    throw std::runtime_error("the program has format version " + std::to_string(version) + ", this runtime reads " +
                             std::to_string(kVersion) + "; compile it again");
  std::span<const uint8_t> body = bytes.subspan(kHeaderBytes);
  if (size != body.size())
    Reader::fail("truncated or followed by other data (" + std::to_string(size) + " bytes announced, " +
                 std::to_string(body.size()) + " present)");
  if (hash64(body) != checksum)
    Reader::fail("the checksum does not match");

  Reader reader(body);
  std::vector<SizeExpr> expressions;
  reader.list(expressions, [&](SizeExpr &e) {
    std::string text;
    reader(text);
    try {
      e = SizeExpr::parse(text);
    } catch (const std::invalid_argument &error) {
      Reader::fail(error.what());
    }
  });
  reader.expressions = std::move(expressions);
  Program program;
  transfer(reader, program);
  if (!reader.atEnd())
    Reader::fail("data after its end");
  validate(program);
  return program;
}

} // namespace tilewright
