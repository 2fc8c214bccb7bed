//===- CompilerApi.cpp - the compiler's door -------------------------------===//

#include "tilewright/Compiler/CompilerApi.h"

#include "tilewright/Compiler/Pipeline.h"
#include "tilewright/Import/Importer.h"
#include "tilewright/Target/Host/HostTarget.h"
#include "tilewright/Transforms/Emit.h"

#include <cstdlib>
#include <cstring>
#include <new>

using namespace tilewright;
using namespace tilewright::compiler;

namespace {

bool fill(tw_buffer *out, const void *data, size_t size) {
  if (!out)
    return true;
  out->data = static_cast<uint8_t *>(std::malloc(size ? size : 1));
  out->size = out->data ? size : 0;
  if (out->data)
    std::memcpy(out->data, data, size);
  return out->data;
}

int fail(tw_buffer *error, const std::string &kind, const std::string &op, const std::string &source,
         const std::string &message, const std::string &hint) {
  nlohmann::json text = {{"kind", kind}, {"op", op}, {"source", source}, {"message", message}, {"hint", hint}};
  std::string dumped = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  fill(error, dumped.data(), dumped.size());
  return 1;
}

CompileOptions parseOptions(std::string_view text) {
  CompileOptions options;
  nlohmann::json json = nlohmann::json::parse(text);
  options.level = json.value("cpu", options.level);
  options.threads = json.value("threads", options.threads);
  options.debug = json.value("debug", options.debug);
  options.dump = json.value("dump", options.dump);
  options.islands = json.value("fallback", std::string("warn")) != "error";
  if (!host::HostTarget::find(options.level))
    throw std::invalid_argument("unknown CPU level " + options.level);
  return options;
}

} // namespace

extern "C" {

int tw_compiler_compile(const char *graph, size_t graphSize, const char *options, size_t optionsSize,
                        tw_buffer *program, tw_buffer *report, tw_buffer *error) {
  for (tw_buffer *buffer : {program, report, error})
    if (buffer)
      *buffer = {nullptr, 0};
  const char *bug = "report it with the graph that TILEWRIGHT_DUMP=DIRECTORY writes";
  try {
    CompileResult result = compileGraph({graph, graphSize}, parseOptions({options, optionsSize}));
    std::vector<uint8_t> bytes = result.program.serialize();
    std::string text = result.report.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (!fill(program, bytes.data(), bytes.size()) || !fill(report, text.data(), text.size()))
      throw std::bad_alloc();
    return 0;
  } catch (const importer::ImportError &e) {
    return fail(error, e.kind, e.op, e.source, e.what(), e.hint);
  } catch (const loop::EmitError &e) {
    return fail(error, "unsupported", "", "", e.what(),
                "run the operator outside of the compiled function, or on another dtype");
  } catch (const graph::FormatError &e) {
    return fail(error, "invalid", "", "", e.what(), "docs/graph-format.md describes what is allowed");
  } catch (const std::exception &e) {
    return fail(error, "internal", "", "", e.what(), bug);
  } catch (...) { // the door lets nothing through
    return fail(error, "internal", "", "", "an unknown exception", bug);
  }
}

void tw_compiler_free(tw_buffer *buffer) {
  if (!buffer)
    return;
  std::free(buffer->data);
  *buffer = {nullptr, 0};
}

uint32_t tw_compiler_abi(void) { return TW_COMPILER_ABI; }
}
