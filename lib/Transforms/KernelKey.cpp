//===- KernelKey.cpp ------------------------------------------------------===//

#include "tilewright/Transforms/KernelKey.h"
#include "tilewright/Transforms/Domain.h"

#include <bit>

namespace tilewright::loop {

KernelKey::KernelKey(const Group &group, const Module &module) {
  for (BufferId b : group.local)
    localIndex.emplace(b, 0);
  unsigned locals = 0;
  for (const Nest &member : group.members) // numbered in the order of writing, so that equal groups agree
    for (BufferId b : writesOf(member))
      if (auto it = localIndex.find(b); it != localIndex.end())
        it->second = locals++;
  out = "outer";
  for (const SizeExpr &e : group.outer)
    size(e);
  out += " row";
  for (const SizeExpr &e : group.row)
    size(e);
  out += '\n';
  for (const Nest &member : group.members)
    nest(member);
  // Buffers that may be the same memory as another argument forbid reordering of loads and stores.
  out += "written-inputs";
  for (const Nest &member : group.members)
    for (BufferId b : writesOf(member))
      if (module.buffers[b].kind == Buffer::Input)
        out += ' ' + std::to_string(bufferIndex.at(b));
  out += '\n';
}

int KernelKey::integer(const SizeExpr &value) const {
  if (value.isConstant(0) || value.isConstant(1))
    return -1;
  return intIndex.at(value);
}

unsigned KernelKey::addInteger(const SizeExpr &value) {
  auto [it, fresh] = intIndex.try_emplace(value, args.ints.size());
  if (fresh)
    args.ints.push_back(value);
  return it->second;
}

void KernelKey::addBuffer(BufferId id, DType type) {
  auto [it, fresh] = bufferIndex.try_emplace(id, args.buffers.size());
  if (fresh) {
    args.buffers.push_back(id);
    args.bufferTypes.push_back(type);
    out += std::string(":") + std::string(nameOf(type));
  }
}

void KernelKey::size(const SizeExpr &value) {
  if (value.isConstant(0) || value.isConstant(1))
    out += value.isConstant(0) ? " =0" : " =1";
  else
    out += ' ' + std::to_string(addInteger(value));
}

void KernelKey::access(const Access &value, DType type) {
  for (const Access::Indirect &term : value.indirect)
    expr(term.index);
  if (auto local = localIndex.find(value.buffer); local != localIndex.end()) {
    out += " local" + std::to_string(local->second) + "[";
  } else {
    addBuffer(value.buffer, type);
    out += " b" + std::to_string(bufferIndex.at(value.buffer)) + "[";
  }
  size(value.offset);
  for (const SizeExpr &coef : value.coefs)
    size(coef);
  for (const Access::Indirect &term : value.indirect) {
    out += " {" + std::to_string(exprIndex.at(term.index)) + "}";
    size(term.stride);
  }
  out += "]";
}

void KernelKey::expr(ExprRef root) {
  visit(root, [&](ExprRef e) {
    if (exprIndex.count(e))
      return;
    std::string line = std::string(nameOf(e->op)) + " " + std::string(nameOf(e->type));
    switch (e->op) {
    case ScalarOp::Constant:
      line += " " + std::to_string(isFloat(e->type) ? std::bit_cast<int64_t>(e->floatValue) : e->intValue);
      break;
    case ScalarOp::Index:
      line += " " + std::to_string(e->intValue);
      break;
    case ScalarOp::CheckIndex: {
      auto [it, fresh] = siteIndex.try_emplace(e->intValue, args.sites.size());
      if (fresh)
        args.sites.push_back(e->intValue);
      line += " site " + std::to_string(it->second);
      break;
    }
    default:
      break;
    }
    for (ExprRef arg : e->args)
      line += " %" + std::to_string(exprIndex.at(arg));
    out += line;
    if (e->op == ScalarOp::Size || e->op == ScalarOp::CheckIndex)
      size(e->size);
    if (e->op == ScalarOp::Load)
      access(e->access, e->type);
    out += '\n';
    exprIndex.emplace(e, exprIndex.size());
  });
  out += "=> %" + std::to_string(exprIndex.at(root));
}

void KernelKey::nest(const Nest &nest) {
  out += "nest " + std::to_string(nest.kind);
  for (const SizeExpr &e : nest.domain)
    size(e);
  out += " reduced " + std::to_string(nest.reduced) + "\n";
  if (nest.kind == Nest::Reduction) {
    out += std::string(nameOf(nest.reduce)) + " ";
    expr(nest.body);
    bool index = nest.reduce == ReduceKind::ArgMax || nest.reduce == ReduceKind::ArgMin;
    access(nest.target, index ? DType::I64 : nest.body->type);
    out += '\n';
  }
  if (nest.kind == Nest::Contraction) {
    access(nest.lhs, nest.operandType);
    // The right operand is read by the kernel that packs it; here only whether panels differ by batch matters.
    out += " rhs";
    for (size_t d = 0; d + 3 < nest.domain.size(); ++d)
      out += nest.rhs.coefs[d].isConstant(0) ? '0' : 'b';
    out += '\n';
  }
  for (const Store &store : nest.stores) {
    expr(store.value);
    access(store.access, store.value->type);
    if (store.atomicAdd)
      out += " atomic";
    out += '\n';
  }
}

std::string kernelName(const Group &group) {
  std::string name;
  for (const Nest &member : group.members) {
    std::string op = member.op;
    for (size_t at; (at = op.find("aten.")) != std::string::npos;)
      op.erase(at, 5);
    for (char &c : op)
      if (!isalnum(static_cast<unsigned char>(c)))
        c = '_';
    if (!name.empty() && name.ends_with(op))
      continue;
    name += (name.empty() ? "" : "_") + op;
  }
  if (name.size() > 64)
    name.resize(64);
  return name;
}

} // namespace tilewright::loop
