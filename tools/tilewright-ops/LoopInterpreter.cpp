//===- LoopInterpreter.cpp - the graph level, element by element ----------===//
#include "LoopInterpreter.h"

#include "LoopScalars.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace tilewright::loop {
namespace {

//===----------------------------------------------------------------------===//
// Nests
//===----------------------------------------------------------------------===//

class Interpreter {
public:
  Interpreter(const Module &module, std::vector<Bytes> &inputs, const std::vector<int64_t> &symbols)
      : module(module), symbols(symbols) {
    for (const Buffer &buffer : module.buffers) {
      if (buffer.kind == Buffer::Input) {
        memory.push_back(inputs.at(buffer.input));
      } else if (buffer.kind == Buffer::Constant) {
        memory.push_back(buffer.constant);
      } else {
        // What nobody has written is NaN, or a large number.
        memory.emplace_back(std::max<int64_t>(number(buffer.elements), 0) * sizeOf(buffer.dtype), 0xff);
      }
    }
  }

  std::vector<Bytes> run(std::vector<Bytes> &inputs) {
    for (const Check &check : module.checks) {
      const int64_t a = number(check.lhs), b = number(check.rhs);
      const bool holds = check.op == Check::Equal      ? a == b
                         : check.op == Check::NotEqual ? a != b
                         : check.op == Check::Less     ? a < b
                                                       : a <= b;
      if (!holds)
        throw std::runtime_error("check failed: " + replaced(replaced(check.message, "{lhs}", a), "{rhs}", b));
    }
    for (const Nest &nest : module.nests)
      run(nest);
    for (size_t i = 0; i < module.inputs.size(); ++i)
      inputs[i] = memory[module.inputs[i].buffer];
    std::vector<Bytes> outputs;
    for (const Output &output : module.outputs)
      outputs.push_back(output.present ? contents(output.tensor) : Bytes());
    return outputs;
  }

private:
  int64_t number(const SizeExpr &e) const { return e.evaluate(symbols); }

  static std::string replaced(std::string text, const std::string &what, int64_t value) {
    if (size_t at = text.find(what); at != std::string::npos)
      text.replace(at, what.size(), std::to_string(value));
    return text;
  }

  std::vector<int64_t> numbers(const std::vector<SizeExpr> &values) const {
    std::vector<int64_t> result;
    for (const SizeExpr &e : values)
      result.push_back(number(e));
    return result;
  }

  uint8_t *element(BufferId buffer, int64_t at) {
    const size_t bytes = sizeOf(module.buffers[buffer].dtype);
    if (at < 0 || (at + 1) * bytes > memory[buffer].size())
      throw std::runtime_error("element " + std::to_string(at) + " of b" + std::to_string(buffer) +
                               " is out of bounds (" + std::to_string(memory[buffer].size() / bytes) + " elements)");
    return memory[buffer].data() + at * bytes;
  }

  /// Calls fn for every point of the domain, the last dimension fastest.
  template <typename Fn> static void each(const std::vector<int64_t> &extents, Fn fn) {
    if (std::any_of(extents.begin(), extents.end(), [](int64_t n) { return n <= 0; }))
      return;
    std::vector<int64_t> point(extents.size());
    while (true) {
      fn(point);
      size_t d = extents.size();
      while (d > 0 && ++point[d - 1] == extents[d - 1])
        point[--d] = 0;
      if (d == 0)
        return;
    }
  }

  Bytes contents(const Tensor &t) {
    Bytes result;
    const std::vector<int64_t> strides = numbers(t.strides);
    const size_t bytes = sizeOf(t.dtype);
    each(numbers(t.sizes), [&](const std::vector<int64_t> &point) {
      int64_t at = number(t.offset);
      for (size_t d = 0; d < point.size(); ++d)
        at += strides[d] * point[d];
      const uint8_t *p = element(t.buffer, at);
      result.insert(result.end(), p, p + bytes);
    });
    return result;
  }

  /// An access with its sizes evaluated.
  struct Address {
    BufferId buffer;
    int64_t offset;
    std::vector<int64_t> coefs, indirectStrides;
    std::vector<ExprRef> indices;
  };

  Address addressOf(const Access &access) const {
    Address a{access.buffer, number(access.offset), numbers(access.coefs), {}, {}};
    for (const Access::Indirect &term : access.indirect) {
      a.indirectStrides.push_back(number(term.stride));
      a.indices.push_back(term.index);
    }
    return a;
  }

  int64_t locate(const Address &a, const std::vector<int64_t> &point) {
    int64_t at = a.offset;
    if (a.coefs.size() > point.size())
      throw std::runtime_error("an access has more coefficients than its domain dimensions");
    for (size_t d = 0; d < a.coefs.size(); ++d)
      at += a.coefs[d] * point[d];
    for (size_t k = 0; k < a.indices.size(); ++k)
      at += a.indirectStrides[k] * results[a.indices[k]].i;
    return at;
  }

  /// The nodes that roots need, operands first.
  void prepare(const std::vector<ExprRef> &roots, const std::vector<Access> &accesses = {}) {
    order.clear();
    results.clear();
    addresses.clear();
    const auto collect = [&](ExprRef root) {
      visit(root, [&](ExprRef e) {
        if (results.try_emplace(e).second)
          order.push_back(e);
        if (e->op == ScalarOp::Load)
          addresses.try_emplace(e, addressOf(e->access));
      });
    };
    for (ExprRef root : roots)
      collect(root);
    for (const Access &access : accesses)
      for (const Access::Indirect &term : access.indirect)
        collect(term.index);
  }

  void evaluate(const std::vector<int64_t> &point, Value accumulator = {}) {
    for (ExprRef e : order)
      results[e] = compute(e, point, accumulator);
  }

  Value compute(ExprRef e, const std::vector<int64_t> &point, Value accumulator) {
    const auto arg = [&](size_t i) -> Value { return results[e->args[i]]; };
    switch (e->op) {
    case ScalarOp::Constant:
      return {e->floatValue, e->intValue};
    case ScalarOp::Size:
      return {0, number(e->size)};
    case ScalarOp::Index:
      return {0, point.at(e->intValue)};
    case ScalarOp::Load:
      return read(element(e->access.buffer, locate(addresses.at(e), point)), e->type);
    case ScalarOp::Accumulator:
      return accumulator;
    case ScalarOp::Cast:
      return cast(arg(0), e->args[0]->type, e->type);
    case ScalarOp::Bitcast: {
      uint8_t bytes[8];
      write(bytes, e->args[0]->type, arg(0));
      return read(bytes, e->type);
    }
    case ScalarOp::CheckIndex: {
      const int64_t bound = number(e->size);
      if (arg(0).i < 0 || arg(0).i >= bound)
        throw std::runtime_error(
            replaced(replaced(module.sites.at(e->intValue).message, "{index}", arg(0).i), "{bound}", bound));
      return arg(0);
    }
    case ScalarOp::Select:
      return arg(0).i ? arg(1) : arg(2);
    case ScalarOp::Eq:
    case ScalarOp::Ne:
    case ScalarOp::Lt:
    case ScalarOp::Le:
      return {0, compare(e->op, arg(0), arg(1), e->args[0]->type)};
    case ScalarOp::Fma:
      return {rounded(std::fma(arg(0).f, arg(1).f, arg(2).f), e->type), 0};
    default:
      break;
    }
    const unsigned operands = operandsOf(e->op);
    if (isFloat(e->type))
      return {rounded(operands == 1 ? floatUnary(e->op, arg(0).f) : floatBinary(e->op, arg(0).f, arg(1).f), e->type),
              0};
    if (operands == 2)
      return {0, wrapped(intBinary(e->op, arg(0).i, arg(1).i, e->type), e->type)};
    switch (e->op) {
    case ScalarOp::Not:
      return {0, e->type == DType::Bool ? !arg(0).i : wrapped(~arg(0).i, e->type)};
    case ScalarOp::Neg:
      return {0, wrapped(static_cast<int64_t>(0 - static_cast<uint64_t>(arg(0).i)), e->type)};
    case ScalarOp::Abs:
      return {0, wrapped(arg(0).i < 0 ? -arg(0).i : arg(0).i, e->type)};
    default:
      throw std::runtime_error(std::string("no integer operator ") + nameOf(e->op));
    }
  }

  void run(const Nest &nest) {
    switch (nest.kind) {
    case Nest::Pointwise:
      return runStores(nest, numbers(nest.domain), nullptr);
    case Nest::Reduction:
      return runReduction(nest);
    case Nest::Contraction:
      return runContraction(nest);
    case Nest::Attention:
      return runAttention(nest);
    case Nest::External:
      throw std::runtime_error("an island cannot be interpreted: " + nest.op + " (" + nest.reason + ")");
    case Nest::Kernel:
      throw std::runtime_error("a kernel program has an interpreter of its own: " + nest.op);
    }
  }

  void runStores(const Nest &nest, const std::vector<int64_t> &domain,
                 const std::function<Value(const std::vector<int64_t> &)> &accumulator) {
    std::vector<ExprRef> roots;
    std::vector<Access> accesses;
    std::vector<Address> targets;
    for (const Store &store : nest.stores) {
      roots.push_back(store.value);
      accesses.push_back(store.access);
      targets.push_back(addressOf(store.access));
    }
    prepare(roots, accesses);
    each(domain, [&](const std::vector<int64_t> &point) {
      evaluate(point, accumulator ? accumulator(point) : Value{});
      for (size_t i = 0; i < targets.size(); ++i)
        store(targets[i], point, roots[i]->type, results[roots[i]]);
    });
  }

  void store(const Address &target, const std::vector<int64_t> &point, DType type, Value value) {
    if (module.buffers[target.buffer].dtype != type)
      throw std::runtime_error("a value of type " + std::string(nameOf(type)) + " is stored into b" +
                               std::to_string(target.buffer) + " of " +
                               std::string(nameOf(module.buffers[target.buffer].dtype)));
    write(element(target.buffer, locate(target, point)), type, value);
  }

  void runReduction(const Nest &nest) {
    std::vector<int64_t> domain = numbers(nest.domain);
    const std::vector<int64_t> parallel(domain.begin(), domain.end() - nest.reduced);
    const std::vector<int64_t> reduced(domain.end() - nest.reduced, domain.end());
    const Address target = addressOf(nest.target);
    prepare({nest.body});
    each(parallel, [&](const std::vector<int64_t> &point) {
      Value acc = identity(nest.reduce, nest.body->type);
      int64_t best = 0, position = 0;
      each(reduced, [&](const std::vector<int64_t> &inner) {
        std::vector<int64_t> all = point;
        all.insert(all.end(), inner.begin(), inner.end());
        evaluate(all);
        const Value x = results[nest.body];
        if (isBetter(nest.reduce, nest.body->type, x, acc, position == 0))
          best = position;
        acc = position == 0 && nest.reduce > ReduceKind::Prod ? x : combine(nest.reduce, nest.body->type, acc, x);
        ++position;
      });
      const bool isArg = nest.reduce == ReduceKind::ArgMax || nest.reduce == ReduceKind::ArgMin;
      if (isArg)
        store(target, point, DType::I64, {0, best});
      else
        store(target, point, nest.body->type, {rounded(acc.f, nest.body->type), wrapped(acc.i, nest.body->type)});
    });
  }

  static Value identity(ReduceKind kind, DType type) {
    const double inf = std::numeric_limits<double>::infinity();
    switch (kind) {
    case ReduceKind::Prod:
    case ReduceKind::All:
      return {1, 1};
    case ReduceKind::Max:
      return {-inf, isUnsigned(type) ? 0 : std::numeric_limits<int64_t>::min()};
    case ReduceKind::Min:
      return {inf, std::numeric_limits<int64_t>::max()};
    default:
      return {};
    }
  }

  static bool isBetter(ReduceKind kind, DType type, Value x, Value best, bool first) {
    if (first)
      return true;
    if (!isFloat(type))
      return kind == ReduceKind::ArgMax ? x.i > best.i : x.i < best.i;
    if (std::isnan(best.f))
      return false;
    return std::isnan(x.f) || (kind == ReduceKind::ArgMax ? x.f > best.f : x.f < best.f);
  }

  /// Floats are summed in double, so that the order of terms does not show.
  static Value combine(ReduceKind kind, DType type, Value a, Value b) {
    const bool f = isFloat(type);
    switch (kind) {
    case ReduceKind::Sum:
      return f ? Value{a.f + b.f, 0} : Value{0, intBinary(ScalarOp::Add, a.i, b.i, type)};
    case ReduceKind::Prod:
      return f ? Value{a.f * b.f, 0} : Value{0, intBinary(ScalarOp::Mul, a.i, b.i, type)};
    case ReduceKind::Max:
    case ReduceKind::ArgMax:
      return f ? Value{floatBinary(ScalarOp::Max, a.f, b.f), 0} : Value{0, std::max(a.i, b.i)};
    case ReduceKind::Min:
    case ReduceKind::ArgMin:
      return f ? Value{floatBinary(ScalarOp::Min, a.f, b.f), 0} : Value{0, std::min(a.i, b.i)};
    case ReduceKind::Any:
      return {0, a.i | b.i};
    case ReduceKind::All:
      return {0, a.i & b.i};
    }
    return a;
  }

  void runContraction(const Nest &nest) {
    std::vector<int64_t> domain = numbers(nest.domain);
    const int64_t k = domain.back();
    domain.pop_back();
    const Address lhs = addressOf(nest.lhs), rhs = addressOf(nest.rhs);
    runStores(nest, domain, [&](std::vector<int64_t> point) {
      double sum = 0;
      point.push_back(0);
      for (; point.back() < k; ++point.back())
        sum += read(element(lhs.buffer, locate(lhs, point)), nest.operandType).f *
               read(element(rhs.buffer, locate(rhs, point)), nest.operandType).f;
      return Value{nest.operandType == DType::F64 ? sum : static_cast<float>(sum), 0};
    });
  }

  Value at(const Tensor &t, std::initializer_list<int64_t> point) {
    int64_t place = number(t.offset);
    size_t d = 0;
    for (int64_t i : point)
      place += number(t.strides[d++]) * i;
    return read(element(t.buffer, place), t.dtype);
  }

  void runAttention(const Nest &nest) {
    const Tensor &q = nest.operands[0], &k = nest.operands[1], &v = nest.operands[2];
    const int64_t n = number(k.sizes[2]), d = number(q.sizes[3]), e = number(v.sizes[3]);
    each(numbers({q.sizes[0], q.sizes[1], q.sizes[2]}), [&](const std::vector<int64_t> &p) {
      std::vector<double> scores(n, -std::numeric_limits<double>::infinity());
      for (int64_t j = 0; j < n && !(nest.causal && j > p[2]); ++j) {
        double sum = 0;
        for (int64_t c = 0; c < d; ++c)
          sum += at(q, {p[0], p[1], p[2], c}).f * at(k, {p[0], p[1], j, c}).f;
        scores[j] = sum * nest.scale;
        if (nest.operands.size() > 3) {
          const Value mask = at(nest.operands[3], {p[0], p[1], p[2], j});
          if (nest.operands[3].dtype != DType::Bool)
            scores[j] += mask.f;
          else if (!mask.i)
            scores[j] = -std::numeric_limits<double>::infinity();
        }
      }
      const double largest = n ? *std::max_element(scores.begin(), scores.end()) : 0;
      double total = 0;
      // A row without a key gives zeros.
      for (double &s : scores)
        total += s = std::isinf(largest) && largest < 0 ? 0 : std::exp(s - largest);
      for (int64_t c = 0; c < e; ++c) {
        double sum = 0;
        for (int64_t j = 0; j < n; ++j)
          sum += scores[j] * at(v, {p[0], p[1], j, c}).f;
        const Tensor &out = nest.result;
        const int64_t place = number(out.offset) + number(out.strides[0]) * p[0] + number(out.strides[1]) * p[1] +
                              number(out.strides[2]) * p[2] + number(out.strides[3]) * c;
        write(element(out.buffer, place), out.dtype, {total > 0 ? sum / total : 0, 0});
      }
    });
  }

  const Module &module;
  const std::vector<int64_t> &symbols;
  std::vector<Bytes> memory;
  std::vector<ExprRef> order;
  std::unordered_map<ExprRef, Value> results;
  std::unordered_map<ExprRef, Address> addresses;
};

} // namespace

std::vector<Bytes> interpret(const Module &module, std::vector<Bytes> &inputs, const std::vector<int64_t> &symbols) {
  return Interpreter(module, inputs, symbols).run(inputs);
}

} // namespace tilewright::loop
