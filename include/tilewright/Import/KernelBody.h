//===- KernelBody.h - control flow around loop nests ---------------*- C++ -*-===//
//
// What a structured kernel program becomes (docs/kernel-programs.md): a grid whose point runs regions of loop nests
// with loops and conditions around them. Nests are over *local symbols*, numbered from Module::symbolCount: where a
// tile starts and how long it is. Temp buffers of the module lie in the thread's scratch.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Import/LoopIR.h"

#include <memory>
#include <variant>

namespace tilewright::loop {

struct Region;

/// A range [begin, end) walked in steps of `tile`: `start` is the first index of a step, `size` (absent if each step is
/// one index) how many there are.
struct KernelAxis {
  std::string name;
  unsigned start = 0;
  std::optional<unsigned> size;
  SizeExpr begin, end;
  int64_t tile = 1;
};

struct KernelFor {
  KernelAxis axis;
  std::unique_ptr<Region> body;
};
/// `condition` is a 0-d Bool buffer.
struct KernelIf {
  BufferId condition;
  std::unique_ptr<Region> then, otherwise;
};
struct KernelWhile {
  std::unique_ptr<Region> before; // computes the condition
  BufferId condition;
  std::unique_ptr<Region> body;
};
/// The local symbol becomes the value of a 0-d I64 buffer, which must lie in [min, max]: an error of data otherwise,
/// and the symbol is min.
struct KernelBind {
  unsigned symbol;
  BufferId value;
  SizeExpr min, max;
  unsigned site;
};
struct KernelBlock {
  std::vector<Nest> nests;
};

struct Region {
  std::vector<std::variant<KernelBlock, KernelFor, KernelIf, KernelWhile, KernelBind>> items;
};

struct KernelBody {
  std::vector<std::pair<BufferId, DType>> arguments; // all other buffers lie in scratch
  std::vector<KernelAxis> grid;
  Region body;
  unsigned symbolCount = 0; // with local ones
  /// Largest value of each local symbol that is a tile's size; nothing for other symbols.
  std::vector<std::optional<int64_t>> largest;
  std::string text; // of the program: what the kernel is specialised on
};

} // namespace tilewright::loop
