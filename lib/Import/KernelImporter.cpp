//===- KernelImporter.cpp - kernel programs become loop nests --------------===//
//
// One walk serves both ways down. A value is an expression over the outer dimensions (raised programs: the axes whose
// tile is one index) followed by its own dimensions; it becomes memory only where an operation needs it there, or
// where computing it again would cost more. Raising replaces every tile of an axis by the whole axis: `start` becomes
// its begin, `size` its extent. That is right only if nothing can tell one tile from several, which the rules marked
// (R) make sure of.
//
//===----------------------------------------------------------------------===//
#include "tilewright/Import/KernelImporter.h"

#include "Ex.h"

#include "tilewright/Import/KernelBody.h"
#include "tilewright/Import/NestAccess.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>

namespace tilewright::importer {

using kernel::Axis;
using kernel::Index;
using kernel::Parameter;
using kernel::Program;
using kernel::Statement;
using loop::Access;
using loop::Buffer;
using loop::BufferId;
using loop::IndexMap;
using loop::KernelAxis;
using loop::Nest;
using loop::ReduceKind;
using loop::Region;
using Sizes = std::vector<SizeExpr>;

namespace {

/// The program is not of the raised form.
struct NotRaised {
  std::string why;
};

/// Computing a value again costs less than memory up to here, in rough vector instructions.
constexpr unsigned kCheap = 4;

bool isHalf(DType type) { return type == DType::BF16 || type == DType::F16; }

class KernelBuilder {
public:
  KernelBuilder(const Program &program, bool raise)
      : program(program), pool(module.pool), raise(raise), values(program.valueCount), traits(program.valueCount) {}

  KernelModule run() {
    module.name = program.name;
    addParameters();
    for (const kernel::Relation &relation : program.relations)
      module.checks.push_back(
          {static_cast<loop::Check::Op>(relation.op), whole(relation.lhs), whole(relation.rhs), relation.message});
    for (uint32_t s = 0; s < program.symbolCount; ++s)
      substitution.push_back(s < program.symbols.size() ? SizeExpr::symbol(s) : SizeExpr::symbol(s + strideSymbols));
    KernelModule result;
    study(program.body, 0);
    body.text = program.text;
    body.symbolCount = program.symbolCount + strideSymbols;
    body.largest.resize(body.symbolCount);
    for (const Statement &s : program.body)
      if (s.op == "parallel")
        enterGrid(s);
    if (raise) {
      run(program.body);
    } else {
      region = &body.body;
      run(program.body);
      keepSharedBuffers(body.body);
      addKernelNest();
    }
    result.module = std::move(module);
    return result;
  }

private:
  struct Value {
    DType type = DType::F32;
    Sizes shape; // as written: with the tiles' symbols
    ExprRef expr = nullptr;
    std::optional<unsigned> tileStart; // (R) the start of a tile of this axis, not yet added to its indices
    bool fromProduct = false;          // (R) a matrix product takes part in it
  };
  /// What is known of a value before it is made.
  struct Traits {
    const Statement *made = nullptr;
    unsigned uses = 0;
    unsigned region = 0;     // that makes it
    bool usedInside = false; // in a region of its region
  };
  struct Param {
    BufferId buffer = 0;
    Sizes strides;
    bool written = false;
  };

  const Program &program;
  loop::Module module;
  ExprPool &pool;
  const bool raise;
  std::vector<Value> values;
  std::vector<Traits> traits;
  std::vector<Param> params;
  unsigned strideSymbols = 0, regions = 0;
  std::vector<SizeExpr> substitution;
  std::map<unsigned, const Axis *> axisOfStart, axisOfSize; // tiles' symbols
  const Statement *current = nullptr;
  // Raised: axes whose tile is one index are dimensions of every nest.
  Sizes outer;
  std::vector<unsigned> outerSymbols;
  SizeExpr gridPoints = 1;
  std::set<const Statement *> accumulated; // (R) reductions and products over their loop's axis
  std::map<const Statement *, const Axis *> accumulatedOver;
  // Structured.
  loop::KernelBody body;
  Region *region = nullptr;

  //===--- Errors ---===//

  [[noreturn]] void refuse(const std::string &message, const std::string &hint) const {
    throw ImportError("unsupported", program.name, program.where(current ? current->loc : kernel::Location{}), message,
                      hint);
  }
  [[noreturn]] void notRaised(const std::string &why) const {
    throw NotRaised{program.where(current ? current->loc : kernel::Location{}) + ": " + why};
  }
  [[noreturn]] void damaged(const std::string &message) const {
    throw ImportError("invalid", program.name, program.where(current ? current->loc : kernel::Location{}), message,
                      "docs/kernel-programs.md describes what is allowed");
  }

  //===--- Parameters ---===//

  void addParameters() {
    unsigned named = program.symbols.size();
    for (const Parameter &p : program.params)
      if (p.kind != Parameter::Scalar && p.layout != Parameter::Contiguous && !p.sizes.empty())
        strideSymbols += p.sizes.size() - (p.layout == Parameter::Inner);
    module.symbolCount = named + strideSymbols;
    module.symbolMin.assign(module.symbolCount, 0);
    unsigned next = named;
    for (const Parameter &p : program.params) {
      if (p.fresh) {
        addFreshOutput(p);
        continue;
      }
      loop::Input input;
      input.dtype = p.dtype;
      input.name = p.name;
      input.buffer = module.buffers.size();
      Buffer buffer;
      buffer.kind = Buffer::Input;
      buffer.input = module.inputs.size();
      Param param{input.buffer, {}, p.kind == Parameter::Out || p.kind == Parameter::InOut};
      if (p.kind == Parameter::Scalar) {
        input.kind = isFloat(p.dtype) ? loop::Input::Float : loop::Input::Int;
        input.dtype = isFloat(p.dtype) ? DType::F64 : DType::I64;
        input.symbol = p.symbol ? int(*p.symbol) : -1;
        buffer.elements = 1;
      } else {
        input.sizes = p.sizes;
        Sizes strides = loop::contiguousStrides(p.sizes);
        if (p.layout != Parameter::Contiguous)
          for (size_t d = 0; d + (p.layout == Parameter::Inner) < strides.size(); ++d)
            strides[d] = SizeExpr::symbol(next++);
        input.strides = param.strides = strides;
        buffer.elements = 1;
        for (size_t d = 0; d < strides.size(); ++d)
          buffer.elements = buffer.elements + (p.sizes[d] - 1) * strides[d];
        buffer.elements = SizeExpr::max(buffer.elements, 0);
        input.parameter = !param.written;
      }
      buffer.dtype = input.dtype;
      buffer.partial = param.written;
      module.inputs.push_back(std::move(input));
      module.buffers.push_back(std::move(buffer));
      params.push_back(std::move(param));
    }
  }

  void addFreshOutput(const Parameter &p) {
    loop::Tensor tensor{p.dtype, static_cast<BufferId>(module.buffers.size()), p.sizes,
                        loop::contiguousStrides(p.sizes), 0};
    Buffer buffer;
    buffer.dtype = p.dtype;
    buffer.elements = loop::productOf(p.sizes);
    buffer.partial = true;
    module.buffers.push_back(std::move(buffer));
    params.push_back({tensor.buffer, tensor.strides, true});
    module.outputs.push_back({std::move(tensor), true});
  }

  //===--- What is used where ---===//

  void use(uint32_t id, unsigned here) {
    ++traits[id].uses;
    traits[id].usedInside |= traits[id].region != here;
  }

  void make(uint32_t id, const Statement *s, unsigned here) {
    traits[id].made = s;
    traits[id].region = here;
  }

  void study(const std::vector<Statement> &list, unsigned here) {
    for (const Statement &s : list) {
      for (uint32_t arg : s.args)
        use(arg, here);
      for (const Index &index : s.index)
        if (index.value)
          use(*index.value, here);
      if (s.id)
        make(*s.id, &s, here);
      for (uint32_t id : s.ids)
        make(id, &s, here);
      if (s.op == "parallel" || s.op == "for" || s.op == "while" || s.op == "if") {
        // A parallel body is no loop for what stands before it: both run once per grid point.
        unsigned inside = s.op == "parallel" ? here : ++regions;
        for (const kernel::Carried &c : s.carried) {
          use(c.init, here);
          make(c.arg, &s, inside);
        }
        if (s.op == "while") {
          study(s.otherwise, inside);
          use(s.condition, inside);
        }
        study(s.body, inside);
        if (s.op == "if") {
          use(s.condition, here);
          study(s.otherwise, inside);
        }
        for (const kernel::Carried &c : s.carried) {
          use(c.next, inside);
          make(c.result, &s, here);
        }
        for (const kernel::Merge &m : s.merged) {
          use(m.thenValue, inside);
          use(m.elseValue, inside);
          make(m.result, &s, here);
        }
      }
    }
  }

  //===--- Sizes ---===//

  /// In the module's numbering, with raised tiles whole.
  SizeExpr whole(const SizeExpr &e) const { return substitution.empty() ? e : e.substitute(substitution); }
  Sizes whole(const Sizes &list) const {
    Sizes result;
    for (const SizeExpr &e : list)
      result.push_back(whole(e));
    return result;
  }

  static bool mentions(const SizeExpr &e, unsigned symbol) {
    std::vector<unsigned> all = e.symbols();
    return std::binary_search(all.begin(), all.end(), symbol);
  }
  const Axis *tileIn(const SizeExpr &e, const std::map<unsigned, const Axis *> &map) const {
    for (unsigned s : e.symbols())
      if (auto it = map.find(s); it != map.end() && it->second->tiling != Axis::Scalar)
        return it->second;
    return nullptr;
  }
  /// The axis whose tile's size is in e.
  const Axis *sizeIn(const SizeExpr &e) const { return tileIn(e, axisOfSize); }
  const Axis *startIn(const SizeExpr &e) const { return tileIn(e, axisOfStart); }

  /// e = rest + sum(coefs[q] * index of outer dimension q), in the module's numbering.
  struct Linear {
    SizeExpr rest;
    Sizes coefs;
  };
  Linear linear(const SizeExpr &e) const {
    Linear result{whole(e), Sizes(outer.size())};
    for (size_t q = 0; q < outer.size(); ++q) {
      unsigned id = outerSymbols[q];
      if (!mentions(result.rest, id))
        continue;
      Sizes with;
      for (unsigned s = 0; s < program.symbolCount + strideSymbols; ++s)
        with.push_back(SizeExpr::symbol(s));
      with[id] = 0;
      SizeExpr zero = result.rest.substitute(with);
      with[id] = 1;
      SizeExpr step = result.rest.substitute(with) - zero;
      if (!(zero + step * SizeExpr::symbol(id) == result.rest) || mentions(step, id))
        notRaised("an index that is not linear in " + program.name + "'s grid");
      result.rest = zero;
      result.coefs[q] = step;
    }
    return result;
  }

  Ex sizeValue(const SizeExpr &e) {
    Linear parts = linear(e);
    Ex sum(pool, pool.size(parts.rest));
    for (size_t q = 0; q < outer.size(); ++q)
      if (!parts.coefs[q].isConstant(0))
        sum = sum + Ex(pool, pool.index(q)) * Ex(pool, pool.size(parts.coefs[q]));
    return sum;
  }

  Sizes shapeOf(const Value &v) const {
    Sizes shape = whole(v.shape);
    for (const SizeExpr &e : shape)
      for (unsigned symbol : outerSymbols)
        if (mentions(e, symbol))
          notRaised("a shape that depends on where in the grid it is");
    return shape;
  }
  Sizes domainOf(const Value &v) const {
    Sizes domain = outer;
    for (SizeExpr &e : shapeOf(v))
      domain.push_back(std::move(e));
    return domain;
  }

  //===--- Nests ---===//

  void add(Nest nest) {
    nest.op = program.name;
    nest.source = program.where(current->loc);
    if (raise) {
      module.nests.push_back(std::move(nest));
      return;
    }
    if (region->items.empty() || !std::holds_alternative<loop::KernelBlock>(region->items.back()))
      region->items.emplace_back(loop::KernelBlock{});
    std::get<loop::KernelBlock>(region->items.back()).nests.push_back(std::move(nest));
  }

  /// Fresh memory for a value of the domain, addressed row by row, where dimension `slow` counts as the first.
  Access allocate(DType type, const Sizes &domain, bool partial = false, unsigned slow = 0) {
    Access access;
    access.buffer = module.buffers.size();
    Sizes order = domain;
    std::rotate(order.begin(), order.begin() + slow, order.begin() + slow + !domain.empty());
    access.coefs = loop::contiguousStrides(order);
    std::rotate(access.coefs.begin(), access.coefs.begin() + !domain.empty(),
                access.coefs.begin() + slow + !domain.empty());
    Buffer buffer;
    buffer.dtype = type;
    buffer.elements = loop::productOf(domain);
    buffer.partial = partial;
    module.buffers.push_back(std::move(buffer));
    return access;
  }

  void storeTo(const Access &access, const Value &v) {
    Nest nest;
    nest.domain = domainOf(v);
    nest.stores.push_back({access, v.expr});
    add(std::move(nest));
  }

  void materialise(Value &v, unsigned slow = 0) {
    Access access = allocate(v.type, domainOf(v), false, slow);
    storeTo(access, v);
    v.expr = pool.load(access, v.type);
  }

  //===--- Statements ---===//

  void run(const std::vector<Statement> &list) {
    for (const Statement &s : list) {
      const Statement *before = current;
      current = &s;
      run(s);
      current = before;
    }
  }

  void run(const Statement &s) {
    if (s.op == "parallel")
      return run(s.body);
    if (s.op == "for")
      return raise ? accumulate(s) : loopOver(s);
    if (s.op == "store" || s.op == "atomic_add")
      return store(s);
    if (s.op == "print")
      return; // the interpreter prints
    if (s.op == "if" || s.op == "while" || s.op == "bind" || s.op == "sort" || s.op == "assert" || s.op == "scan") {
      if (raise)
        notRaised(s.op + " at run time");
      if (s.op == "if")
        return choose(s);
      if (s.op == "while")
        return repeat(s);
      if (s.op == "bind")
        return bind(s);
      if (s.op == "sort")
        return sort(s);
      if (s.op == "assert")
        return assertion(s);
    }
    if (!s.id)
      damaged("unknown statement " + s.op);
    Value result{s.dtype, s.shape, nullptr, std::nullopt, false};
    for (uint32_t arg : s.args)
      result.fromProduct |= values[arg].fromProduct;
    compute(s, result);
    const Traits &t = traits[*s.id];
    bool trivial = result.expr->op == ScalarOp::Load || loop::costOf(result.expr) <= 1;
    if (!trivial && !result.tileStart && ((t.uses > 1 && loop::costOf(result.expr) > kCheap) || t.usedInside))
      materialise(result);
    values[*s.id] = std::move(result);
  }

  void compute(const Statement &s, Value &result) {
    if (s.op == "const")
      result.expr = isFloat(s.dtype)
                        ? pool.constantFloat(s.value.isFloat ? s.value.floatValue : double(s.value.intValue), s.dtype)
                        : pool.constantInt(s.value.intValue, s.dtype);
    else if (s.op == "size")
      size(s, result);
    else if (s.op == "scalar")
      result.expr = Ex(pool, pool.load({params[s.param].buffer, 0, Sizes(outer.size()), {}},
                                       isFloat(program.params[s.param].dtype) ? DType::F64 : DType::I64))
                        .to(s.dtype)
                        .get();
    else if (s.op == "iota")
      result.expr = pool.cast(pool.index(outer.size() + s.axis), s.dtype);
    else if (s.op == "view")
      view(s, result);
    else if (s.op == "reshape")
      reshape(s, result);
    else if (s.op == "concat")
      concat(s, result);
    else if (s.op == "reduce")
      reduce(s, result);
    else if (s.op == "matmul")
      matmul(s, result);
    else if (s.op == "scan")
      scan(s, result);
    else if (s.op == "load")
      load(s, result);
    else
      elementwise(s, result);
  }

  //===--- Elementwise ---===//

  static const std::map<std::string, ScalarOp> &scalarOps() {
    static const std::map<std::string, ScalarOp> ops = [] {
      std::map<std::string, ScalarOp> result;
#define X(e, name, operands, cost)                                                                                     \
  if (operands)                                                                                                        \
    result.emplace(name, ScalarOp::e);
      TILEWRIGHT_SCALAR_OPS(X)
#undef X
      result.erase("check");
      return result;
    }();
    return ops;
  }

  void elementwise(const Statement &s, Value &result) {
    auto found = scalarOps().find(s.op);
    if (found == scalarOps().end())
      damaged("unknown operation " + s.op);
    ScalarOp op = found->second;
    if (s.args.size() != loop::operandsOf(op))
      damaged(s.op + " takes " + std::to_string(loop::operandsOf(op)) + " operands");
    if (op == ScalarOp::Add && joinTileStart(s, result))
      return;
    std::vector<Ex> x;
    for (uint32_t arg : s.args)
      x.push_back(read(arg));
    if (op == ScalarOp::Cast) {
      result.expr = x[0].to(s.dtype).get();
      return;
    }
    if (op == ScalarOp::Bitcast) {
      result.expr = x[0].bitcast(s.dtype).get();
      return;
    }
    // bf16 and f16 compute in f32; picking one of two values does not compute.
    bool picks = op == ScalarOp::Select;
    DType type = s.dtype;
    if (!picks)
      for (Ex &v : x)
        if (isHalf(v.type()))
          v = v.to(DType::F32);
    if (!picks && isHalf(type))
      type = DType::F32;
    std::vector<ExprRef> refs;
    for (const Ex &v : x)
      refs.push_back(v.get());
    result.expr = Ex(pool, pool.make(op, type, std::move(refs))).to(s.dtype).get();
  }

  Ex read(uint32_t id) {
    const Value &v = values[id];
    if (v.tileStart)
      notRaised("the number of a tile's first element is used as a value"); // (R)
    return {pool, v.expr};
  }

  void size(const Statement &s, Value &result) {
    if (raise) {
      if (sizeIn(s.size))
        notRaised("the size of a tile is used as a value"); // (R)
      if (const Axis *axis = startIn(s.size)) {
        if (!(s.size == SizeExpr::symbol(axis->start)))
          notRaised("the number of a tile's first element is used as a value");
        result.tileStart = axis->start;
      }
    }
    result.expr = sizeValue(s.size).to(s.dtype).get();
  }

  /// (R) start + iota: the indices of an axis, whole or in tiles.
  bool joinTileStart(const Statement &s, Value &result) {
    if (!raise)
      return false;
    for (int side : {0, 1}) {
      const Value &start = values[s.args[side]], &indices = values[s.args[1 - side]];
      if (!start.tileStart)
        continue;
      unsigned size = axisOfStart.at(*start.tileStart)->size;
      const Statement *made = traits[s.args[1 - side]].made;
      while (made && (made->op == "view" || made->op == "cast"))
        made = traits[made->args[0]].made;
      if (indices.tileStart || !made || made->op != "iota" || !(made->shape[made->axis] == SizeExpr::symbol(size)))
        notRaised("the number of a tile's first element is used as a value");
      result.expr = pool.make(ScalarOp::Add, s.dtype, {start.expr, indices.expr});
      return true;
    }
    return false;
  }

  //===--- Views ---===//

  /// (R) A dimension that is a raised tile may only be passed on whole.
  void wholeTilesOnly(const Sizes &from, const std::vector<Index> &map, const Sizes &to) {
    if (!raise)
      return;
    for (size_t k = 0; k < from.size(); ++k)
      if (sizeIn(from[k]) && !(map[k].start.isConstant(0) && map[k].terms.size() == 1 &&
                               map[k].terms[0].step.isConstant(1) && to[map[k].terms[0].dim] == from[k]))
        notRaised("a part of a tile is taken");
  }

  void view(const Statement &s, Value &result) {
    const Value &source = values[s.args.at(0)];
    if (s.index.size() != source.shape.size())
      damaged("a view maps each dimension of its source");
    wholeTilesOnly(source.shape, s.index, s.shape);
    unsigned o = outer.size();
    IndexMap map;
    map.newRank = o + s.shape.size();
    map.offset.resize(o + source.shape.size());
    map.coef.assign(o + source.shape.size(), Sizes(map.newRank));
    for (unsigned q = 0; q < o; ++q)
      map.coef[q][q] = 1;
    for (size_t k = 0; k < s.index.size(); ++k) {
      Linear start = linear(s.index[k].start);
      map.offset[o + k] = start.rest;
      for (unsigned q = 0; q < o; ++q)
        map.coef[o + k][q] = start.coefs[q];
      for (const Index::Term &term : s.index[k].terms)
        map.coef[o + k][o + term.dim] = map.coef[o + k][o + term.dim] + whole(term.step);
    }
    result.tileStart = source.tileStart;
    result.expr = loop::remap(pool, source.expr, map);
  }

  void reshape(const Statement &s, Value &result) {
    Value source = values[s.args.at(0)];
    if (source.tileStart)
      read(s.args[0]);
    if (raise) {
      size_t same = 0;
      while (same < source.shape.size() && same < s.shape.size() && source.shape[same] == s.shape[same])
        ++same;
      for (; same < source.shape.size(); ++same)
        if (sizeIn(source.shape[same]))
          notRaised("a tile is reshaped");
    }
    materialise(source);
    Access access = source.expr->access;
    Sizes domain = outer;
    for (const SizeExpr &e : whole(s.shape))
      domain.push_back(e);
    access.coefs = loop::contiguousStrides(domain);
    result.expr = pool.load(access, s.dtype);
  }

  void concat(const Statement &s, Value &result) {
    if (raise && sizeIn(s.shape[s.axis]))
      notRaised("tiles are joined");
    Access access = allocate(s.dtype, domainOf(result), true);
    SizeExpr at = 0;
    for (uint32_t arg : s.args) {
      read(arg);
      Access part = access;
      part.offset = at * access.coefs[outer.size() + s.axis];
      storeTo(part, values[arg]);
      at = at + whole(values[arg].shape.at(s.axis));
    }
    result.expr = pool.load(access, s.dtype);
  }

  //===--- Reductions and products ---===//

  /// Old own dimension k becomes dimension place[k] of a domain of `rank` dimensions; outer ones stay.
  ExprRef placed(ExprRef e, const std::vector<unsigned> &place, unsigned rank) {
    IndexMap map;
    map.newRank = rank;
    map.offset.resize(outer.size() + place.size());
    map.coef.assign(outer.size() + place.size(), Sizes(rank));
    for (unsigned q = 0; q < outer.size(); ++q)
      map.coef[q][q] = 1;
    for (size_t k = 0; k < place.size(); ++k)
      map.coef[outer.size() + k][place[k]] = 1;
    return loop::remap(pool, e, map);
  }

  /// (R) A tile may be reduced as a whole axis only where the loop around it goes on doing so.
  void checkReduced(const Statement &s, const SizeExpr &extent) {
    const Axis *axis = raise ? sizeIn(extent) : nullptr;
    if (!axis)
      return;
    auto over = accumulatedOver.find(&s);
    if (over == accumulatedOver.end() || over->second != axis)
      notRaised("a tile is reduced by itself");
  }

  static ReduceKind reduceKind(const std::string &name) {
    static const std::pair<const char *, ReduceKind> kinds[] = {
        {"sum", ReduceKind::Sum}, {"prod", ReduceKind::Prod},     {"max", ReduceKind::Max},
        {"min", ReduceKind::Min}, {"argmax", ReduceKind::ArgMax}, {"argmin", ReduceKind::ArgMin},
        {"any", ReduceKind::Any}, {"all", ReduceKind::All}};
    for (const auto &[text, kind] : kinds)
      if (name == text)
        return kind;
    throw ImportError("invalid", "reduce", "", "unknown reduction " + name, "docs/kernel-programs.md lists them");
  }

  void reduce(const Statement &s, Value &result) {
    const Value &source = values[s.args.at(0)];
    ReduceKind kind = reduceKind(s.kind);
    bool index = kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin;
    if (raise && source.fromProduct)
      notRaised("a matrix product is reduced");
    if (index && s.axes.size() != 1)
      damaged(s.kind + " reduces one axis");
    std::vector<unsigned> place(source.shape.size());
    unsigned o = outer.size(), kept = o;
    for (size_t k = 0; k < place.size(); ++k)
      if (std::find(s.axes.begin(), s.axes.end(), k) == s.axes.end())
        place[k] = kept++;
    unsigned next = kept;
    Sizes shape = shapeOf(source), domain = outer;
    domain.resize(o + shape.size());
    for (uint32_t axis : s.axes)
      place.at(axis) = next++;
    for (size_t k = 0; k < place.size(); ++k) {
      domain[place[k]] = shape[k];
      if (place[k] >= kept)
        checkReduced(s, source.shape[k]);
    }
    Ex x = read(s.args[0]);
    DType type = index ? source.type : isHalf(s.dtype) ? DType::F32 : s.dtype;
    x = x.to(type);
    if (s.axes.empty()) {
      result.expr = x.to(s.dtype).get();
      return;
    }
    Nest nest;
    nest.kind = Nest::Reduction;
    nest.reduce = kind;
    nest.domain = domain;
    nest.reduced = s.axes.size();
    nest.body = placed(x.get(), place, domain.size());
    nest.target = allocate(index ? DType::I64 : type, Sizes(domain.begin(), domain.begin() + kept));
    Access target = nest.target;
    add(std::move(nest));
    result.expr = Ex(pool, pool.load(target, index ? DType::I64 : type)).to(s.dtype).get();
  }

  /// A value as strided memory of its type.
  Access inMemory(uint32_t id, DType type) {
    Value v = values[id];
    Ex x = read(id).to(type);
    v.expr = x.get();
    v.type = type;
    if (v.expr->op != ScalarOp::Load || !v.expr->access.indirect.empty()) {
      if (raise)
        notRaised("an operand of a matrix product is computed");
      // A transposed operand keeps its order: what it is computed from is read along its rows.
      unsigned rank = outer.size() + v.shape.size();
      int along = 0, across = 0;
      loop::forEachLoad(v.expr, [&](const Access &load, DType) {
        along += rank - 1 < load.coefs.size() && load.coefs[rank - 1].isConstant(1);
        across += rank - 2 < load.coefs.size() && load.coefs[rank - 2].isConstant(1);
      });
      materialise(v, across > along ? rank - 1 : 0);
      if (!traits[id].usedInside && v.type == values[id].type)
        values[id].expr = v.expr; // for the next product
    }
    return v.expr->access;
  }

  void matmul(const Statement &s, Value &result) {
    const Value &a = values[s.args.at(0)], &b = values[s.args.at(1)];
    if (a.type != b.type)
      damaged("matmul of " + std::string(nameOf(a.type)) + " and " + std::string(nameOf(b.type)));
    if (raise && (a.fromProduct || b.fromProduct))
      notRaised("a matrix product is multiplied again");
    DType operand = a.type == DType::I8 || a.type == DType::U8 ? DType::I32 : a.type;
    if (raise && operand != a.type)
      notRaised("operands of a matrix product are converted");
    unsigned o = outer.size(), lead = a.shape.size() - 2, rank = o + lead + 3;
    checkReduced(s, a.shape.back());
    Sizes sa = shapeOf(a), sb = shapeOf(b);
    Nest nest;
    nest.kind = Nest::Contraction;
    nest.reduced = 1;
    nest.operandType = operand;
    nest.domain = outer;
    nest.domain.insert(nest.domain.end(), sa.begin(), sa.end() - 1);
    nest.domain.push_back(sb.back());
    nest.domain.push_back(sa.back());
    auto spread = [&](const Access &access, unsigned first, unsigned second) {
      Access wide = access;
      wide.coefs.assign(rank, 0);
      for (unsigned d = 0; d < o + lead; ++d)
        wide.coefs[d] = access.coefs[d];
      wide.coefs[first] = access.coefs[o + lead];
      wide.coefs[second] = access.coefs[o + lead + 1];
      return wide;
    };
    DType accumulator = isHalf(operand) ? DType::F32 : operand;
    result.fromProduct = true;
    if (!raise && (sa[lead].isConstant(1) || sb.back().isConstant(1))) {
      productWithVector(s, std::move(nest), accumulator, result);
      return;
    }
    nest.lhs = spread(inMemory(s.args[0], operand), rank - 3, rank - 1);
    nest.rhs = spread(inMemory(s.args[1], operand), rank - 1, rank - 2);
    Access target = allocate(s.dtype, domainOf(result));
    nest.stores.push_back({target, Ex(pool, pool.accumulator(accumulator)).to(s.dtype).get()});
    add(std::move(nest));
    result.expr = pool.load(target, s.dtype);
  }

  /// A reduction: each element of the matrix is used once, which packing it would not pay.
  void productWithVector(const Statement &s, Nest nest, DType accumulator, Value &result) {
    unsigned rank = nest.domain.size(), lead = rank - 3 - outer.size();
    auto spread = [&](uint32_t id, unsigned first, unsigned second) {
      std::vector<unsigned> place;
      for (unsigned d = 0; d < lead; ++d)
        place.push_back(outer.size() + d);
      place.insert(place.end(), {first, second});
      bool isVector = nest.domain[first].isConstant(1) || nest.domain[second].isConstant(1);
      if (isVector && loop::costOf(read(id).get()) > kCheap)
        materialise(values[id]);
      return Ex(pool, placed(read(id).to(accumulator).get(), place, rank));
    };
    nest.kind = Nest::Reduction;
    nest.reduce = ReduceKind::Sum;
    nest.body = (spread(s.args[0], rank - 3, rank - 1) * spread(s.args[1], rank - 1, rank - 2)).get();
    nest.target = allocate(accumulator, Sizes(nest.domain.begin(), nest.domain.end() - 1));
    Access target = nest.target;
    add(std::move(nest));
    result.expr = Ex(pool, pool.load(target, accumulator)).to(s.dtype).get();
  }

  //===--- Memory ---===//

  /// True if the range lies in [0, size) whatever the sizes are, as far as its form shows.
  bool inRange(const Index &index, const Sizes &shape, const SizeExpr &size) const {
    if (index.terms.empty())
      return std::any_of(axisOfStart.begin(), axisOfStart.end(), [&](const auto &entry) {
        const auto &[start, axis] = entry;
        return axis->tiling == Axis::Scalar && index.start == SizeExpr::symbol(start) &&
               axis->begin.provablyNonNegative() && axis->end == size;
      });
    if (index.terms.size() != 1 || !index.terms[0].step.isConstant(1))
      return false;
    const SizeExpr &extent = shape[index.terms[0].dim];
    if (index.start.isConstant(0) && extent == size)
      return true;
    for (const auto &[start, axis] : axisOfStart)
      if (axis->tiling != Axis::Scalar && index.start == SizeExpr::symbol(start) &&
          extent == SizeExpr::symbol(axis->size) && axis->begin.provablyNonNegative() && axis->end == size)
        return true;
    return false;
  }

  /// Address of an element of a parameter over outer ++ shape; `inside` becomes the condition under which it exists.
  Access address(const Statement &s, const Sizes &shape, bool guarded, std::optional<Ex> &inside) {
    const Param &param = params[s.param];
    const Sizes &sizes = program.params[s.param].sizes;
    if (s.index.size() != sizes.size())
      damaged("parameter " + program.params[s.param].name + " has " + std::to_string(sizes.size()) + " dimensions");
    unsigned o = outer.size();
    Access access;
    access.buffer = param.buffer;
    access.coefs.resize(o + shape.size());
    for (size_t k = 0; k < sizes.size(); ++k) {
      const Index &index = s.index[k];
      const SizeExpr &stride = param.strides[k];
      if (index.value) {
        Ex at(pool, placedValue(*index.value, index.dims, o + shape.size()));
        unsigned site = module.sites.size();
        module.sites.push_back({program.name, program.where(s.loc),
                                "index {index} is out of bounds for dimension " + std::to_string(k) + " of " +
                                    program.params[s.param].name + " with size {bound}"});
        access.indirect.push_back({pool.checkIndex(at.to(DType::I64).get(), whole(sizes[k]), site), stride});
        continue;
      }
      if (raise)
        checkTileIndex(index, shape);
      Linear start = linear(index.start);
      if (guarded && !inRange(index, shape, sizes[k])) {
        Ex at = sizeValue(index.start);
        for (const Index::Term &term : index.terms)
          at = at + Ex(pool, pool.index(o + term.dim)) * Ex(pool, pool.size(whole(term.step)));
        Ex limit(pool, pool.size(whole(sizes[k])));
        Ex good = (at >= 0) & (at < limit);
        inside = inside ? *inside & good : good;
        access.indirect.push_back({max(min(at, limit - 1), 0).get(), stride});
        module.checks.push_back({loop::Check::LessEqual, SizeExpr::min(gridPoints, 1), whole(sizes[k]),
                                 program.where(s.loc) + ": dimension " + std::to_string(k) + " of " +
                                     program.params[s.param].name + " is empty, and elements around it are asked for"});
        continue;
      }
      access.offset = access.offset + start.rest * stride;
      for (unsigned q = 0; q < o; ++q)
        access.coefs[q] = access.coefs[q] + start.coefs[q] * stride;
      for (const Index::Term &term : index.terms)
        access.coefs[o + term.dim] = access.coefs[o + term.dim] + whole(term.step) * stride;
    }
    return access;
  }

  ExprRef placedValue(uint32_t id, const std::vector<uint32_t> &dims, unsigned rank) {
    std::vector<unsigned> place;
    for (uint32_t d : dims)
      place.push_back(outer.size() + d);
    return placed(read(id).get(), place, rank);
  }

  /// (R) A tile's start stands only where its indices are added to it.
  void checkTileIndex(const Index &index, const Sizes &shape) {
    if (sizeIn(index.start))
      notRaised("the size of a tile is part of an index");
    const Axis *axis = startIn(index.start);
    if (!axis)
      return;
    Sizes with;
    for (unsigned s = 0; s < program.symbolCount; ++s)
      with.push_back(SizeExpr::symbol(s));
    with[axis->start] = 0;
    SizeExpr rest = index.start.substitute(with);
    if (startIn(rest))
      notRaised("two tiles' starts in one index");
    for (const Index::Term &term : index.terms)
      if (shape[term.dim] == SizeExpr::symbol(axis->size) &&
          index.start == rest + term.step * SizeExpr::symbol(axis->start))
        return;
    notRaised("a tile's start without its indices in an index");
  }

  void load(const Statement &s, Value &result) {
    std::optional<Ex> inside;
    Access access = address(s, s.shape, s.fill.has_value(), inside);
    Ex x(pool, pool.load(access, s.dtype));
    if (inside) {
      Ex fill(pool, isFloat(s.dtype)
                        ? pool.constantFloat(s.fill->isFloat ? s.fill->floatValue : s.fill->intValue, s.dtype)
                        : pool.constantInt(s.fill->intValue, s.dtype));
      x = select(*inside, x, fill);
    }
    result.expr = x.get();
    if (params[s.param].written)
      materialise(result); // what is read here may be overwritten before it is used
  }

  /// Narrows a store to the elements that exist.
  void clip(const Statement &s, Sizes &domain, Access &access, Value &v) {
    const Parameter &p = program.params[s.param];
    unsigned o = outer.size();
    IndexMap map = IndexMap::identity(domain.size(), domain.size());
    for (size_t k = 0; k < s.index.size(); ++k) {
      const Index &index = s.index[k];
      if (!index.value && inRange(index, v.shape, p.sizes[k]))
        continue;
      if (index.value || index.terms.size() != 1 || !index.terms[0].step.isConstant(1))
        refuse("a clipped store to " + p.name + " whose dimension " + std::to_string(k) +
                   " is not walked element by element has no code",
               "store a tile that walks the dimension: an axis, plus a number if need be");
      Linear start = linear(index.start);
      for (const SizeExpr &coef : start.coefs)
        if (!coef.isConstant(0))
          notRaised("a clipped store that depends on where in the grid it is");
      unsigned d = o + index.terms[0].dim;
      SizeExpr low = SizeExpr::max(0 - start.rest, 0), high = SizeExpr::min(domain[d], whole(p.sizes[k]) - start.rest);
      domain[d] = SizeExpr::max(high - low, 0);
      map.offset[d] = low;
    }
    access = loop::remap(pool, access, map);
    v.expr = loop::remap(pool, v.expr, map);
  }

  void store(const Statement &s) {
    Value v = values[s.args.at(0)];
    read(s.args[0]);
    std::optional<Ex> inside;
    Access access = address(s, v.shape, false, inside);
    Nest nest;
    nest.domain = domainOf(v);
    if (s.clip)
      clip(s, nest.domain, access, v);
    bool atomic = s.op == "atomic_add";
    if (atomic && sizeOf(v.type) < 4)
      refuse("atomic_add of " + std::string(nameOf(v.type)) + " has no code", "add in f32, f64, i32 or i64");
    nest.stores.push_back({access, v.expr, atomic});
    add(std::move(nest));
  }

  //===--- Grids and raised loops ---===//

  void enterGrid(const Statement &s) {
    for (const Axis &axis : s.walked) {
      SizeExpr extent = SizeExpr::max(whole(axis.end) - whole(axis.begin), 0);
      gridPoints = gridPoints * extent;
      announce(axis);
      if (!raise) {
        body.grid.push_back(walk(axis));
        continue;
      }
      if (axis.tiling == Axis::Scalar) {
        if (!axis.begin.isConstant(0))
          substitution[axis.start] = SizeExpr::symbol(axis.start + strideSymbols) + whole(axis.begin);
        outer.push_back(extent);
        outerSymbols.push_back(axis.start + strideSymbols);
      } else {
        substitution[axis.start] = whole(axis.begin);
        substitution[axis.size] = extent;
      }
    }
  }

  void announce(const Axis &axis) {
    axisOfStart[axis.start] = &axis;
    if (axis.tiling != Axis::Scalar)
      axisOfSize[axis.size] = &axis;
  }

  /// (R) A loop of a raised program: every carried value is `op(carried, reduction over the loop's axis)`.
  void accumulate(const Statement &s) {
    const Axis &axis = s.walked.at(0);
    if (axis.tiling == Axis::Scalar)
      notRaised("a loop over single indices");
    announce(axis);
    std::set<uint32_t> loaded, stored;
    for (const Statement &inner : s.body) {
      if (inner.op == "load")
        loaded.insert(inner.param);
      if (inner.op == "store")
        stored.insert(inner.param);
    }
    for (uint32_t p : stored)
      if (loaded.contains(p))
        notRaised("a loop reads what it writes");
    for (const kernel::Carried &c : s.carried) {
      const Statement *next = traits[c.next].made;
      static const std::map<std::string, std::set<std::string>> pairs = {
          {"add", {"sum"}}, {"mul", {"prod"}}, {"max", {"max"}}, {"min", {"min"}}, {"or", {"any"}}, {"and", {"all"}}};
      auto pair = next ? pairs.find(next->op) : pairs.end();
      if (pair == pairs.end() || traits[c.arg].uses != 1)
        notRaised("a loop that carries more than a sum");
      uint32_t other = next->args[0] == c.arg ? next->args[1] : next->args[0];
      const Statement *part = traits[other].made;
      bool fits =
          (next->args[0] == c.arg || next->args[1] == c.arg) && part && traits[other].uses == 1 &&
          ((part->op == "reduce" && pair->second.contains(part->kind)) || (part->op == "matmul" && next->op == "add"));
      if (!fits)
        notRaised("a loop that carries more than a sum");
      accumulatedOver[part] = &axis;
      values[c.arg] = values[c.init];
    }
    SizeExpr begin = whole(axis.begin);
    substitution[axis.start] = begin;
    substitution[axis.size] = SizeExpr::max(whole(axis.end) - begin, 0);
    for (unsigned symbol : outerSymbols)
      if (mentions(substitution[axis.size], symbol))
        notRaised("a loop whose length depends on where in the grid it is");
    for (const Statement &inner : s.body)
      if (inner.op == "store") {
        bool walks = std::any_of(inner.index.begin(), inner.index.end(),
                                 [&](const Index &i) { return mentions(i.start, axis.start); });
        if (!walks)
          notRaised("a loop overwrites what it stored");
      }
    run(s.body);
    for (const kernel::Carried &c : s.carried)
      values[c.result] = values[c.next];
  }

  //===--- Structured control flow ---===//

  KernelAxis walk(const Axis &axis) {
    KernelAxis result;
    result.name = axis.name;
    result.start = axis.start + strideSymbols;
    result.begin = whole(axis.begin);
    result.end = whole(axis.end);
    if (axis.tiling == Axis::Scalar)
      return result;
    result.size = axis.size + strideSymbols;
    result.tile = axis.tiling == Axis::Fixed ? axis.tile : chooseTile(axis);
    body.largest[*result.size] = result.tile;
    return result;
  }

  /// Tiles whose size the program leaves open. Products want blocks that fill register blocks many times over and
  /// whose operands stay in the second-level cache; rows of pointwise code want long vectors and few rows.
  int64_t chooseTile(const Axis &axis) {
    bool inProduct = false, contracted = false, last = false;
    SizeExpr size = SizeExpr::symbol(axis.size);
    for (const Traits &t : traits) {
      if (!t.made)
        continue;
      if (t.made->op == "matmul") {
        const Statement *a = traits[t.made->args[0]].made;
        inProduct |= std::find(t.made->shape.begin(), t.made->shape.end(), size) != t.made->shape.end();
        contracted |= a && !a->shape.empty() && a->shape.back() == size;
      }
      last |= !t.made->shape.empty() && t.made->shape.back() == size && t.made->shape.size() > 1;
    }
    if (inProduct)
      return 64;
    if (contracted)
      return 256;
    return last ? 512 : 8;
  }

  Region inside(const std::function<void()> &fill) {
    Region fresh, *saved = region;
    region = &fresh;
    fill();
    region = saved;
    return fresh;
  }

  struct Slots {
    std::vector<Access> access;
    std::set<BufferId> buffers;
  };

  /// Memory for carried values, filled with what they start from.
  Slots enter(const Statement &s) {
    Slots slots;
    for (const kernel::Carried &c : s.carried) {
      Value v = values[c.init];
      read(c.init);
      Access access = allocate(v.type, domainOf(v), true);
      storeTo(access, v);
      slots.access.push_back(access);
      slots.buffers.insert(access.buffer);
    }
    for (size_t i = 0; i < s.carried.size(); ++i)
      values[s.carried[i].arg] = held(s.carried[i].init, slots.access[i]);
    return slots;
  }

  Value held(uint32_t like, const Access &access) {
    Value v = values[like];
    v.expr = pool.load(access, v.type);
    v.tileStart.reset();
    return v;
  }

  /// Hands the next values on. One that is made from another slot is made before any slot changes.
  void handOn(const Statement &s, const Slots &slots) {
    std::vector<Value> next;
    for (size_t i = 0; i < s.carried.size(); ++i) {
      Value v = values[s.carried[i].next];
      bool others = false;
      loop::visit(v.expr, [&](ExprRef e) {
        others |= e->op == ScalarOp::Load && e->access.buffer != slots.access[i].buffer &&
                  slots.buffers.contains(e->access.buffer);
      });
      if (others)
        materialise(v);
      next.push_back(std::move(v));
    }
    for (size_t i = 0; i < s.carried.size(); ++i) {
      ExprRef e = next[i].expr;
      if (e->op == ScalarOp::Load && e->access == slots.access[i])
        continue;
      storeTo(slots.access[i], next[i]);
    }
  }

  void leave(const Statement &s, const Slots &slots) {
    for (size_t i = 0; i < s.carried.size(); ++i)
      values[s.carried[i].result] = held(s.carried[i].init, slots.access[i]);
  }

  void loopOver(const Statement &s) {
    Slots slots = enter(s);
    announce(s.walked.at(0));
    loop::KernelFor item;
    item.axis = walk(s.walked[0]);
    item.body = std::make_unique<Region>(inside([&] {
      run(s.body);
      handOn(s, slots);
    }));
    region->items.emplace_back(std::move(item));
    leave(s, slots);
  }

  /// A 0-d value in memory of its own.
  BufferId scalarBuffer(uint32_t id, DType type) {
    Value v = values[id];
    if (!v.shape.empty())
      damaged("expected a scalar");
    v.expr = read(id).to(type).get();
    v.type = type;
    materialise(v);
    return v.expr->access.buffer;
  }

  void choose(const Statement &s) {
    loop::KernelIf item;
    item.condition = scalarBuffer(s.condition, DType::Bool);
    std::vector<Access> slots;
    auto branch = [&](const std::vector<Statement> &list, bool then) {
      return std::make_unique<Region>(inside([&] {
        run(list);
        for (size_t i = 0; i < s.merged.size(); ++i) {
          Value v = values[then ? s.merged[i].thenValue : s.merged[i].elseValue];
          if (then)
            slots.push_back(allocate(v.type, domainOf(v), true));
          storeTo(slots[i], v);
        }
      }));
    };
    item.then = branch(s.body, true);
    item.otherwise = branch(s.otherwise, false);
    region->items.emplace_back(std::move(item));
    for (size_t i = 0; i < s.merged.size(); ++i)
      values[s.merged[i].result] = held(s.merged[i].thenValue, slots[i]);
  }

  void repeat(const Statement &s) {
    Slots slots = enter(s);
    loop::KernelWhile item;
    item.before = std::make_unique<Region>(inside([&] {
      run(s.otherwise);
      item.condition = scalarBuffer(s.condition, DType::Bool);
    }));
    item.body = std::make_unique<Region>(inside([&] {
      run(s.body);
      handOn(s, slots);
    }));
    region->items.emplace_back(std::move(item));
    leave(s, slots);
  }

  void bind(const Statement &s) {
    loop::KernelBind item;
    item.symbol = s.symbol + strideSymbols;
    item.value = scalarBuffer(s.args.at(0), DType::I64);
    item.min = whole(s.min);
    item.max = whole(s.max);
    item.site = module.sites.size();
    module.sites.push_back(
        {program.name, program.where(s.loc),
         s.message.empty() ? "a run-time size of {index} is out of range (limit {bound})" : s.message});
    region->items.emplace_back(item);
  }

  /// A failed assertion is index 1 below 1.
  void assertion(const Statement &s) {
    Value v = values[s.args.at(0)];
    unsigned site = module.sites.size();
    module.sites.push_back(
        {program.name, program.where(s.loc), "assertion failed: " + s.message, DataErrorKind::Runtime});
    Ex wrong =
        select(read(s.args[0]), Ex(pool, pool.constantInt(0, DType::I64)), Ex(pool, pool.constantInt(1, DType::I64)));
    v.expr = pool.checkIndex(wrong.get(), 1, site);
    v.type = DType::I64;
    materialise(v);
    module.kept.insert(v.expr->access.buffer);
  }

  //===--- Scans and sorting ---===//

  /// One element of a dimension.
  static Access at(Access access, unsigned axis, const SizeExpr &position) {
    access.offset = access.offset + position * access.coefs[axis];
    access.coefs.erase(access.coefs.begin() + axis);
    return access;
  }

  /// `turn(position, whether it is the first)` for the positions below `count`, in order, where positions are known.
  void inOrder(const SizeExpr &count, const std::function<void(const SizeExpr &, bool)> &turn) {
    loop::KernelFor first, others;
    first.axis.start = body.symbolCount++;
    body.largest.emplace_back();
    first.axis.end = SizeExpr::min(count, 1);
    first.body = std::make_unique<Region>(inside([&] { turn(0, true); }));
    region->items.emplace_back(std::move(first));
    others.axis.start = body.symbolCount++;
    body.largest.emplace_back();
    others.axis.begin = 1;
    others.axis.end = count;
    SizeExpr position = SizeExpr::symbol(others.axis.start);
    others.body = std::make_unique<Region>(inside([&] { turn(position, false); }));
    region->items.emplace_back(std::move(others));
  }

  /// One step after another along the axis, whole vectors of the other dimensions, which lie side by side.
  void scan(const Statement &s, Value &result) {
    Value source = values[s.args.at(0)];
    read(s.args[0]);
    DType type = isHalf(s.dtype) ? DType::F32 : s.dtype;
    source.expr = read(s.args[0]).to(type).get();
    source.type = type;
    materialise(source, s.axis);
    Value wide{type, s.shape, nullptr, std::nullopt, false};
    Access out = allocate(type, domainOf(wide), true, s.axis);
    static const std::map<std::string, std::pair<ScalarOp, double>> kinds = {{"sum", {ScalarOp::Add, 0}},
                                                                             {"prod", {ScalarOp::Mul, 1}},
                                                                             {"max", {ScalarOp::Max, 0}},
                                                                             {"min", {ScalarOp::Min, 0}}};
    auto kind = kinds.find(s.kind);
    if (kind == kinds.end())
      damaged("unknown scan " + s.kind);
    Sizes shape = shapeOf(source), rest = shape;
    rest.erase(rest.begin() + s.axis);
    inOrder(shape[s.axis], [&](const SizeExpr &position, bool first) {
      Nest nest;
      nest.domain = rest;
      ExprRef x = pool.load(at(source.expr->access, s.axis, position), type);
      if (!first)
        x = pool.make(kind->second.first, type, {pool.load(at(out, s.axis, position - 1), type), x});
      nest.stores.push_back({at(out, s.axis, position), x});
      add(std::move(nest));
    });
    result.expr = Ex(pool, pool.load(out, type)).to(s.dtype).get();
  }

  static constexpr int64_t kLowHalf = 0xffffffff;

  /// An I64 of the range of I32, in the order of x: equal zeros, NaN last.
  static Ex orderOf(Ex x) {
    if (x.type() == DType::U32)
      return x.to(DType::I64) - (int64_t(1) << 31);
    if (!isFloat(x.type()))
      return x.to(DType::I64);
    x = x.to(DType::F32);
    Ex bits = select(equal(x, 0.0), 0.0, x).bitcast(DType::I32).to(DType::I64);
    return select(isNaN(x), int64_t(0x7fffffff), select(bits < 0, bits ^ int64_t(0x7fffffff), bits));
  }

  /// The first elements in order, one after another: each is the next key behind the last one.
  void sortFirst(const Statement &s, const Value &source, const Value &keys) {
    Value few{DType::I64, s.shape, nullptr, std::nullopt, false};
    Access found = allocate(DType::I64, domainOf(few), true), key = keys.expr->access;
    Sizes domain = shapeOf(source);
    std::rotate(domain.begin() + s.axis, domain.begin() + s.axis + 1, domain.end());
    std::rotate(key.coefs.begin() + s.axis, key.coefs.begin() + s.axis + 1, key.coefs.end());
    inOrder(s.shape[s.axis], [&](const SizeExpr &position, bool first) {
      Nest nest;
      nest.kind = Nest::Reduction;
      nest.reduce = s.descending ? ReduceKind::Max : ReduceKind::Min;
      nest.domain = domain;
      nest.reduced = 1;
      Ex x(pool, pool.load(key, DType::I64));
      if (!first) {
        Access last = at(found, s.axis, position - 1);
        last.coefs.push_back(0);
        Ex y(pool, pool.load(last, DType::I64));
        x = s.descending ? select(x < y, x, std::numeric_limits<int64_t>::min())
                         : select(y < x, x, std::numeric_limits<int64_t>::max());
      }
      nest.body = x.get();
      nest.target = at(found, s.axis, position);
      add(std::move(nest));
    });
    Ex best(pool, pool.load(found, DType::I64));
    Ex low = best & kLowHalf, position = s.descending ? kLowHalf - low : low;
    Access value = source.expr->access;
    value.indirect.push_back({position.get(), value.coefs[s.axis]});
    value.coefs[s.axis] = 0;
    values[s.ids[0]] = {source.type, s.shape, pool.load(value, source.type), std::nullopt, false};
    values[s.ids[1]] = {DType::I64, s.shape, position.get(), std::nullopt, false};
    for (uint32_t id : s.ids)
      materialise(values[id]);
  }

  /// Every element's place is the number of elements that come before it: stable, and vectors all the way. Tiles are
  /// short, so that n * n comparisons stay cheap.
  void sort(const Statement &s) {
    Value source = values[s.args.at(0)];
    read(s.args[0]);
    materialise(source);
    unsigned rank = source.shape.size(), n = rank; // the extra dimension runs over the elements compared with
    Sizes shape = shapeOf(source);
    // Dtypes of up to 32 bits are compared as 64-bit integers that hold the position too: one comparison says it all.
    bool packed = sizeOf(source.type) <= 4;
    if (s.ids.size() != 2)
      damaged("sort gives values and indices");
    Value keys = source;
    if (packed) {
      keys.type = DType::I64;
      Ex position(pool, pool.index(s.axis));
      keys.expr =
          (orderOf(Ex(pool, source.expr)) * (int64_t(1) << 32) + (s.descending ? kLowHalf - position : position)).get();
      materialise(keys);
      if (!(s.shape[s.axis] == shape[s.axis]))
        return sortFirst(s, source, keys);
    }
    Access mine = keys.expr->access, other = mine;
    mine.coefs.push_back(0);
    other.coefs.push_back(other.coefs[s.axis]);
    other.coefs[s.axis] = 0;
    Ex x(pool, pool.load(mine, keys.type)), y(pool, pool.load(other, keys.type));
    Ex before = s.descending ? x < y : y < x;
    if (!packed) {
      Ex i(pool, pool.index(s.axis)), j(pool, pool.index(n)), same = equal(x, y);
      if (isFloat(source.type)) { // NaN is the largest
        Ex nx = isNaN(x), ny = isNaN(y);
        before = s.descending ? before | (ny & ~nx) : before | (nx & ~ny);
        same = same | (nx & ny);
      }
      before = before | (same & (j < i));
    }
    Nest count;
    count.kind = Nest::Reduction;
    count.reduce = ReduceKind::Sum;
    count.domain = shape;
    count.domain.push_back(shape[s.axis]);
    count.reduced = 1;
    count.body = before.to(DType::I64).get();
    count.target = allocate(DType::I64, shape);
    Access place = count.target;
    add(std::move(count));
    auto scatter = [&](DType type, ExprRef value) {
      Access out = allocate(type, shape, true), to = out;
      SizeExpr stride = to.coefs[s.axis];
      to.coefs[s.axis] = 0;
      to.indirect.push_back({pool.load(place, DType::I64), stride});
      Nest nest;
      nest.domain = shape;
      nest.stores.push_back({to, value});
      add(std::move(nest));
      return pool.load(out, type);
    };
    values[s.ids[0]] = {source.type, s.shape, scatter(source.type, source.expr), std::nullopt, false};
    values[s.ids[1]] = {DType::I64, s.shape, scatter(DType::I64, pool.index(s.axis)), std::nullopt, false};
  }

  void addKernelNest() {
    Nest nest;
    nest.kind = Nest::Kernel;
    nest.op = program.name;
    nest.source = program.where({});
    for (size_t i = 0; i < params.size(); ++i) {
      const Parameter &p = program.params[i];
      loop::Tensor t{module.buffers[params[i].buffer].dtype, params[i].buffer, p.sizes, params[i].strides, 0};
      body.arguments.emplace_back(t.buffer, t.dtype);
      nest.externalInputs.push_back(t);
      if (params[i].written)
        nest.externalOutputs.push_back(t);
    }
    nest.kernel = std::make_shared<const loop::KernelBody>(std::move(body));
    module.nests.push_back(std::move(nest));
  }

  //===--- What several blocks use ---===//

  void keepSharedBuffers(const Region &root) {
    std::map<BufferId, const void *> user;
    auto touch = [&](BufferId b, const void *who) {
      auto [it, fresh] = user.try_emplace(b, who);
      if (!fresh && it->second != who)
        module.kept.insert(b);
    };
    std::function<void(const Region &)> visit = [&](const Region &r) {
      for (const auto &item : r.items) {
        if (auto *block = std::get_if<loop::KernelBlock>(&item)) {
          for (const Nest &nest : block->nests) {
            loop::forEachRead(nest, [&](const Access &access, DType) { touch(access.buffer, block); });
            for (BufferId b : loop::writesOf(nest))
              touch(b, block);
          }
        } else if (auto *each = std::get_if<loop::KernelFor>(&item)) {
          visit(*each->body);
        } else if (auto *choice = std::get_if<loop::KernelIf>(&item)) {
          module.kept.insert(choice->condition);
          visit(*choice->then);
          visit(*choice->otherwise);
        } else if (auto *again = std::get_if<loop::KernelWhile>(&item)) {
          module.kept.insert(again->condition);
          visit(*again->before);
          visit(*again->body);
        } else {
          module.kept.insert(std::get<loop::KernelBind>(item).value);
        }
      }
    };
    visit(root);
    // A slot is read in the next turn of the very block that writes it.
    for (BufferId b = 0; b < module.buffers.size(); ++b)
      if (module.buffers[b].partial && module.buffers[b].kind == Buffer::Temp)
        module.kept.insert(b);
  }
};

} // namespace

KernelModule importKernel(const Program &program, bool raise) {
  try {
    if (!raise)
      return KernelBuilder(program, false).run();
    try {
      return KernelBuilder(program, true).run();
    } catch (const NotRaised &reason) {
      KernelModule result = KernelBuilder(program, false).run();
      result.structuredBecause = reason.why;
      return result;
    }
  } catch (const std::overflow_error &error) {
    throw ImportError("invalid", program.name, program.where({}), error.what(), "sizes must stay within 64 bits");
  }
}

} // namespace tilewright::importer
