//===- tilewright-ops.cpp - what the importer knows ------------------------===//
//
// tilewright-ops                   the operators that have an entry, one a line
// tilewright-ops --literals        the same as C++ string literals, for inclusion in an array
// tilewright-ops --results [FILE]  imports graph descriptions, one JSON a line, and prints for each one line of JSON:
// the
//                                  results with dtype, sizes and strides, the checks, and which operators became
//                                  islands. A line {"graph": ..., "symbols": [...], "inputs": [files], "outputs":
//                                  [files]} is also interpreted: inputs are read from, outputs and mutated inputs
//                                  written to raw files
//
//===----------------------------------------------------------------------===//
#include "LoopInterpreter.h"
#include "tilewright/Import/Importer.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <iostream>
#include <string_view>

using namespace tilewright;
using Json = nlohmann::ordered_json;

static Json texts(const std::vector<SizeExpr> &values) {
  Json list = Json::array();
  for (const SizeExpr &e : values) {
    if (std::optional<int64_t> c = e.constant())
      list.push_back(*c);
    else
      list.push_back(e.str());
  }
  return list;
}

static loop::Bytes readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return loop::Bytes(std::istreambuf_iterator<char>(file), {});
}

static void writeFile(const std::string &path, const loop::Bytes &bytes) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
}

static void run(const loop::Module &module, const Json &request) {
  std::vector<loop::Bytes> inputs;
  for (const std::string path : request.at("inputs"))
    inputs.push_back(readFile(path));
  std::vector<loop::Bytes> outputs = loop::interpret(module, inputs, request.at("symbols").get<std::vector<int64_t>>());
  for (size_t i = 0; i < outputs.size(); ++i)
    writeFile(request.at("outputs").at(i), outputs[i]);
  for (size_t i = 0; i < inputs.size(); ++i)
    writeFile(request.at("inputs").at(i), inputs[i]);
}

static Json results(const std::string &line) {
  Json report;
  try {
    const Json request = Json::parse(line);
    const bool interprets = request.contains("graph");
    const loop::Module module = importer::importGraph(graph::Graph::parse(interprets ? request["graph"].dump() : line));
    report["results"] = Json::array();
    for (const loop::Output &output : module.outputs) {
      const loop::Tensor &t = output.tensor;
      report["results"].push_back({{"dtype", nameOf(t.dtype)},
                                   {"sizes", texts(t.sizes)},
                                   {"strides", texts(t.strides)},
                                   {"alias", module.buffers[t.buffer].kind == loop::Buffer::Input}});
    }
    report["checks"] = module.checks.size();
    report["islands"] = Json::array();
    for (const loop::Nest &nest : module.nests)
      if (nest.kind == loop::Nest::External)
        report["islands"].push_back({{"op", nest.op}, {"reason", nest.reason}});
    if (interprets && report["islands"].empty())
      run(module, request);
  } catch (const importer::ImportError &error) {
    report = {{"error", error.kind}, {"op", error.op}, {"message", error.what()}};
  } catch (const graph::FormatError &error) {
    report = {{"error", "format"}, {"message", error.what()}};
  } catch (const std::runtime_error &error) {
    report["error"] = "run";
    report["message"] = error.what();
  }
  return report;
}

static int printResults(std::istream &in) {
  for (std::string line; std::getline(in, line);)
    if (!line.empty())
      std::cout << results(line).dump() << std::endl;
  return 0;
}

int main(int argc, char **argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--results") {
    if (argc < 3)
      return printResults(std::cin);
    std::ifstream file(argv[2]);
    if (!file) {
      std::cerr << argv[2] << ": cannot be read\n";
      return 1;
    }
    return printResults(file);
  }
  if (argc > 2 || (!mode.empty() && mode != "--literals")) {
    std::cerr << "usage: tilewright-ops [--literals | --results [FILE]]\n";
    return 1;
  }
  for (const std::string &name : importer::nativeOperators()) {
    if (mode == "--literals")
      std::cout << '"' << name << "\",\n";
    else
      std::cout << name << "\n";
  }
  return 0;
}
