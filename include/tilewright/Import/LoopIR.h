//===- LoopIR.h - the graph level: loop nests over strided memory -*- C++ -*-===//
//
// What importer entries build and fusion rewrites. Tensors are strided views of buffers with symbolic sizes; a nest is
// a domain of symbolic extents with scalar expressions; an expression reads memory through accesses that are linear in
// the domain's indices, plus indirect terms for gathers. Buffers are assigned once unless `Buffer::partial` says
// otherwise.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tilewright/Support/DType.h"
#include "tilewright/Support/DataErrorKind.h"
#include "tilewright/Support/ScalarOps.h"
#include "tilewright/Support/SizeExpr.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace tilewright::loop {

using BufferId = uint32_t;

enum class ScalarOp : uint8_t {
#define X(e, ...) e,
  TILEWRIGHT_SCALAR_OPS(X)
#undef X
};
const char *nameOf(ScalarOp op);
unsigned operandsOf(ScalarOp op);
unsigned costOf(ScalarOp op);

struct Expr;
using ExprRef = const Expr *; // owned by the module's ExprPool; equal expressions are the same pointer

/// Address of an element: offset + sum(coefs[d] * index[d]) + sum(indirect[i].stride * value(indirect[i].index)), in
/// elements.
struct Access {
  struct Indirect {
    ExprRef index; // i64, checked
    SizeExpr stride;
    bool operator==(const Indirect &) const = default;
  };
  BufferId buffer = 0;
  SizeExpr offset;
  std::vector<SizeExpr> coefs; // one per dimension of the nest's domain
  std::vector<Indirect> indirect;
  bool operator==(const Access &) const = default;
};

struct Expr {
  ScalarOp op = ScalarOp::Constant;
  DType type = DType::F32;
  std::vector<ExprRef> args = {};
  double floatValue = 0; // Constant of float type
  int64_t intValue = 0;  // Constant of integer or bool type; Index: dimension; CheckIndex: site
  SizeExpr size = {};    // Size; CheckIndex: the bound
  Access access = {};    // Load
  unsigned depth = 0;    // longest path, for stable printing
};

class ExprPool {
public:
  ExprPool();
  ~ExprPool();
  ExprPool(ExprPool &&) noexcept; // references stay valid
  ExprPool &operator=(ExprPool &&) noexcept;
  ExprRef constantFloat(double value, DType type);
  ExprRef constantInt(int64_t value, DType type);
  ExprRef size(const SizeExpr &value);
  ExprRef index(unsigned dim);
  ExprRef load(Access access, DType type);
  ExprRef accumulator(DType type);
  ExprRef cast(ExprRef x, DType type); // the identity if x has the type
  ExprRef checkIndex(ExprRef x, const SizeExpr &bound, unsigned site);
  /// Folds constants and trivial identities that are exact (x*1, x+0 for integers, select of a constant condition).
  ExprRef make(ScalarOp op, DType type, std::vector<ExprRef> args);

private:
  ExprRef intern(Expr e);
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Rewrites the leaves of an expression: each Load, Index and Accumulator is replaced by what the callback gives.
/// nullptr keeps it as it is, but a Load with the indices of its indirect terms rewritten. Every distinct leaf is asked
/// for once.
ExprRef rewriteLeaves(ExprPool &pool, ExprRef e, const std::function<ExprRef(ExprRef)> &leaf);
/// Calls fn on every distinct node, operands first. Indices of indirect accesses count as operands.
void visit(ExprRef e, const std::function<void(ExprRef)> &fn);
/// Sum of the costs of the distinct nodes.
unsigned costOf(ExprRef e);
/// Text of an expression, with shared nodes written out: for messages and tests.
std::string str(ExprRef e);

/// A strided view of a buffer.
struct Tensor {
  DType dtype = DType::F32;
  BufferId buffer = 0;
  std::vector<SizeExpr> sizes, strides; // in elements
  SizeExpr offset;
  unsigned rank() const { return sizes.size(); }
};
std::vector<SizeExpr> contiguousStrides(const std::vector<SizeExpr> &sizes);
SizeExpr productOf(const std::vector<SizeExpr> &sizes);

struct Buffer {
  enum Kind : uint8_t { Input, Temp, Constant } kind = Temp;
  uint32_t input = 0;       // Input
  DType dtype = DType::F32; // of the elements
  SizeExpr elements;
  bool partial = false; // written by several nests (each a part, or one after another): never inlined, order kept
  std::vector<uint8_t> constant;
};

enum class ReduceKind : uint8_t { Sum, Prod, Max, Min, ArgMax, ArgMin, Any, All };
const char *nameOf(ReduceKind kind);

struct Store {
  Access access; // over the nest's parallel dimensions (all dimensions but the reduced ones)
  ExprRef value;
  bool atomicAdd = false; // added to what is there, whoever else does so at the same time
};

struct KernelBody; // KernelBody.h
struct Module;

/// A loop nest. `domain` lists the parallel dimensions first, then `reduced` reduction dimensions.
struct Nest {
  enum Kind : uint8_t { Pointwise, Reduction, Contraction, Attention, External, Kernel } kind = Pointwise;
  std::vector<SizeExpr> domain;
  unsigned reduced = 0;

  // Pointwise: values over the domain. Contraction: values over (batch..., m, n), reading the sum as Accumulator.
  std::vector<Store> stores;

  // Reduction: body over the whole domain; the result (of the body's type, I64 for ArgMax/ArgMin) goes to target, an
  // access over the parallel dimensions. ArgMax/ArgMin reduce exactly one dimension and give the first index of the
  // extremum; NaN counts as the extremum.
  ReduceKind reduce = ReduceKind::Sum;
  ExprRef body = nullptr;
  Access target;

  // Contraction: domain = (batch..., m, n, k) with reduced = 1. Coefficients over the whole domain.
  Access lhs, rhs; // lhs has coefficient 0 for n, rhs for m
  DType operandType = DType::F32;

  // Attention: operands q [B,H,M,D], k [B,H,N,D], v [B,H,N,E], optional mask broadcast to [B,H,M,N]; result [B,H,M,E]
  std::vector<Tensor> operands;
  Tensor result;
  double scale = 1;
  bool causal = false;

  // External: see ExternalStep
  std::string function, payload, reason;
  std::vector<Tensor> externalInputs, externalOutputs;
  std::vector<SizeExpr> externalInts;

  // Kernel: a structured kernel program; reads externalInputs, writes externalOutputs.
  std::shared_ptr<const KernelBody> kernel;
  // Of a kernel that is a node of a graph: the module that its program has to itself. That module's one nest is the
  // kernel; its inputs are externalInputs, in order, and its symbols have the values externalInts.
  std::shared_ptr<Module> inside;

  std::string op, source; // for messages and explain
};

/// The text of one nest, as Module::str prints it.
std::string str(const Nest &nest);

struct Input {
  enum Kind : uint8_t { Tensor, Int, Float } kind = Tensor;
  DType dtype = DType::F32;
  std::vector<SizeExpr> sizes, strides;
  int symbol = -1; // Int: the symbol it binds, or -1
  std::string name;
  bool parameter = false;
  BufferId buffer = 0; // Tensor; Float: a 0-d F64 buffer; Int: a 0-d I64 buffer
};

struct Check {
  enum Op : uint8_t { Equal, NotEqual, LessEqual, Less } op;
  SizeExpr lhs, rhs;
  std::string message;
};

/// What an error of data at `site` says; {index} and {bound} are replaced.
struct ErrorSite {
  std::string op, source, message;
  DataErrorKind kind = DataErrorKind::Index;
};

struct Output {
  Tensor tensor;
  bool present = true;
};

struct Mutation {
  uint32_t input;
  Tensor value;
};

struct Module {
  std::string name;
  ExprPool pool;
  uint32_t symbolCount = 0;
  std::vector<int64_t> symbolMin; // lower bound of each symbol; sizes below 2 stand as constants in descriptions
  std::vector<Input> inputs;
  std::vector<Buffer> buffers;
  std::vector<Nest> nests; // in execution order
  std::vector<Output> outputs;
  std::vector<Check> checks;
  std::set<BufferId> kept;      // read by what is no nest of this module: stays, though no nest reads it
  std::vector<ErrorSite> sites; // error code = 1 + index
  std::string str() const;      // what TILEWRIGHT_DEBUG=3 and tilewright-opt print
};

} // namespace tilewright::loop
