//===- GraphMode.cpp - the graph level on a graph description --------------===//

#include "GraphMode.h"

#include "tilewright/Import/Importer.h"
#include "tilewright/Target/Host/HostTarget.h"
#include "tilewright/Target/Host/TileTarget.h"
#include "tilewright/Transforms/Steps.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
namespace loop = tilewright::loop;

namespace tilewright {

static void printTiles(loop::Module &module, StringRef level) {
  std::vector<loop::Group> groups = loop::fuse(module).groups;
  host::PooledContext context;
  loop::TileTarget target = host::tileTarget(level, 2);
  for (const loop::PlannedStep &step : loop::planSteps(module, groups, target))
    if (!step.isExternal())
      outs() << **step.emit(*context, step.name) << "\n";
}

int graphMain(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::opt<std::string> graph("graph", cl::desc("what to print: nests, groups (after fusion) or tile"),
                             cl::init("groups"));
  cl::opt<std::string> input(cl::Positional, cl::desc("graph description (JSON)"), cl::init("-"));
  cl::opt<std::string> level("level", cl::desc("CPU level"), cl::init("avx512"));
  cl::opt<bool> islands("islands", cl::desc("operators without an entry become islands"), cl::init(true));
  cl::ParseCommandLineOptions(argc, argv, "Imports and fuses a graph description\n");

  auto buffer = MemoryBuffer::getFileOrSTDIN(input);
  if (!buffer) {
    errs() << input << ": " << buffer.getError().message() << "\n";
    return 1;
  }
  try {
    importer::ImportOptions options;
    options.islands = islands;
    loop::Module module = importer::importGraph(graph::Graph::parse(std::string_view((*buffer)->getBuffer())), options);
    if (graph == "nests") {
      outs() << module.str();
      return 0;
    }
    loop::lowerAttention(module);
    if (graph == "tile") {
      printTiles(module, level);
    } else if (graph == "groups") {
      loop::FusionResult result = loop::fuse(module);
      for (const loop::Group &group : result.groups)
        outs() << loop::str(group);
      for (const std::string &line : result.decisions)
        outs() << "// " << line << "\n";
    } else {
      errs() << "--graph=" << graph << ": nests, groups or tile\n";
      return 1;
    }
    return 0;
  } catch (const importer::ImportError &e) {
    errs() << "error: " << e.kind << ": " << e.op << ": " << e.what() << "; " << e.hint << "\n";
  } catch (const std::exception &e) {
    errs() << "error: " << e.what() << "\n";
  }
  return 1;
}

} // namespace tilewright
