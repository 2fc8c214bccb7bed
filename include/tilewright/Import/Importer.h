//===- Importer.h - graph descriptions become loop nests ---------*- C++ -*-===//
//
// An operator's meaning stands in exactly one place: its entry in lib/Import/Ops. The importer walks the nodes in
// order, lets each entry emit nests, and copies results to where outputs and mutations want them.
//
// An operator without an entry, or a use that its entry does not cover (a complex dtype, say), becomes an *island*: an
// External nest of the function "torch.aten" that says why in `reason`. See docs/graph-format.md for its payload.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Graph/Graph.h"
#include "tilewright/Import/LoopIR.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace tilewright::importer {

struct ImportOptions {
  /// false: what would be an island is an error (TILEWRIGHT_FALLBACK=error).
  bool islands = true;
};

/// what() is the message. The compiler's door hands the fields on.
struct ImportError : std::runtime_error {
  ImportError(std::string kind, std::string op, std::string source, const std::string &message, std::string hint)
      : std::runtime_error(message), kind(std::move(kind)), op(std::move(op)), source(std::move(source)),
        hint(std::move(hint)) {}
  std::string kind; // "unsupported": PyTorch could run it; "invalid": no meaning; "internal": a fault of the importer
  std::string op, source, hint;
};

/// Throws ImportError.
loop::Module importGraph(const graph::Graph &graph, const ImportOptions &options = {});

/// Names with overloads of all operators that have an entry, sorted.
std::vector<std::string> nativeOperators();

} // namespace tilewright::importer
