//===- Island.h - nodes that PyTorch runs ------------------------*- C++ -*-===//
#pragma once

#include "Module.h"

#include <string>

namespace tilewright::importer {

/// Adds an External nest for the node and fills its values from the described results. Throws ImportError if a result
/// that may be read is not described.
void importIsland(ModuleState &state, const graph::Node &node, const std::string &reason);

} // namespace tilewright::importer
