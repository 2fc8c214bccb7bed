//===- HandWritten.cpp - kernels written by hand, as nodes of graphs ------===//
//
// Kernels of raised form come as ordinary operators. This is for the others: the structured program keeps a module of
// its own, in which it is planned and emitted; the graph says what its parameters and symbols are.
//
//===----------------------------------------------------------------------===//
#include "../Registry.h"
#include "../Views.h"

#include "tilewright/Import/KernelImporter.h"

namespace tilewright::importer {
namespace {

using kernel::Parameter;

/// Whether strides are those of the layout; a program reads tensors of any strides if it is told so.
Parameter::Layout layoutOf(const Tensor &t) {
  const Sizes contiguous = loop::contiguousStrides(t.sizes);
  bool same = true;
  for (size_t d = 0; d < t.rank(); ++d)
    same &= t.sizes[d].isConstant(1) || t.strides[d] == contiguous[d];
  if (same)
    return Parameter::Contiguous;
  return t.strides.back().isConstant(1) ? Parameter::Inner : Parameter::Strided;
}

/// Memory with the number that a kernel reads as a scalar.
Tensor scalarMemory(Builder &b, const Scalar &value, DType type) {
  if (const Tensor *t = std::get_if<Tensor>(&value.value); t && t->dtype == type)
    return *t;
  Tensor out = b.allocate(type, {});
  b.store(out, [&] { return b.value(value, type); });
  return out;
}

/// program: docs/kernel-programs.md. tensors and scalars: its parameters in order, without outputs. free: sizes of
/// outputs that these do not say, in the order of the program's symbols. Gives the outputs, then what InOut parameters
/// have become.
Results handWritten(Builder &b) {
  kernel::Program program = kernel::Program::parse(b.text("program"));
  std::vector<Tensor> given = b.tensors("tensors");
  std::vector<Scalar> numbers = b.scalars("scalars");
  Nest nest;
  nest.kind = Nest::Kernel;
  std::vector<std::optional<SizeExpr>> symbols(program.symbols.size());
  std::vector<SizeExpr> strides;

  // What symbols are: a size that is one of them, or an integer.
  size_t nextTensor = 0, nextNumber = 0;
  for (const Parameter &p : program.params) {
    if (p.kind == Parameter::Out)
      continue;
    if (p.kind == Parameter::Scalar) {
      const Scalar &value = numbers.at(nextNumber++);
      if (p.symbol && !symbols[*p.symbol]) {
        if (const auto *size = std::get_if<SizeExpr>(&value.value))
          symbols[*p.symbol] = *size;
        else if (const auto *number = std::get_if<int64_t>(&value.value))
          symbols[*p.symbol] = SizeExpr(*number);
      }
      continue;
    }
    const Tensor &t = given.at(nextTensor++);
    if (t.rank() != p.sizes.size() || t.dtype != p.dtype)
      throw Invalid(p.name + " is not of the rank and dtype that the kernel declares");
    for (size_t d = 0; d < p.sizes.size(); ++d)
      for (size_t s = 0; s < symbols.size(); ++s)
        if (!symbols[s] && p.sizes[d] == SizeExpr::symbol(s))
          symbols[s] = t.sizes[d];
  }
  const Sizes free = b.sizes("free");
  size_t nextFree = 0;
  for (size_t s = 0; s < symbols.size(); ++s) {
    if (!symbols[s] && nextFree == free.size())
      throw Unsupported("no argument says what the size " + program.symbols[s] + " is");
    if (!symbols[s])
      symbols[s] = free[nextFree++];
    nest.externalInts.push_back(*symbols[s]);
  }
  const std::vector<SizeExpr> values = nest.externalInts;

  Results outputs, changed;
  nextTensor = nextNumber = 0;
  for (Parameter &p : program.params) {
    Tensor t;
    if (p.kind == Parameter::Scalar) {
      t = scalarMemory(b, numbers.at(nextNumber++), isFloat(p.dtype) ? DType::F64 : DType::I64);
    } else {
      Sizes sizes;
      for (const SizeExpr &size : p.sizes)
        sizes.push_back(size.substitute(values));
      if (p.kind != Parameter::Out) {
        t = given.at(nextTensor++);
        for (size_t d = 0; d < sizes.size(); ++d)
          b.require(t.sizes[d], sizes[d],
                    "dimension " + std::to_string(d) + " of " + p.name + " is {lhs}, and must be {rhs}");
      }
      if (p.kind != Parameter::In) {
        Tensor out = b.allocate(p.dtype, sizes, nullptr, /*partial=*/true);
        if (p.kind == Parameter::InOut)
          b.assign(out, t);
        (p.kind == Parameter::Out ? outputs : changed).push_back(out);
        nest.externalOutputs.push_back(out);
        t = std::move(out);
      }
      p.layout = layoutOf(t);
      if (p.layout != Parameter::Contiguous)
        strides.insert(strides.end(), t.strides.begin(), t.strides.end() - (p.layout == Parameter::Inner));
    }
    program.text += p.layout == Parameter::Contiguous ? "c" : p.layout == Parameter::Inner ? "i" : "s";
    nest.externalInputs.push_back(std::move(t));
  }
  nest.externalInts.insert(nest.externalInts.end(), strides.begin(), strides.end());

  nest.inside = std::make_shared<loop::Module>(importKernel(program, /*raise=*/false).module);
  nest.kernel = nest.inside->nests.front().kernel;
  for (const loop::Check &check : nest.inside->checks)
    b.require(check.op, check.lhs.substitute(nest.externalInts), check.rhs.substitute(nest.externalInts),
              program.name + ": " + check.message);
  b.addNest(std::move(nest));
  outputs.insert(outputs.end(), changed.begin(), changed.end());
  return outputs;
}

} // namespace

void addHandWritten(Registry &r) {
  r.add({"tilewright.kernel.default"}, "program, tensors, scalars, free=[]", handWritten);
}

} // namespace tilewright::importer
