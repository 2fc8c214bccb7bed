//===- Bound.cpp - a program at certain sizes -----------------------------===//
#include "Bound.h"

#include "ArenaPlan.h"
#include "tilewright/Support/Switches.h"

#include <algorithm>
#include <stdexcept>

namespace tilewright {

[[noreturn]] static void refuse(const LoadedProgram &program, const std::string &what) {
  throw std::invalid_argument(program.program.name + ": " + what);
}

static std::string symbolValues(const SizeExpr &e, std::span<const int64_t> symbols) {
  std::string text;
  for (unsigned id : e.symbols())
    text += (text.empty() ? "" : ", ") + ("s" + std::to_string(id)) + " = " + std::to_string(symbols[id]);
  return text;
}

/// "384", or "768 (s0*384 with s0 = 2)".
static std::string wanted(const SizeExpr &e, int64_t value, std::span<const int64_t> symbols) {
  if (e.constant())
    return std::to_string(value);
  return std::to_string(value) + " (" + e.str() + " with " + symbolValues(e, symbols) + ")";
}

static std::string inputName(const LoadedProgram &program, size_t i) {
  const std::string &name = program.program.inputs[i].name;
  return "argument " + std::to_string(i) + (name.empty() ? "" : " (" + name + ")");
}

Bound::Bound(const LoadedProgram &program, std::vector<int64_t> symbolValues, std::span<const Argument> arguments)
    : owner(&program), symbols(std::move(symbolValues)) {
  SizeTable::Values values;
  try {
    values = program.sizes.evaluate(symbols);
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      Expected e;
      for (SizeTable::Id id : program.inputs[i].sizes) {
        e.sizes.push_back(values[id]);
        e.empty |= e.sizes.back() == 0;
      }
      for (SizeTable::Id id : program.inputs[i].strides)
        e.strides.push_back(values[id]);
      expected.push_back(std::move(e));
    }
    for (size_t i = 0; i < symbols.size(); ++i)
      if (program.program.symbols[i].kind == SymbolBinding::ScalarInput) {
        expected[program.program.symbols[i].input].bindsScalar = true;
        expected[program.program.symbols[i].input].scalar = symbols[i];
      }
    if (!matches(arguments)) {
      explain(arguments);
      refuse(program, "the arguments contradict each other");
    }
    checkRelations();
    bindOutputs(values);
    bindSteps(values);
    planMemory();
    describeRecipes();
    estimateWork();
  } catch (const std::overflow_error &e) {
    refuse(program, std::string("the sizes are too large: ") + e.what());
  } catch (const std::domain_error &e) {
    refuse(program, std::string("the sizes are not allowed: ") + e.what());
  }
}

void Bound::checkRelations() const {
  for (const SizeCheck &check : owner->program.checks) {
    int64_t lhs = check.lhs.evaluate(symbols), rhs = check.rhs.evaluate(symbols);
    bool holds = check.op == SizeCheck::Equal       ? lhs == rhs
                 : check.op == SizeCheck::NotEqual  ? lhs != rhs
                 : check.op == SizeCheck::LessEqual ? lhs <= rhs
                                                    : lhs < rhs;
    if (holds)
      continue;
    std::string message = check.message;
    for (auto [mark, value] : {std::pair("{lhs}", lhs), std::pair("{rhs}", rhs)})
      for (size_t at; (at = message.find(mark)) != std::string::npos;)
        message.replace(at, 5, std::to_string(value));
    refuse(*owner, message);
  }
}

void Bound::bindOutputs(const SizeTable::Values &values) {
  for (size_t i = 0; i < owner->outputs.size(); ++i) {
    const LoadedTensorSpec &spec = owner->outputs[i];
    auto &sizes = outputSizes.emplace_back(), &strides = outputStrides.emplace_back();
    for (size_t d = 0; d < spec.sizes.size(); ++d) {
      sizes.push_back(values[spec.sizes[d]]);
      if (sizes.back() < 0)
        refuse(*owner, "result " + std::to_string(i) + " would have the size " +
                           wanted(owner->program.outputs[i].sizes[d], sizes.back(), symbols) + " in dimension " +
                           std::to_string(d));
    }
    for (SizeTable::Id id : spec.strides)
      strides.push_back(values[id]);
    outputOffsets.push_back(values[spec.offset]);
  }
  for (size_t i = 0; i < owner->bufferBytes.size(); ++i) {
    bufferBytes.push_back(values[owner->bufferBytes[i]]);
    spared.push_back(values[owner->bufferSpared[i]] != 0);
    const BufferSpec &spec = owner->program.buffers[i];
    if (bufferBytes.back() < 0 || (spec.kind == BufferSpec::Constant &&
                                   bufferBytes.back() > int64_t(owner->program.constants[spec.index].bytes.size())))
      refuse(*owner, "internal error: buffer " + std::to_string(i) + " would have " +
                         wanted(spec.bytes, bufferBytes.back(), symbols) + " bytes");
  }
}

void Bound::bindSteps(const SizeTable::Values &values) {
  auto all = [&](const std::vector<SizeTable::Id> &ids) {
    std::vector<int64_t> result;
    result.reserve(ids.size());
    for (SizeTable::Id id : ids)
      result.push_back(values[id]);
    return result;
  };
  auto views = [&](const std::vector<LoadedView> &list) {
    std::vector<BoundView> result;
    for (const LoadedView &view : list)
      result.push_back({values[view.offset], all(view.sizes), all(view.strides)});
    return result;
  };
  for (size_t i = 0; i < owner->steps.size(); ++i) {
    if (const auto *call = std::get_if<LoadedExternalStep>(&owner->steps[i])) {
      steps.emplace_back(BoundExternalStep{views(call->inputs), views(call->outputs), all(call->ints)});
      continue;
    }
    const auto &kernel = std::get<LoadedKernelStep>(owner->steps[i]);
    BoundKernelStep step{};
    step.grid = values[kernel.grid];
    if (step.grid > 0) { // else nothing is run, and its integers may divide by zero
      step.grain = std::max<int64_t>(values[kernel.grain], 1);
      step.scratch = std::max<int64_t>(values[kernel.scratch], 0);
      step.bytes = values[kernel.bytes];
      step.flops = values[kernel.flops];
      step.offsets = all(kernel.offsets);
      step.ints = all(kernel.ints);
      for (size_t k = 0; k < step.offsets.size(); ++k) {
        uint32_t buffer = kernel.spec->buffers[k];
        // Inputs are views of memory whose extent nobody here knows.
        if (owner->program.buffers[buffer].kind != BufferSpec::Input &&
            (step.offsets[k] < 0 || step.offsets[k] > bufferBytes[buffer]))
          refuse(*owner, "internal error: step " + std::to_string(i) + " (" + kernel.code->name + ") has the offset " +
                             std::to_string(step.offsets[k]) + " in buffer " + std::to_string(buffer) + " of " +
                             std::to_string(bufferBytes[buffer]) + " bytes");
      }
    }
    steps.emplace_back(std::move(step));
  }
}

void Bound::planMemory() {
  std::vector<Lifetime> lifetimes;
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < bufferBytes.size(); ++i) {
    const BufferSpec &spec = owner->program.buffers[i];
    if (spec.kind == BufferSpec::Temp) {
      lifetimes.push_back({size_t(bufferBytes[i]), spec.firstStep, spec.lastStep});
      ids.push_back(i);
      temporaryBytes += bufferBytes[i];
    } else if (spec.kind == BufferSpec::Attached) {
      attachedBytes += bufferBytes[i];
    }
  }
  if (ids.empty())
    return;
  if (switches::alloc() == switches::AllocatorKind::Guard) {
    // An overrun into a neighbour in the arena would go unnoticed.
    for (size_t i = 0; i < ids.size(); ++i)
      temporaries.push_back({lifetimes[i].bytes, {{ids[i], 0}}});
    arenaBytes = temporaryBytes;
    return;
  }
  ArenaPlan plan = planArena(lifetimes);
  arenaBytes = plan.bytes;
  TemporaryPlan &arena = temporaries.emplace_back();
  arena.bytes = plan.bytes;
  for (size_t i = 0; i < ids.size(); ++i)
    arena.buffers.emplace_back(ids[i], plan.offsets[i]);
}

/// All that decides what a prologue writes, but for the weight itself.
void Bound::describeRecipes() {
  recipes.resize(bufferBytes.size());
  for (uint32_t i = 0; i < bufferBytes.size(); ++i) {
    if (owner->program.buffers[i].kind != BufferSpec::Attached)
      continue;
    std::vector<uint64_t> recipe{uint64_t(bufferBytes[i])};
    for (uint32_t s : owner->prologues[i]) {
      const auto &spec = *std::get<LoadedKernelStep>(owner->steps[s]).spec;
      const auto &step = std::get<BoundKernelStep>(steps[s]);
      const Digest &code = owner->kernelDigests[spec.kernel];
      recipe.insert(recipe.end(), {code.high, code.low, uint64_t(step.grid), spec.buffers.size(), step.ints.size()});
      for (uint32_t buffer : spec.buffers) {
        const BufferSpec &b = owner->program.buffers[buffer];
        recipe.push_back(b.kind);
        if (b.kind == BufferSpec::Constant) {
          const auto &bytes = owner->program.constants[b.index].bytes;
          recipe.push_back(hash64(bytes));
        }
      }
      for (const auto *list : {&step.offsets, &step.ints})
        recipe.insert(recipe.end(), list->begin(), list->end());
    }
    recipes[i] = digestOf(recipe.data(), recipe.size() * sizeof(uint64_t));
  }
}

/// Handing a task to a parked worker costs 6 to 8 us (lib/Runtime/Copy.cpp), so what takes less is run by the caller.
/// Rates of one core with cold caches: 10 GB/s, 20 GFLOP/s, and 0.3 us a step.
void Bound::estimateWork() {
  constexpr double kTinySeconds = 8e-6, kBytesPerSecond = 10e9, kFlopsPerSecond = 20e9, kStepSeconds = 0.3e-6;
  tinySegment.assign(steps.size(), false);
  double seconds = 0;
  for (size_t i = steps.size(); i-- > 0;) {
    const auto *step = std::get_if<BoundKernelStep>(&steps[i]);
    if (!step) {
      seconds = 0;
      continue;
    }
    double bytes = step->bytes;
    if (step->grid > 0 && step->bytes <= 0) // not stated: all of its buffers
      for (uint32_t buffer : std::get<LoadedKernelStep>(owner->steps[i]).spec->buffers)
        bytes += bufferBytes[buffer];
    if (step->grid > 0)
      seconds += kStepSeconds + bytes / kBytesPerSecond + step->flops / kFlopsPerSecond;
    tinySegment[i] = seconds < kTinySeconds;
  }
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

bool Bound::matches(std::span<const Argument> arguments) const {
  const auto &specs = owner->program.inputs;
  if (arguments.size() != specs.size())
    return false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Argument &a = arguments[i];
    const Expected &e = expected[i];
    if (specs[i].kind != InputSpec::Tensor) {
      if (e.bindsScalar && a.scalarInt != e.scalar)
        return false;
      continue;
    }
    if (a.dtype != specs[i].dtype || a.sizes.size() != e.sizes.size() || a.strides.size() != e.sizes.size())
      return false;
    for (size_t d = 0; d < e.sizes.size(); ++d)
      if (a.sizes[d] != e.sizes[d] || (a.strides[d] != e.strides[d] && e.sizes[d] > 1 && !e.empty))
        return false;
  }
  return true;
}

void Bound::explain(std::span<const Argument> arguments) const {
  const auto &specs = owner->program.inputs;
  for (size_t i = 0; i < specs.size(); ++i) {
    const Argument &a = arguments[i];
    const Expected &e = expected[i];
    std::string name = inputName(*owner, i);
    if (specs[i].kind != InputSpec::Tensor)
      continue; // what it binds is its own value
    for (size_t d = 0; d < e.sizes.size(); ++d)
      if (a.sizes[d] != e.sizes[d])
        refuse(*owner, name + " has the size " + std::to_string(a.sizes[d]) + " in dimension " + std::to_string(d) +
                           "; wanted is " + wanted(specs[i].sizes[d], e.sizes[d], symbols));
    for (size_t d = 0; d < e.sizes.size(); ++d)
      if (a.strides[d] != e.strides[d] && e.sizes[d] > 1 && !e.empty)
        refuse(*owner, name + " has the stride " + std::to_string(a.strides[d]) + " in dimension " + std::to_string(d) +
                           "; wanted is " + wanted(specs[i].strides[d], e.strides[d], symbols));
  }
}

/// Values of the symbols, after checks of all that does not need them.
static std::vector<int64_t> bindSymbols(const LoadedProgram &program, std::span<const Argument> arguments) {
  const auto &specs = program.program.inputs;
  if (arguments.size() != specs.size())
    refuse(program,
           std::to_string(arguments.size()) + " arguments came, " + std::to_string(specs.size()) + " are wanted");
  for (size_t i = 0; i < specs.size(); ++i) {
    const Argument &a = arguments[i];
    if (specs[i].kind != InputSpec::Tensor)
      continue;
    if (a.dtype != specs[i].dtype)
      refuse(program, inputName(program, i) + " has the dtype " + std::string(nameOf(a.dtype)) + "; wanted is " +
                          std::string(nameOf(specs[i].dtype)));
    if (a.sizes.size() != specs[i].sizes.size() || a.strides.size() != a.sizes.size())
      refuse(program, inputName(program, i) + " has " + std::to_string(a.sizes.size()) + " dimensions and " +
                          std::to_string(a.strides.size()) + " strides; wanted are " +
                          std::to_string(specs[i].sizes.size()));
    for (size_t d = 0; d < a.sizes.size(); ++d)
      if (a.sizes[d] < 0)
        refuse(program, inputName(program, i) + " has a negative size");
  }
  std::vector<int64_t> symbols;
  for (const SymbolBinding &b : program.program.symbols) {
    const Argument &a = arguments[b.input];
    int64_t value = b.kind == SymbolBinding::InputSize     ? a.sizes[b.dim]
                    : b.kind == SymbolBinding::InputStride ? a.strides[b.dim]
                                                           : a.scalarInt;
    if (value < 0)
      refuse(program, inputName(program, b.input) + " gives the symbol s" + std::to_string(symbols.size()) +
                          " the value " + std::to_string(value) + "; sizes and strides are not negative");
    symbols.push_back(value);
  }
  return symbols;
}

std::shared_ptr<const Bound> BoundCache::get(const LoadedProgram &program, std::span<const Argument> arguments) {
  // A forked child may find the lock taken for ever by a thread that it does not have; then it works without the cache.
  std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) {
    for (size_t i = 0; i < recent.size(); ++i)
      if (recent[i]->matches(arguments)) {
        std::rotate(recent.begin(), recent.begin() + i, recent.begin() + i + 1);
        return recent.front();
      }
    lock.unlock();
  }
  auto bound = std::make_shared<const Bound>(program, bindSymbols(program, arguments), arguments);
  if (lock.try_lock()) {
    if (recent.size() == kCapacity)
      recent.pop_back();
    recent.insert(recent.begin(), bound);
  }
  return bound;
}

} // namespace tilewright
