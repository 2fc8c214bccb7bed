//===- Ops.cpp - eager operators, free of torch ---------------------------===//
#include "tilewright/Ops/Ops.h"

#include "Signature.h"
#include "SignatureTable.h"
#include "tilewright/Runtime/ProgramCache.h"
#include "tilewright/Support/Hash.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>

namespace tilewright::ops {

static constexpr std::string_view kNativeOperators[] = {
#include "NativeOps.inc" // made by the build from lib/Import's registry
};

std::span<const std::string_view> nativeOperators() { return kNativeOperators; }

bool supported(std::string_view op) {
  return std::binary_search(std::begin(kNativeOperators), std::end(kNativeOperators), op);
}

namespace {

struct Counters {
  std::atomic<uint64_t> unsupported{0}, compiled{0}, nanoseconds{0};
};
Counters counters;

std::atomic<Compiler *> chosenCompiler{nullptr};
Compiler &compiler() {
  Compiler *chosen = chosenCompiler.load();
  return chosen ? *chosen : nativeCompiler();
}

SignatureTable &table() {
  static auto *instance = new SignatureTable; // calls may come from static destructors
  return *instance;
}

/// Reads the signature's program from the caches or has it compiled.
std::unique_ptr<const Known> make(const Signature &signature, uint64_t hash, bool inlined) {
  auto known = std::make_unique<Known>();
  known->key = std::string(signature.key());
  known->hash = hash;
  auto begin = std::chrono::steady_clock::now();
  CompileOptions options = CompileOptions::current();
  // An island would call the operator through PyTorch, which our caller does better, and counts.
  options.fallback = "error";
  try {
    CachedProgram program = ProgramCache::instance().get(signature.graph(), options, compiler());
    known->executable = std::move(program.executable);
    counters.compiled += program.origin == CachedProgram::Compiled;
  } catch (const CompileError &error) {
    if (error.kind == "internal")
      throw;
    if (signature.hasNumbers && !inlined) {
      known->inlineNumbers = true; // a number may decide about the code
    } else {
      // "invalid" too: PyTorch, asked next, says in its own words what is wrong.
      known->reason = std::make_shared<const std::string>(error.message);
      ++counters.unsupported;
    }
  }
  counters.nanoseconds += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  return known;
}

const Known &look(const Signature &signature, bool inlined) {
  std::string_view key = signature.key();
  uint64_t hash = hash64(key, inlined);
  if (const Known *known = table().find(key, hash))
    return *known;
  return *table().insert(make(signature, hash, inlined));
}

} // namespace

/// Fills a Prepared.
class Library {
public:
  static Prepared finish(const OpCall &call, const Signature &signature, const Known &known) {
    Prepared p;
    if (!known.executable) {
      p.why = known.reason;
      return p;
    }
    p.arguments.reserve(signature.inputs().size());
    for (const InputClass &input : signature.inputs()) {
      Argument &a = p.arguments.emplace_back();
      a.scalarInt = input.scalarInt;
      a.scalarFloat = input.scalarFloat;
      if (input.kind != InputClass::Tensor)
        continue;
      const TensorArgument &t = *input.tensor.tensor;
      a.data = t.data;
      a.sizes = t.sizes;
      a.strides = t.strides;
      a.dtype = t.dtype;
      a.epoch = t.epoch;
    }
    // What is written has no contents that could be kept.
    for (uint32_t w : signature.destinations())
      p.arguments[w].epoch = 0;
    p.sizes = known.executable->bind(p.arguments);
    p.executable = known.executable;
    addOutputs(call, signature, p);
    return p;
  }

  static Prepared refuse(std::string reason) {
    Prepared p;
    p.why = std::make_shared<const std::string>(std::move(reason));
    return p;
  }

private:
  /// Which tensor of the call an input is.
  static int32_t ordinal(const Signature &signature, uint32_t input) {
    int32_t tensors = 0;
    for (uint32_t occurrence : signature.occurrences()) {
      if (occurrence == input)
        break;
      tensors += signature.inputs()[occurrence].kind == InputClass::Tensor;
    }
    return tensors;
  }

  static void addOutputs(const OpCall &call, const Signature &signature, Prepared &p) {
    const Program &program = p.executable->program();
    p.outputCount = program.outputs.size();
    for (uint32_t r = 0; r < program.outputs.size(); ++r) {
      if (std::any_of(call.mutations.begin(), call.mutations.end(), [&](const Mutation &m) { return m.result == r; }))
        continue;
      const OutputSpec &spec = program.outputs[r];
      Output out{r, spec.dtype, p.sizes->outputSizes[r], p.sizes->outputStrides[r]};
      if (spec.kind == OutputSpec::AliasOfInput) {
        out.aliasOf = ordinal(signature, spec.input);
        out.offset = p.sizes->outputOffsets[r];
      }
      p.results.push_back(out);
    }
  }
};

Prepared prepare(const OpCall &call) {
  {
    Signature signature(call, false);
    if (signature.refusal)
      return Library::refuse(signature.refusal);
    const Known &known = look(signature, false);
    if (!known.inlineNumbers)
      return Library::finish(call, signature, known);
  }
  Signature signature(call, true);
  return Library::finish(call, signature, look(signature, true));
}

const std::string &Prepared::reason() const {
  static const std::string none;
  return why ? *why : none;
}

void Prepared::run(std::span<void *const> memory, Stream *stream) const {
  if (!executable)
    throw std::logic_error("run of an operator that has no program: " + reason());
  if (memory.size() != results.size())
    throw std::invalid_argument(executable->program().name + ": memory for " + std::to_string(memory.size()) +
                                " results came, " + std::to_string(results.size()) + " are wanted");
  OutputMemory few[8] = {};
  std::vector<OutputMemory> many;
  std::span<OutputMemory> outputs(few, std::min(outputCount, std::size(few)));
  if (outputCount > std::size(few)) {
    many.resize(outputCount);
    outputs = many;
  }
  for (size_t i = 0; i < results.size(); ++i)
    outputs[results[i].result].data = memory[i];
  executable->run(sizes, arguments, outputs, stream);
}

void setCompiler(Compiler &compiler) { chosenCompiler.store(&compiler); }

OpsStats stats() { return {table().size(), counters.unsupported, counters.compiled, counters.nanoseconds * 1e-9}; }

std::string describe(const OpCall &call) { return Signature(call, false).graph(); }

} // namespace tilewright::ops
