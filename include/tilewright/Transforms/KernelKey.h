//===- KernelKey.h - what a kernel is specialised on --------------*- C++ -*-===//
//
// A kernel is specialised on structure only: which coefficients are 0 or 1, dtypes, operations. Every other size,
// stride and offset is a run-time integer. The key is a text of that structure in which integers are numbered in
// order of appearance; equal keys mean equal code, so the layers of a model share kernels, and a static graph shares
// them with the dynamic one that follows it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Transforms/Fusion.h"

#include <map>

namespace tilewright::loop {

/// What a step needs besides the code, in the order of the kernel's arguments.
struct KernelArguments {
  std::vector<BufferId> buffers;
  std::vector<DType> bufferTypes;
  std::vector<SizeExpr> byteOffsets; // added to the buffers' pointers; empty: none (offsets are among the integers)
  std::vector<SizeExpr> ints;
  std::vector<unsigned> sites; // the kernel's error site i is the module's sites[i]
};

class KernelKey {
public:
  /// For a group of loops or a contraction.
  KernelKey(const Group &group, const Module &module);
  /// An empty key, to be filled by addText, addSize, addBuffer.
  explicit KernelKey(std::string_view text) : out(text) {}

  const std::string &text() const { return out; }
  const KernelArguments &arguments() const { return args; }

  /// Position of a buffer among the kernel's buffers.
  unsigned buffer(BufferId id) const { return bufferIndex.at(id); }
  /// Position among the integers, or -1 for the literals 0 and 1.
  int integer(const SizeExpr &value) const;
  unsigned site(unsigned moduleSite) const { return siteIndex.at(moduleSite); }

  /// Adds an integer that is not part of the group's structure (block sizes, say); call before emission, in a fixed
  /// order.
  unsigned addInteger(const SizeExpr &value);
  void addBuffer(BufferId id, DType type);
  void addText(std::string_view text) { out += text; }
  /// A size as part of the structure: 0 and 1 are literals.
  void addSize(const SizeExpr &value) { size(value); }

private:
  std::string out;
  KernelArguments args;
  std::map<BufferId, unsigned> bufferIndex;
  std::map<BufferId, unsigned> localIndex; // buffers that are not arguments
  std::map<SizeExpr, unsigned> intIndex;
  std::map<unsigned, unsigned> siteIndex;
  std::map<ExprRef, unsigned> exprIndex;

  void size(const SizeExpr &value);
  void access(const Access &value, DType type);
  void expr(ExprRef value);
  void nest(const Nest &nest);
};

/// A short readable name: the operators, joined.
std::string kernelName(const Group &group);

} // namespace tilewright::loop
