//===- ProgramValidate.cpp - programs from files are not trusted ----------===//
#include "ProgramValidate.h"

#include <set>
#include <stdexcept>

namespace tilewright {

namespace {

class Validator {
public:
  explicit Validator(const Program &program) : program(program) {}

  void run() {
    require(program.symbols.size() == program.symbolCount, "symbols", "a binding for each symbol is needed");
    for (size_t i = 0; i < program.symbols.size(); ++i)
      checkBinding(program.symbols[i], place("symbol", i));
    for (size_t i = 0; i < program.inputs.size(); ++i)
      checkInput(program.inputs[i], place("input", i));
    for (size_t i = 0; i < program.outputs.size(); ++i)
      checkOutput(program.outputs[i], place("output", i));
    for (size_t i = 0; i < program.checks.size(); ++i) {
      expression(program.checks[i].lhs, place("check", i));
      expression(program.checks[i].rhs, place("check", i));
    }
    for (size_t i = 0; i < program.buffers.size(); ++i)
      checkBuffer(program.buffers[i], place("buffer", i));
    for (size_t i = 0; i < program.kernels.size(); ++i)
      require(!program.kernels[i].symbol.empty(), place("kernel", i), "it has no symbol");
    for (size_t i = 0; i < program.steps.size(); ++i)
      std::visit([&](const auto &step) { checkStep(step, i, place("step", i)); }, program.steps[i]);
  }

private:
  static std::string place(const char *what, size_t i) { return std::string(what) + " " + std::to_string(i); }

  void require(bool holds, const std::string &where, const std::string &what) {
    if (!holds)
      throw std::runtime_error("invalid program \"" + program.name + "\": " + where + ": " + what);
  }

  void index(size_t i, size_t count, const std::string &where, const char *what) {
    if (i >= count)
      require(false, where, std::string(what) + " " + std::to_string(i) + " of " + std::to_string(count));
  }

  void expression(const SizeExpr &e, const std::string &where) {
    if (e.constant() || !seen.insert(e).second)
      return;
    for (unsigned id : e.symbols())
      index(id, program.symbolCount, where, "symbol");
  }
  void expressions(const std::vector<SizeExpr> &list, const std::string &where) {
    for (const SizeExpr &e : list)
      expression(e, where);
  }

  void checkBinding(const SymbolBinding &b, const std::string &where) {
    index(b.input, program.inputs.size(), where, "input");
    const InputSpec &input = program.inputs[b.input];
    if (b.kind == SymbolBinding::ScalarInput) {
      require(input.kind == InputSpec::ScalarInt, where,
              "it is bound to input " + std::to_string(b.input) + ", which is no integer");
      return;
    }
    require(input.kind == InputSpec::Tensor, where, "it is bound to a size of an input that is no tensor");
    index(b.dim, input.sizes.size(), where, "dimension");
  }

  void checkInput(const InputSpec &s, const std::string &where) {
    require(s.sizes.size() == s.strides.size(), where, "as many strides as sizes are needed");
    require(s.kind == InputSpec::Tensor || (s.sizes.empty() && !s.mutated), where,
            "a scalar has no sizes and is not written");
    expressions(s.sizes, where);
    expressions(s.strides, where);
  }

  void checkOutput(const OutputSpec &s, const std::string &where) {
    require(s.sizes.size() == s.strides.size(), where, "as many strides as sizes are needed");
    expressions(s.sizes, where);
    expressions(s.strides, where);
    expression(s.offset, where);
    if (s.kind == OutputSpec::AliasOfInput) {
      index(s.input, program.inputs.size(), where, "input");
      require(program.inputs[s.input].kind == InputSpec::Tensor, where, "it is an alias of a scalar");
    }
  }

  void checkBuffer(const BufferSpec &b, const std::string &where) {
    expression(b.bytes, where);
    switch (b.kind) {
    case BufferSpec::Input:
      return index(b.index, program.inputs.size(), where, "input");
    case BufferSpec::Output:
      index(b.index, program.outputs.size(), where, "output");
      return require(program.outputs[b.index].kind == OutputSpec::Fresh, where, "it is of an output that is an alias");
    case BufferSpec::Constant:
      return index(b.index, program.constants.size(), where, "constant");
    case BufferSpec::Temp:
      require(b.firstStep <= b.lastStep, where, "it ends before it begins");
      return index(b.lastStep, program.steps.size(), where, "step");
    case BufferSpec::Attached:
      index(b.attachedTo, program.inputs.size(), where, "input");
      expression(b.spared, where);
      return require(program.inputs[b.attachedTo].kind == InputSpec::Tensor, where, "it is attached to a scalar");
    }
  }

  void use(uint32_t buffer, size_t step, const std::string &where) {
    index(buffer, program.buffers.size(), where, "buffer");
    const BufferSpec &b = program.buffers[buffer];
    if (b.kind == BufferSpec::Temp && (step < b.firstStep || step > b.lastStep))
      require(false, where,
              "it uses buffer " + std::to_string(buffer) + ", which lives from step " + std::to_string(b.firstStep) +
                  " to " + std::to_string(b.lastStep));
  }

  void checkStep(const KernelStep &s, size_t i, const std::string &where) {
    index(s.kernel, program.kernels.size(), where, "kernel");
    require(s.offsets.size() == s.buffers.size(), where, "as many offsets as buffers are needed");
    for (uint32_t buffer : s.buffers)
      use(buffer, i, where);
    expressions(s.offsets, where);
    expressions(s.ints, where);
    for (const SizeExpr *e : {&s.grid, &s.grain, &s.scratchBytes, &s.bytesMoved, &s.flops})
      expression(*e, where);
    if (s.role == KernelStep::Plain)
      return;
    index(s.attachedBuffer, program.buffers.size(), where, "buffer");
    require(program.buffers[s.attachedBuffer].kind == BufferSpec::Attached, where,
            "it has a part in a buffer that is not attached");
    if (s.role == KernelStep::Packs) {
      // It is skipped while the weight stands, so it may depend on nothing else.
      for (uint32_t buffer : s.buffers) {
        const BufferSpec &b = program.buffers[buffer];
        bool weight = b.kind == BufferSpec::Input && b.index == program.buffers[s.attachedBuffer].attachedTo;
        require(weight || b.kind == BufferSpec::Constant || buffer == s.attachedBuffer, where,
                "a step that packs an input uses buffer " + std::to_string(buffer) + ", which is not that input");
      }
    }
  }

  void checkStep(const ExternalStep &s, size_t i, const std::string &where) {
    require(!s.function.empty(), where, "the external function has no name");
    for (const auto *views : {&s.inputs, &s.outputs})
      for (const TensorView &view : *views) {
        use(view.buffer, i, where);
        require(view.sizes.size() == view.strides.size(), where, "as many strides as sizes are needed");
        expression(view.offset, where);
        expressions(view.sizes, where);
        expressions(view.strides, where);
      }
    expressions(s.ints, where);
  }

  const Program &program;
  std::set<SizeExpr> seen;
};

} // namespace

void validate(const Program &program) { Validator(program).run(); }

} // namespace tilewright
