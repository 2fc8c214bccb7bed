//===- Verify.cpp - a kernel program, run after every pass ----------------===//

#include "Verify.h"

#include "Assemble.h"
#include "Plan.h"

#include "tilewright/Import/Importer.h"
#include "tilewright/Interpret/Compare.h"
#include "tilewright/Interpret/Interpret.h"
#include "tilewright/Interpret/Perturb.h"
#include "tilewright/Runtime/ObjectLoader.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

#include <bit>
#include <cstdlib>
#include <cstring>

namespace tilewright::compiler {

using namespace loop;
using interpret::Comparison;
using interpret::Contents;
using interpret::Difference;
using interpret::Freedom;
using interpret::Samples;

namespace {

/// What a pass may change: results, but for rounding. Everything else must stay as it is, bit by bit.
Freedom freedomOf(llvm::StringRef pass) {
  Freedom freedom;
  // Reductions of tiles of rank 2 go row by row; products are blocked, and fused where the level has the instruction.
  freedom.sums = pass == "tile-unroll" || pass == "tile-lower-contract";
  // Formulas instead of libm's functions.
  freedom.functions = pass == "expand-math";
  return freedom;
}

/// The reference computes values one by one, in its own order.
Freedom anyFreedom() {
  Freedom freedom;
  freedom.functions = freedom.sums = freedom.rounding = true;
  return freedom;
}

constexpr char kEmitted[] = "tile", kMachine[] = "machine code", kReference[] = "the program in the interpreter";

struct Stage {
  std::string name; // the pass
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Memory of one buffer, for all runs at one address, which is where the caller's is modulo 64.
class Block {
public:
  Block(size_t bytes, const void *like) : bytes(bytes) {
    owner.reset(std::aligned_alloc(64, (bytes + 255) / 64 * 64));
    if (!owner)
      throw std::bad_alloc();
    data = static_cast<uint8_t *>(owner.get()) + reinterpret_cast<uintptr_t>(like) % 64;
    std::memset(data, 0xff, bytes);
  }
  uint8_t *data;
  size_t bytes;

private:
  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> owner;
};

/// One launch at the sizes of the call.
struct Step {
  std::string name, symbol, source;
  std::vector<Stage> stages; // as emitted, then after each pass
  std::shared_ptr<const LoadedObject> object;
  const KernelStep *spec = nullptr;
  std::vector<int64_t> ints, offsets;
  int64_t grid = 0, scratchBytes = 0;
  std::map<size_t, DType> types; // of its buffers
};

struct Result {
  Contents contents; // of all buffers
  int64_t status = 0;
  KernelContext error{};
  uint64_t operations = 0;
};

class Verifier {
public:
  Verifier(std::string_view text, const CompileOptions &options, const VerifyRequest &request)
      : options(options), request(request), target(host::HostTarget::get(options.level)),
        plan(makePlan(text, options, [](const char *) {})) {
    if (!plan->isKernel)
      throw importer::ImportError("invalid", "", "", "what is verified is a kernel program, this is none",
                                  "docs/kernel-programs.md");
    compile();
    bind();
  }

  nlohmann::json run() {
    report = {
        {"version", 1}, {"kernel", plan->module.name}, {"level", options.level}, {"runs", nlohmann::json::array()}};
    report["machine"] = request.machine;
    report["difference"] = nullptr;
    if (!runEmitted())
      return report;
    for (size_t i = 0; i < steps.size(); ++i)
      if (!runPasses(i))
        return report;
    if (request.machine)
      runMachine();
    return report;
  }

private:
  const CompileOptions &options;
  const VerifyRequest &request;
  const host::HostTarget &target;
  host::PooledContext context; // outlives the modules
  std::unique_ptr<Plan> plan;
  Program program;
  std::vector<Step> steps;
  std::vector<Block> blocks;       // per buffer of the program
  std::vector<int64_t> scalarBits; // per argument
  std::vector<Contents> before;    // each step, as emitted
  std::vector<Result> emitted;
  nlohmann::json report;

  //===--- Code ------------------------------------------------------------===//

  void inject(llvm::StringRef pass, mlir::ModuleOp module) {
    if (request.faultAfter == pass && !interpret::perturb(module, request.faultNumber))
      throw std::out_of_range("the kernel has less than " + std::to_string(request.faultNumber + 1) +
                              " constants and comparisons after " + request.faultAfter);
  }

  KernelOutcome compile(const PlannedStep &planned, Step &step) {
    const Nest &first = planned.group->members.front();
    if (planned.isExternal())
      throw importer::ImportError("unsupported", first.op, first.source, "is no code of ours: " + first.reason, "");
    step.name = planned.name;
    step.symbol = "tw_" + planned.name;
    step.source = first.source;
    std::string diagnostics;
    mlir::ScopedDiagnosticHandler handler(context.get(), [&](mlir::Diagnostic &diagnostic) {
      diagnostics += "; " + diagnostic.str();
      return mlir::success();
    });
    auto keep = [&](llvm::StringRef pass, mlir::ModuleOp module) {
      inject(pass, module);
      step.stages.push_back({pass.str(), mlir::OwningOpRef<mlir::ModuleOp>(module.clone())});
    };
    mlir::OwningOpRef<mlir::ModuleOp> module = planned.emit(*context, step.symbol);
    if (mlir::failed(mlir::verify(*module)))
      throw importer::ImportError("internal", first.op, first.source, "the kernel is not valid" + diagnostics, "");
    keep(kEmitted, *module);
    host::DumpOptions dump;
    dump.after = keep;
    llvm::Expected<host::ObjectCode> code = host::compileKernel(*module, target, dump);
    if (!code)
      throw importer::ImportError("internal", first.op, first.source,
                                  "compiling the kernel failed: " + llvm::toString(code.takeError()), "");
    auto kernel = std::make_shared<KernelCode>();
    kernel->name = step.name;
    kernel->symbol = code->symbol;
    kernel->object = std::move(code->bytes);
    if (request.machine)
      step.object = loadObject(kernel->object, step.name);
    return {kernel, true, 0, {}};
  }

  void compile() {
    std::vector<KernelOutcome> kernels;
    for (const PlannedStep &planned : plan->steps)
      kernels.push_back(compile(planned, steps.emplace_back()));
    program = assemble(plan->module, plan->steps, kernels, options.level);
  }

  //===--- Sizes and memory ------------------------------------------------===//

  std::vector<int64_t> symbolValues() const {
    std::vector<int64_t> values;
    for (const SymbolBinding &binding : program.symbols) {
      const VerifyRequest::Argument &argument = request.arguments[binding.input];
      values.push_back(binding.kind == SymbolBinding::InputSize     ? argument.sizes.at(binding.dim)
                       : binding.kind == SymbolBinding::InputStride ? argument.strides.at(binding.dim)
                                                                    : argument.integer);
    }
    return values;
  }

  static size_t extentOf(const InputSpec &input, const VerifyRequest::Argument &argument) {
    int64_t elements = 1;
    for (size_t d = 0; d < argument.sizes.size(); ++d) {
      if (argument.sizes[d] == 0)
        return 0;
      elements += (argument.sizes[d] - 1) * argument.strides[d];
    }
    return elements * sizeOf(input.dtype);
  }

  void bind() {
    if (request.arguments.size() != program.inputs.size())
      throw std::invalid_argument("the program takes " + std::to_string(program.inputs.size()) + " arguments, " +
                                  std::to_string(request.arguments.size()) + " are given");
    const std::vector<int64_t> symbols = symbolValues();
    for (size_t i = 0; i < program.inputs.size(); ++i)
      scalarBits.push_back(program.inputs[i].kind == InputSpec::ScalarFloat
                               ? std::bit_cast<int64_t>(request.arguments[i].number)
                               : request.arguments[i].integer);
    for (const BufferSpec &buffer : program.buffers) {
      const void *from = nullptr;
      size_t bytes = 0;
      if (buffer.kind == BufferSpec::Input) {
        const InputSpec &input = program.inputs[buffer.index];
        bool isTensor = input.kind == InputSpec::Tensor;
        from = isTensor ? request.arguments[buffer.index].data : &scalarBits[buffer.index];
        bytes = isTensor ? extentOf(input, request.arguments[buffer.index]) : sizeof(int64_t);
        blocks.emplace_back(bytes, isTensor ? from : nullptr);
      } else if (buffer.kind == BufferSpec::Constant) {
        from = program.constants[buffer.index].bytes.data();
        bytes = program.constants[buffer.index].bytes.size();
        blocks.emplace_back(bytes, nullptr);
      } else {
        blocks.emplace_back(static_cast<size_t>(buffer.bytes.evaluate(symbols)), nullptr);
      }
      if (bytes)
        std::memcpy(blocks.back().data, from, bytes);
    }
    for (size_t i = 0; i < steps.size(); ++i) {
      Step &step = steps[i];
      step.spec = &std::get<KernelStep>(program.steps[i]);
      step.grid = step.spec->grid.evaluate(symbols);
      for (size_t k = 0; k < step.spec->buffers.size(); ++k)
        step.types[step.spec->buffers[k]] = plan->steps[i].arguments.bufferTypes[k];
      if (step.grid <= 0)
        continue; // its integers may divide by zero
      step.scratchBytes = std::max<int64_t>(step.spec->scratchBytes.evaluate(symbols), 0);
      for (const SizeExpr &e : step.spec->ints)
        step.ints.push_back(e.evaluate(symbols));
      for (const SizeExpr &e : step.spec->offsets)
        step.offsets.push_back(e.evaluate(symbols));
    }
  }

  Contents contents() const {
    Contents all;
    for (const Block &block : blocks)
      all.emplace_back(block.data, block.data + block.bytes);
    return all;
  }

  void restore(const Contents &all) {
    for (size_t i = 0; i < blocks.size(); ++i)
      std::copy(all[i].begin(), all[i].end(), blocks[i].data);
  }

  //===--- Runs ------------------------------------------------------------===//

  /// Runs all grid points in three calls, so that one starts in the middle, each with fresh scratch.
  Result launch(const Step &step, const Contents &from, const std::function<int64_t(interpret::Call &)> &run) {
    restore(from);
    Result result;
    Block scratch(step.scratchBytes, nullptr);
    interpret::Call call;
    for (size_t k = 0; k < step.offsets.size(); ++k)
      call.buffers.push_back(blocks[step.spec->buffers[k]].data + step.offsets[k]);
    for (auto [buffer, type] : step.types)
      call.memory.push_back({blocks[buffer].data, blocks[buffer].bytes});
    call.ints = step.ints;
    call.scratchBytes = step.scratchBytes;
    call.context = &result.error;
    const int64_t cuts[] = {0, std::min<int64_t>(step.grid, 1), (step.grid + 1) / 2, step.grid};
    for (int part = 0; part < 3 && result.status == 0; ++part) {
      call.begin = cuts[part];
      call.end = cuts[part + 1];
      if (call.begin >= call.end)
        continue;
      std::memset(scratch.data, 0xff, scratch.bytes);
      result.error.scratch = scratch.data;
      result.status = run(call);
    }
    result.error.scratch = nullptr;
    result.contents = contents();
    return result;
  }

  Result runStage(const Step &step, const Stage &stage, const Contents &from, const Freedom &freedom,
                  uint64_t mostOperations) {
    interpret::Options settings;
    settings.target = {target.vectorBits / 8, target.fma, target.bf16};
    settings.freedom = freedom;
    settings.mostOperations = mostOperations;
    uint64_t operations = 0;
    Result result = launch(step, from, [&](interpret::Call &call) {
      interpret::Outcome outcome = interpret::run(*stage.module, step.symbol, call, settings);
      operations += outcome.operations;
      return outcome.status;
    });
    result.operations = operations;
    return result;
  }

  Result execute(const Step &step, const Contents &from) {
    KernelFunction function = step.object->function(step.symbol);
    return launch(step, from, [&](interpret::Call &call) {
      return function(call.buffers.data(), call.ints.data(), call.begin, call.end, call.context);
    });
  }

  /// Runs of a stage, which gave `plain`, that make use of what `freedom` allows.
  Samples samplesOf(const Step &step, const Stage &stage, const Contents &from, const Freedom &freedom,
                    const Contents &plain) {
    if (!freedom.functions && !freedom.sums && !freedom.rounding)
      return {};
    return {&plain, [&, freedom](uint64_t seed) -> std::optional<Contents> {
              Freedom mine = freedom;
              mine.seed = seed;
              Result result = runStage(step, stage, from, mine, kMostOperations);
              if (result.status)
                return std::nullopt;
              return result.contents;
            }};
  }

  /// Runs of all steps as emitted.
  Samples samplesOfProgram() {
    return {&emitted.back().contents, [&](uint64_t seed) -> std::optional<Contents> {
              Freedom freedom = anyFreedom();
              freedom.seed = seed;
              Contents state = before.front();
              for (const Step &step : steps) {
                Result result = runStage(step, step.stages.front(), state, freedom, kMostOperations);
                if (result.status)
                  return std::nullopt;
                state = std::move(result.contents);
              }
              return state;
            }};
  }

  //===--- Stages ----------------------------------------------------------===//

  static constexpr uint64_t kMostOperations = uint64_t(1) << 36;
  /// A stage has more operations than one before it, as vectors become loops; not so many more.
  static uint64_t mostOperations(uint64_t ofStageBefore) { return 1000 * ofStageBefore + 10000000; }

  void note(const Step *step, const char *stage, const char *equal, uint64_t operations) {
    report["runs"].push_back(
        {{"step", step ? step->name : ""}, {"stage", stage}, {"equal", equal}, {"operations", operations}});
  }

  void differ(const Step *step, const std::string &stage, const std::string &previous, nlohmann::json more) {
    more["step"] = step ? step->name : "";
    more["source"] = step ? step->source : "";
    more["stage"] = stage;
    more["previous"] = previous;
    report["difference"] = std::move(more);
  }

  std::string nameOf(size_t buffer) const {
    const BufferSpec &spec = program.buffers[buffer];
    if (spec.kind == BufferSpec::Input && !program.inputs[spec.index].name.empty())
      return program.inputs[spec.index].name;
    return (spec.kind == BufferSpec::Attached ? "packed weight " : "temporary ") + std::to_string(buffer);
  }

  /// The indices of an element of an argument; of other memory, or between a tensor's elements, its number.
  std::vector<int64_t> indexOf(size_t buffer, size_t element) const {
    const BufferSpec &spec = program.buffers[buffer];
    if (spec.kind != BufferSpec::Input)
      return {static_cast<int64_t>(element)};
    const VerifyRequest::Argument &argument = request.arguments[spec.index];
    std::vector<int64_t> index(argument.sizes.size(), 0);
    for (;;) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d)
        at += index[d] * argument.strides[d];
      if (at == static_cast<int64_t>(element))
        return index;
      size_t d = index.size();
      while (d > 0 && ++index[d - 1] == argument.sizes[d - 1])
        index[--d] = 0;
      if (d == 0)
        return {static_cast<int64_t>(element)};
    }
  }

  nlohmann::json describe(const Difference &d) const {
    return {{"kind", "value"},    {"buffer", nameOf(d.buffer)}, {"index", indexOf(d.buffer, d.element)},
            {"before", d.before}, {"after", d.after},           {"allowed", d.allowed},
            {"count", d.count}};
  }

  /// True if two runs of a step agree; else the report says how they do not.
  bool agree(const Step &step, const Result &x, const Result &y, const char *stage, const char *previous,
             const Samples &samples) {
    auto told = [](const Result &r) { return std::tuple(r.error.errorCode, r.error.errorIndex, r.error.errorBound); };
    auto text = [](const Result &r) {
      return r.error.errorCode ? "error " + std::to_string(r.error.errorCode - 1) + " of index " +
                                     std::to_string(r.error.errorIndex) + " below " + std::to_string(r.error.errorBound)
                               : std::string("no error");
    };
    if (told(x) != told(y) || (x.status != 0) != (y.status != 0)) {
      note(&step, stage, "differs", y.operations);
      differ(&step, stage, previous, {{"kind", "error"}, {"before", text(x)}, {"after", text(y)}});
      return false;
    }
    Comparison comparison;
    if (!x.status) // else the kernel ended somewhere, and what it had written by then is its own affair
      comparison = interpret::compare(x.contents, y.contents, step.types, samples);
    note(&step, stage, comparison.difference ? "differs" : comparison.sameBits ? "bits" : "tolerance", y.operations);
    if (comparison.difference)
      differ(&step, stage, previous, describe(*comparison.difference));
    return !comparison.difference;
  }

  /// The arguments after all steps, against those of a right run.
  bool agreeWithReference(const Contents &result, const char *stage, uint64_t operations) {
    Contents expected = result;
    std::map<size_t, DType> types;
    for (size_t i = 0; i < program.buffers.size(); ++i) {
      const BufferSpec &spec = program.buffers[i];
      if (spec.kind != BufferSpec::Input || !request.arguments[spec.index].expected || expected[i].empty())
        continue;
      std::memcpy(expected[i].data(), request.arguments[spec.index].expected, expected[i].size());
      types[i] = program.inputs[spec.index].dtype;
    }
    Comparison comparison = interpret::compare(expected, result, types, samplesOfProgram());
    const Step *only = steps.size() == 1 ? &steps.front() : nullptr;
    note(only, stage, comparison.difference ? "differs" : comparison.sameBits ? "bits" : "tolerance", operations);
    if (comparison.difference)
      differ(only, stage, kReference, describe(*comparison.difference));
    return !comparison.difference;
  }

  bool fails(const Step &step, const std::string &stage, const std::string &previous, const interpret::Fault &fault) {
    note(&step, stage.c_str(), "differs", 0);
    differ(&step, stage, previous, {{"kind", "fault"}, {"message", fault.what()}});
    return false;
  }

  bool runEmitted() {
    Contents state = contents();
    uint64_t operations = 0;
    for (const Step &step : steps) {
      before.push_back(state);
      try {
        emitted.push_back(runStage(step, step.stages.front(), state, {}, kMostOperations));
      } catch (const interpret::Fault &fault) {
        return fails(step, kEmitted, kReference, fault);
      }
      operations += emitted.back().operations;
      if (emitted.back().status) {
        note(&step, kEmitted, "differs", operations);
        differ(&step, kEmitted, kReference,
               {{"kind", "error"},
                {"before", "no error"},
                {"after", "error " + std::to_string(emitted.back().error.errorCode - 1) + " of index " +
                              std::to_string(emitted.back().error.errorIndex) + " below " +
                              std::to_string(emitted.back().error.errorBound)}});
        return false;
      }
      state = emitted.back().contents;
    }
    return steps.empty() || agreeWithReference(state, kEmitted, operations);
  }

  bool runPasses(size_t i) {
    const Step &step = steps[i];
    Result last = emitted[i];
    for (size_t s = 1; s < step.stages.size(); ++s) {
      const Stage &stage = step.stages[s], &previous = step.stages[s - 1];
      Result result;
      try {
        result = runStage(step, stage, before[i], {}, mostOperations(last.operations));
      } catch (const interpret::Fault &fault) {
        return fails(step, stage.name, previous.name, fault);
      }
      if (!agree(step, last, result, stage.name.c_str(), previous.name.c_str(),
                 samplesOf(step, previous, before[i], freedomOf(stage.name), last.contents)))
        return false;
      last = std::move(result);
    }
    if (!request.machine)
      return true;
    Result machine = execute(step, before[i]);
    return agree(step, last, machine, kMachine, step.stages.back().name.c_str(), {});
  }

  bool runMachine() {
    if (steps.empty())
      return true;
    Contents state = before.front();
    for (const Step &step : steps)
      state = execute(step, state).contents;
    return agreeWithReference(state, kMachine, 0);
  }
};

} // namespace

nlohmann::json verifyKernel(std::string_view program, const CompileOptions &options, const VerifyRequest &request) {
  return Verifier(program, options, request).run();
}

} // namespace tilewright::compiler
