//===- LoopPrint.cpp - text of the graph level ----------------------------===//
//
// The text has no parser: it is for people and for tests. Dimensions of a nest are i0, i1, ...; an access shows the
// linear address in elements, with a gather as {index}*stride.
//
//===----------------------------------------------------------------------===//
#include "tilewright/Import/KernelBody.h"
#include "tilewright/Import/LoopIR.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace tilewright::loop {
namespace {

std::string text(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value > 0 ? "inf" : "-inf";
  char buffer[32];
  for (int digits : {6, 9, 17}) { // the shortest of these that gives the value back
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    if (std::strtod(buffer, nullptr) == value)
      break;
  }
  std::string result = buffer;
  if (result.find_first_of(".en") == std::string::npos)
    result += ".0";
  return result;
}

std::string text(const std::vector<SizeExpr> &values) {
  std::string result = "[";
  for (size_t i = 0; i < values.size(); ++i)
    result += (i ? ", " : "") + values[i].str();
  return result + "]";
}

std::string factor(const SizeExpr &e) {
  std::string result = e.str();
  return result.find(' ') == std::string::npos && result[0] != '-' ? result : "(" + result + ")";
}

std::string text(DType type) { return std::string(nameOf(type)); }

/// Writes an expression; nodes that a caller has numbered are referred to.
class ExprWriter {
public:
  const std::unordered_map<ExprRef, unsigned> *numbers = nullptr;

  std::string reference(ExprRef e) const {
    if (numbers)
      if (auto found = numbers->find(e); found != numbers->end())
        return "%" + std::to_string(found->second);
    return definition(e);
  }

  std::string address(const Access &access) const {
    std::string result;
    const auto add = [&](const std::string &term) { result += (result.empty() ? "" : " + ") + term; };
    if (!access.offset.isConstant(0))
      add(access.offset.str());
    for (size_t d = 0; d < access.coefs.size(); ++d) {
      const SizeExpr &coef = access.coefs[d];
      const std::string index = "i" + std::to_string(d);
      if (coef.isConstant(1))
        add(index);
      else if (!coef.isConstant(0))
        add(factor(coef) + "*" + index);
    }
    for (const Access::Indirect &term : access.indirect)
      add("{" + reference(term.index) + "}" + (term.stride.isConstant(1) ? "" : "*" + factor(term.stride)));
    return "b" + std::to_string(access.buffer) + "[" + (result.empty() ? "0" : result) + "]";
  }

  std::string definition(ExprRef e) const {
    switch (e->op) {
    case ScalarOp::Constant:
      return (isFloat(e->type) ? text(e->floatValue) : std::to_string(e->intValue)) + ":" + text(e->type);
    case ScalarOp::Size:
      return "size(" + e->size.str() + ")";
    case ScalarOp::Index:
      return "i" + std::to_string(e->intValue);
    case ScalarOp::Load:
      return address(e->access) + ":" + text(e->type);
    case ScalarOp::Accumulator:
      return "acc:" + text(e->type);
    case ScalarOp::CheckIndex:
      return "check(" + reference(e->args[0]) + " < " + e->size.str() + ", site " + std::to_string(e->intValue) + ")";
    default:
      break;
    }
    std::string result = std::string(nameOf(e->op)) + "(";
    for (size_t i = 0; i < e->args.size(); ++i)
      result += (i ? ", " : "") + reference(e->args[i]);
    return result + "):" + text(e->type);
  }
};

class Printer {
public:
  std::string print(const Nest &nest) {
    printNest(nest);
    return out.str();
  }

  std::string print(const Module &module) {
    out << "module @" << module.name << "\n";
    for (size_t i = 0; i < module.symbolMin.size(); ++i)
      out << "  symbol s" << i << " >= " << module.symbolMin[i] << "\n";
    for (size_t i = 0; i < module.inputs.size(); ++i)
      printInput(module, i);
    for (size_t i = 0; i < module.buffers.size(); ++i)
      printBuffer(module, i);
    for (const Check &check : module.checks)
      printCheck(check);
    for (size_t i = 0; i < module.sites.size(); ++i)
      out << "  site " << i << ": " << module.sites[i].op << ": " << module.sites[i].message << "\n";
    for (const Nest &nest : module.nests)
      printNest(nest);
    for (size_t i = 0; i < module.outputs.size(); ++i)
      out << "  output " << i << ": " << (module.outputs[i].present ? tensor(module.outputs[i].tensor) : "none")
          << "\n";
    return out.str();
  }

private:
  static std::string tensor(const Tensor &t) {
    return "b" + std::to_string(t.buffer) + " " + text(t.dtype) + text(t.sizes) + " strides " + text(t.strides) +
           (t.offset.isConstant(0) ? "" : " offset " + t.offset.str());
  }

  void printInput(const Module &module, size_t i) {
    const Input &input = module.inputs[i];
    out << "  input " << i;
    if (!input.name.empty())
      out << " \"" << input.name << "\"";
    out << ": ";
    if (input.kind == Input::Tensor)
      out << "b" << input.buffer << " " << text(input.dtype) << text(input.sizes) << " strides " << text(input.strides)
          << (input.parameter ? " parameter" : "");
    else
      out << (input.kind == Input::Int ? "int" : "float") << " b" << input.buffer;
    if (input.symbol >= 0)
      out << " binds s" << input.symbol;
    out << "\n";
  }

  void printBuffer(const Module &module, size_t i) {
    const Buffer &buffer = module.buffers[i];
    if (buffer.kind == Buffer::Input)
      return; // shown with its input
    out << "  buffer b" << i << ": " << (buffer.kind == Buffer::Temp ? "temp " : "constant ") << text(buffer.dtype)
        << " x " << buffer.elements.str() << (buffer.partial ? " partial" : "") << "\n";
  }

  void printCheck(const Check &check) {
    static constexpr const char *names[] = {"==", "!=", "<=", "<"};
    out << "  check " << check.lhs.str() << " " << names[check.op] << " " << check.rhs.str() << ": " << check.message
        << "\n";
  }

  void printNest(const Nest &nest) {
    static constexpr const char *names[] = {"pointwise", "reduce", "contract", "attention", "external", "kernel"};
    out << "  " << names[nest.kind];
    if (nest.kind == Nest::Reduction)
      out << " " << nameOf(nest.reduce);
    if (nest.kind == Nest::External)
      out << " " << nest.function;
    if (!nest.domain.empty() || nest.kind <= Nest::Contraction) {
      out << " (";
      for (size_t d = 0; d < nest.domain.size(); ++d)
        out << (d == 0                                   ? ""
                : d == nest.domain.size() - nest.reduced ? "; "
                                                         : ", ")
            << "i" << d << " < " << nest.domain[d].str();
      out << ")";
    }
    out << " // " << nest.op << (nest.source.empty() ? "" : " at " + nest.source) << "\n";
    switch (nest.kind) {
    case Nest::Pointwise:
      printStores(nest, {});
      break;
    case Nest::Reduction:
      printStores(nest, nest.body);
      break;
    case Nest::Contraction:
      out << "    acc = " << ExprWriter().address(nest.lhs) << " * " << ExprWriter().address(nest.rhs) << " : "
          << text(nest.operandType) << "\n";
      printStores(nest, {});
      break;
    case Nest::Attention:
      for (const Tensor &operand : nest.operands)
        out << "    operand " << tensor(operand) << "\n";
      out << "    result " << tensor(nest.result) << " scale " << text(nest.scale) << (nest.causal ? " causal" : "")
          << "\n";
      break;
    case Nest::External:
      for (const Tensor &input : nest.externalInputs)
        out << "    input " << tensor(input) << "\n";
      for (const Tensor &output : nest.externalOutputs)
        out << "    output " << tensor(output) << "\n";
      if (!nest.externalInts.empty())
        out << "    ints " << text(nest.externalInts) << "\n";
      out << "    payload " << nest.payload << "\n    reason " << nest.reason << "\n";
      break;
    case Nest::Kernel:
      for (const KernelAxis &axis : nest.kernel->grid)
        printAxis("  grid", axis);
      printRegion(nest.kernel->body);
      break;
    }
  }

  void printAxis(const char *what, const KernelAxis &axis) {
    out << what << " " << axis.name << " = s" << axis.start;
    if (axis.size)
      out << ", s" << *axis.size;
    out << " in [" << axis.begin.str() << ", " << axis.end.str() << ") by " << axis.tile << "\n";
  }

  void printRegion(const Region &region) {
    for (const auto &item : region.items) {
      if (auto *block = std::get_if<KernelBlock>(&item)) {
        for (const Nest &inner : block->nests)
          printNest(inner);
      } else if (auto *loop = std::get_if<KernelFor>(&item)) {
        printAxis("  for", loop->axis);
        printRegion(*loop->body);
        out << "  end for\n";
      } else if (auto *choice = std::get_if<KernelIf>(&item)) {
        out << "  if b" << choice->condition << "\n";
        printRegion(*choice->then);
        out << "  else\n";
        printRegion(*choice->otherwise);
        out << "  end if\n";
      } else if (auto *again = std::get_if<KernelWhile>(&item)) {
        out << "  while\n";
        printRegion(*again->before);
        out << "  do b" << again->condition << "\n";
        printRegion(*again->body);
        out << "  end while\n";
      } else {
        const auto &bind = std::get<KernelBind>(item);
        out << "  s" << bind.symbol << " = b" << bind.value << " in [" << bind.min.str() << ", " << bind.max.str()
            << "]\n";
      }
    }
  }

  /// One line for each inner node and for loads that are used twice; then stores and body.
  void printStores(const Nest &nest, ExprRef body) {
    std::unordered_map<ExprRef, unsigned> uses, numbers;
    std::vector<ExprRef> order;
    const auto count = [&](ExprRef root) {
      visit(root, [&](ExprRef e) {
        order.push_back(e);
        for (ExprRef arg : e->args)
          ++uses[arg];
        for (const Access::Indirect &term : e->access.indirect)
          ++uses[term.index];
      });
    };
    for (const Store &store : nest.stores)
      count(store.value);
    if (body)
      count(body);
    ExprWriter writer;
    writer.numbers = &numbers;
    unsigned next = 0;
    for (ExprRef e : order) {
      const bool leaf = e->args.empty() && e->access.indirect.empty();
      if (numbers.contains(e) || (leaf && (e->op != ScalarOp::Load || uses[e] < 2)) || uses[e] < 1)
        continue;
      out << "    %" << next << " = " << writer.definition(e) << "\n";
      numbers[e] = next++;
    }
    for (const Store &store : nest.stores)
      out << "    " << writer.address(store.access) << (store.atomicAdd ? " += " : " = ")
          << writer.reference(store.value) << "\n";
    if (body)
      out << "    " << writer.address(nest.target) << " = " << nameOf(nest.reduce) << " of " << writer.reference(body)
          << "\n";
  }

  std::ostringstream out;
};

} // namespace

std::string str(ExprRef e) { return ExprWriter().definition(e); }

std::string str(const Nest &nest) { return Printer().print(nest); }

std::string Module::str() const { return Printer().print(*this); }

} // namespace tilewright::loop
