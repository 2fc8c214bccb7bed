//===- CompilerApi.cpp - the compiler's door -------------------------------===//

#include "tilewright/Compiler/CompilerApi.h"

#include "Verify.h"

#include "tilewright/Compiler/Pipeline.h"
#include "tilewright/Import/Importer.h"
#include "tilewright/Target/Host/HostTarget.h"
#include "tilewright/Transforms/Emit.h"

#include <cstdlib>
#include <cstring>
#include <functional>
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

VerifyRequest parseRequest(std::string_view text, const void *const *arguments, const void *const *expected) {
  VerifyRequest request;
  nlohmann::json json = nlohmann::json::parse(text);
  for (const nlohmann::json &entry : json.at("arguments")) {
    size_t i = request.arguments.size();
    VerifyRequest::Argument &argument = request.arguments.emplace_back();
    argument.data = arguments[i];
    argument.expected = expected[i];
    argument.sizes = entry.value("sizes", argument.sizes);
    argument.strides = entry.value("strides", argument.strides);
    argument.integer = entry.value("int", argument.integer);
    argument.number = entry.value("float", argument.number);
  }
  request.machine = json.value("machine", request.machine);
  if (auto fault = json.find("fault"); fault != json.end()) {
    request.faultAfter = fault->at("after");
    request.faultNumber = fault->at("number");
  }
  return request;
}

void fillText(tw_buffer *out, const nlohmann::json &json) {
  std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (!fill(out, text.data(), text.size()))
    throw std::bad_alloc();
}

/// Runs the body of an entry; what it throws becomes `error`.
int guarded(std::initializer_list<tw_buffer *> results, tw_buffer *error, const std::function<void()> &body) {
  for (tw_buffer *buffer : results)
    if (buffer)
      *buffer = {nullptr, 0};
  if (error)
    *error = {nullptr, 0};
  const char *bug = "report it with the graph that TILEWRIGHT_DUMP=DIRECTORY writes";
  try {
    body();
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

} // namespace

extern "C" {

int tw_compiler_compile(const char *graph, size_t graphSize, const char *options, size_t optionsSize,
                        tw_buffer *program, tw_buffer *report, tw_buffer *error) {
  return guarded({program, report}, error, [&] {
    CompileResult result = compileGraph({graph, graphSize}, parseOptions({options, optionsSize}));
    std::vector<uint8_t> bytes = result.program.serialize();
    fillText(report, result.report);
    if (!fill(program, bytes.data(), bytes.size()))
      throw std::bad_alloc();
  });
}

int tw_compiler_verify(const char *program, size_t programSize, const char *options, size_t optionsSize,
                       const void *const *arguments, const void *const *expected, tw_buffer *report, tw_buffer *error) {
  return guarded({report}, error, [&] {
    std::string_view text(options, optionsSize);
    fillText(report, verifyKernel({program, programSize}, parseOptions(text), parseRequest(text, arguments, expected)));
  });
}

void tw_compiler_free(tw_buffer *buffer) {
  if (!buffer)
    return;
  std::free(buffer->data);
  *buffer = {nullptr, 0};
}

uint32_t tw_compiler_abi(void) { return TW_COMPILER_ABI; }
}
