//===- Fusion.h - from nests to the groups that become kernels ----*- C++ -*-===//
#pragma once

#include "tilewright/Import/LoopIR.h"

#include <set>
#include <string>
#include <vector>

namespace tilewright::loop {

/// What becomes one kernel (or one external call).
struct Group {
  enum Kind : uint8_t { Loops, Contraction, Attention, External, Kernel } kind = Loops;

  /// Loops: pointwise members over outer or outer ++ row, and reductions over outer ++ row that reduce row, in an order
  /// in which each may use what earlier ones stored at the same point. Other kinds: one nest (a contraction's stores
  /// hold its epilogue).
  std::vector<Nest> members;
  std::vector<SizeExpr> outer, row; // Loops
  /// Buffers that nobody outside the group reads: they live in registers or in the thread's scratch.
  std::set<BufferId> local;
};

struct FusionResult {
  std::vector<Group> groups;          // in execution order
  std::vector<std::string> decisions; // one line each: what was fused into what, or why two did not fuse
};

/// Attention nests that the fused kernel does not cover (it takes f32) become two contractions with a softmax between
/// them, whose division is in the second one's epilogue. Rows that are masked entirely give 0, as PyTorch's do.
void lowerAttention(Module &module);

/// Before: nests as imported. After: groups; every buffer that the graph needs is written by exactly the groups that
/// were asked to; values are those of the nests run in order. Removes dead nests, inlines cheap or single-use
/// producers, joins reductions and pointwise nests of a common row, and makes pointwise consumers epilogues of
/// contractions.
FusionResult fuse(Module &module);

// The steps of fuse, in order, for tests.

/// A nest that reads a buffer it writes, at another element, writes to a temporary first.
void breakSelfOverlap(Module &module);
void removeDeadNests(Module &module);
void inlineProducers(Module &module, std::vector<std::string> &decisions);
std::vector<Group> formGroups(Module &module, std::vector<std::string> &decisions);

std::string str(const Group &group);

} // namespace tilewright::loop
