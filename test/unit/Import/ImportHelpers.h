//===- ImportHelpers.h - graphs of one operator -----------------------------===//
#pragma once

#include "tilewright/Import/Importer.h"

#include <string>
#include <vector>

namespace tilewright::test {

/// {"kind": "tensor", ...} with sizes and strides as JSON lists.
inline std::string tensor(const std::string &dtype, const std::string &sizes, const std::string &strides) {
  return R"({"kind": "tensor", "dtype": ")" + dtype + R"(", "sizes": )" + sizes + R"(, "strides": )" + strides + "}";
}

/// A graph of symbols s0, s1, s2 (at least 2), the inputs, and one node whose first result is the output.
inline std::string oneNode(const std::vector<std::string> &inputs, const std::string &node) {
  std::string text = R"({"version": 1, "name": "t", "symbols": [{"name": "s0", "min": 2}, {"name": "s1", "min": 2},
                        {"name": "s2", "min": 2}], "inputs": [)";
  for (size_t i = 0; i < inputs.size(); ++i)
    text += (i ? ", " : "") + inputs[i];
  return text + R"(], "nodes": [)" + node + R"(], "outputs": [{"v": )" + std::to_string(inputs.size()) + "}]}";
}

inline loop::Module import(const std::string &text, const importer::ImportOptions &options = {}) {
  return importer::importGraph(graph::Graph::parse(text), options);
}

/// The error that importing gives; fails the test if there is none.
inline importer::ImportError importError(const std::string &text, const importer::ImportOptions &options = {}) {
  try {
    import(text, options);
  } catch (const importer::ImportError &error) {
    return error;
  }
  return {"none", "", "", "was accepted", ""};
}

inline std::string str(const std::vector<SizeExpr> &values) {
  std::string text;
  for (const SizeExpr &e : values)
    text += (text.empty() ? "" : ", ") + e.str();
  return text;
}

} // namespace tilewright::test
