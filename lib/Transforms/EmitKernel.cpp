//===- EmitKernel.cpp - a structured kernel program as one kernel ----------===//
//
// Control flow is emitted as it stands; each straight piece of code is fused like a graph and emitted by the emitters
// of loops and products, as loops inside of the grid point. Tiles that outlive a piece lie in the thread's scratch,
// each at an offset of its own; sizes of tiles are run-time values, scratch is planned for the largest.
//
//===----------------------------------------------------------------------===//

#include "EmitParts.h"

#include "tilewright/Import/KernelBody.h"
#include "tilewright/Transforms/Domain.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tilewright::loop {

struct KernelPlan {
  struct Piece {
    Group group;
    LoopPlan loops;                          // of a Loops group
    std::optional<host::MatrixShape> matrix; // of a Contraction
  };

  std::shared_ptr<const KernelBody> body;
  TileTarget target;
  std::map<const KernelBlock *, std::vector<Piece>> blocks;
  unsigned moduleSymbols = 0, sites = 0;
  std::map<BufferId, SizeExpr> scratch; // byte offsets of tiles
  std::map<BufferId, DType> types;
  SizeExpr shared; // offset of what one piece at a time uses: panels, rows
  SizeExpr bytes;  // all scratch
  LaunchPlan launch;
  std::string source;
};

namespace {

class Planner {
public:
  Planner(Module &module, const Nest &nest, const TileTarget &target) : module(module), body(*nest.kernel) {
    plan.body = nest.kernel;
    plan.target = target;
    plan.moduleSymbols = module.symbolCount;
    plan.sites = module.sites.size();
    plan.source = nest.source;
  }

  std::shared_ptr<const KernelPlan> run() {
    for (unsigned s = 0; s < body.symbolCount; ++s)
      largest.push_back(s < body.largest.size() && body.largest[s] ? SizeExpr(*body.largest[s]) : SizeExpr::symbol(s));
    SizeExpr points = 1;
    for (const KernelAxis &axis : body.grid)
      points = points * SizeExpr::ceildiv(SizeExpr::max(axis.end - axis.begin, 0), axis.tile);
    plan.launch.grid = points;
    visit(body.body, points);
    placeTiles();
    plan.shared = plan.bytes;
    plan.bytes = plan.bytes + together;
    plan.launch.scratchBytes = plan.bytes;
    return std::make_shared<const KernelPlan>(std::move(plan));
  }

private:
  Module &module;
  const KernelBody &body;
  KernelPlan plan;
  std::vector<SizeExpr> largest;
  SizeExpr together = 0;
  std::set<BufferId> tiles;

  /// An upper bound in the module's symbols.
  SizeExpr capacity(const SizeExpr &e) {
    SizeExpr bound = e.substitute(largest);
    for (unsigned s : bound.symbols())
      if (s >= plan.moduleSymbols)
        throw EmitError("the memory of a tile depends on where it is in the grid (" + e.str() +
                        "): give its dimensions by axes, sizes or constants");
    return bound;
  }

  static SizeExpr aligned(const SizeExpr &bytes) { return SizeExpr::ceildiv(bytes, 64) * 64; }

  void visit(const Region &region, const SizeExpr &times) {
    for (const auto &item : region.items) {
      if (auto *block = std::get_if<KernelBlock>(&item)) {
        fuseBlock(*block, times);
      } else if (auto *loop = std::get_if<KernelFor>(&item)) {
        SizeExpr turns = SizeExpr::ceildiv(SizeExpr::max(loop->axis.end - loop->axis.begin, 0), loop->axis.tile);
        visit(*loop->body, times * bounded(turns));
      } else if (auto *choice = std::get_if<KernelIf>(&item)) {
        tiles.insert(choice->condition);
        visit(*choice->then, times);
        visit(*choice->otherwise, times);
      } else if (auto *again = std::get_if<KernelWhile>(&item)) {
        tiles.insert(again->condition);
        visit(*again->before, times);
        visit(*again->body, times);
      } else {
        tiles.insert(std::get<KernelBind>(item).value);
      }
    }
  }

  /// For estimates: what depends on a place in the grid counts as one.
  SizeExpr bounded(const SizeExpr &e) const {
    SizeExpr bound = e.substitute(largest);
    for (unsigned s : bound.symbols())
      if (s >= plan.moduleSymbols)
        return 1;
    return bound;
  }

  void fuseBlock(const KernelBlock &block, const SizeExpr &times) {
    std::vector<Nest> saved = std::move(module.nests);
    module.nests = block.nests;
    FusionResult fused = fuse(module);
    module.nests = std::move(saved);
    std::vector<KernelPlan::Piece> &pieces = plan.blocks[&block];
    for (Group &group : fused.groups) {
      KernelPlan::Piece piece;
      SizeExpr work = 1;
      if (group.kind == Group::Contraction) {
        const Nest &nest = group.members.front();
        piece.matrix = host::MatrixShape::get(nest.operandType, plan.target.matrix);
        if (!piece.matrix)
          throw EmitError("no matrix product of " + std::string(nameOf(nest.operandType)));
        if (!nest.lhs.indirect.empty() || !nest.rhs.indirect.empty())
          throw EmitError("an operand of a matrix product is gathered");
        together = SizeExpr::max(together, aligned(host::packedBytes(*piece.matrix, capacity(nest.domain.back()),
                                                                     capacity(nest.domain[nest.domain.size() - 2]))));
        work = productOf(nest.domain) * 2;
      } else {
        piece.loops = planLoops(module.pool, group);
        LaunchPlan launch = loop::launchOf(group, piece.loops, plan.target);
        together = SizeExpr::max(together, capacity(launch.scratchBytes));
        work = launch.flops;
      }
      plan.launch.flops = plan.launch.flops + bounded(work) * times;
      for (const Nest &member : group.members) {
        forEachRead(member, [&](const Access &access, DType) { tiles.insert(access.buffer); });
        for (BufferId b : writesOf(member))
          tiles.insert(b);
      }
      for (BufferId b : group.local)
        tiles.erase(b);
      piece.group = std::move(group);
      pieces.push_back(std::move(piece));
    }
  }

  void placeTiles() {
    std::set<BufferId> arguments;
    for (const auto &[buffer, type] : body.arguments) {
      arguments.insert(buffer);
      plan.launch.bytesMoved = plan.launch.bytesMoved + module.buffers[buffer].elements * int64_t(sizeOf(type));
    }
    for (BufferId b : tiles) {
      if (arguments.contains(b))
        continue;
      const Buffer &buffer = module.buffers[b];
      plan.types[b] = buffer.dtype;
      plan.scratch[b] = plan.bytes;
      plan.bytes = plan.bytes + aligned(capacity(buffer.elements) * int64_t(sizeOf(buffer.dtype)));
    }
  }
};

class Emitter : public KernelOperands {
public:
  Emitter(OpBuilder &builder, Location loc, const KernelPlan &plan) : b(builder), loc(loc), plan(plan) {}

  void run(tile::KernelOp kernel) {
    b.setInsertionPointToEnd(&kernel.getBlock());
    for (size_t i = 0; i < plan.body->arguments.size(); ++i)
      buffers[plan.body->arguments[i].first] = kernel.getBuffer(i);
    for (unsigned s = 0; s < plan.moduleSymbols; ++s)
      symbols[s] = kernel.getInt(s);
    entry = &kernel.getBlock();
    for (const auto &[id, offset] : plan.scratch)
      buffers[id] = b.create<tile::ScratchOp>(loc, tile::BufferType::get(elementType(b, plan.types.at(id))),
                                              size(b, loc, offset));
    shared = size(b, loc, plan.shared);
    SmallVector<Value> extents;
    for (const KernelAxis &axis : plan.body->grid)
      extents.push_back(size(b, loc, SizeExpr::ceildiv(SizeExpr::max(axis.end - axis.begin, 0), axis.tile)));
    auto grid = b.create<tile::GridOp>(loc, extents);
    b.setInsertionPointToStart(&grid.getBlock());
    for (auto [axis, index] : llvm::zip(plan.body->grid, grid.getIndices())) {
      Value step = b.create<arith::MulIOp>(loc, index, constant(axis.tile));
      standAt(axis, b.create<arith::AddIOp>(loc, size(b, loc, axis.begin), step));
    }
    emit(plan.body->body);
  }

  Value buffer(BufferId id) override { return buffers.at(id); }

  Value size(OpBuilder &builder, Location where, const SizeExpr &e) override {
    SmallVector<Value> stack;
    for (const SizeExpr::Step &step : e.postfix()) {
      if (step.kind == SizeExpr::Step::Constant) {
        stack.push_back(builder.create<arith::ConstantIndexOp>(where, step.value));
        continue;
      }
      if (step.kind == SizeExpr::Step::Symbol) {
        stack.push_back(symbols.at(step.value));
        continue;
      }
      Value y = stack.pop_back_val(), x = stack.pop_back_val();
      switch (step.kind) {
      case SizeExpr::Step::Add:
        stack.push_back(builder.create<arith::AddIOp>(where, x, y));
        break;
      case SizeExpr::Step::Mul:
        stack.push_back(builder.create<arith::MulIOp>(where, x, y));
        break;
      case SizeExpr::Step::FloorDiv:
        stack.push_back(builder.create<arith::FloorDivSIOp>(where, x, y));
        break;
      case SizeExpr::Step::Min:
        stack.push_back(builder.create<arith::MinSIOp>(where, x, y));
        break;
      default:
        stack.push_back(builder.create<arith::MaxSIOp>(where, x, y));
      }
    }
    return stack.front();
  }

  int64_t site(unsigned moduleSite) override { return moduleSite; }

private:
  OpBuilder &b;
  Location loc;
  const KernelPlan &plan;
  Block *entry = nullptr;
  std::map<BufferId, Value> buffers;
  std::map<unsigned, Value> symbols;
  Value shared;

  Value constant(int64_t value) { return b.create<arith::ConstantIndexOp>(loc, value); }

  void standAt(const KernelAxis &axis, Value start) {
    symbols[axis.start] = start;
    if (!axis.size)
      return;
    Value left = b.create<arith::SubIOp>(loc, size(b, loc, axis.end), start);
    symbols[*axis.size] = b.create<arith::MinSIOp>(loc, left, constant(axis.tile));
  }

  Value loadScalar(BufferId id) {
    Value memory = buffer(id);
    return b.create<tile::LoadOp>(loc, cast<tile::BufferType>(memory.getType()).getElementType(), memory, constant(0),
                                  ArrayRef<OpFoldResult>{});
  }

  void emit(const Region &region) {
    for (const auto &item : region.items)
      std::visit([&](const auto &typed) { emit(typed); }, item);
  }

  void emit(const KernelBlock &block) {
    for (const KernelPlan::Piece &piece : plan.blocks.at(&block)) {
      if (piece.matrix) {
        Value panels =
            b.create<tile::ScratchOp>(loc, tile::BufferType::get(elementType(b, piece.matrix->panel)), shared);
        emitContractInside(b, loc, piece.group, *piece.matrix, *this, panels);
      } else {
        emitLoopsInside(b, loc, piece.group, piece.loops, plan.target, *this, shared);
      }
    }
  }

  void emit(const KernelFor &item) {
    auto loop =
        b.create<scf::ForOp>(loc, size(b, loc, item.axis.begin), size(b, loc, item.axis.end), constant(item.axis.tile));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    standAt(item.axis, loop.getInductionVar());
    emit(*item.body);
  }

  void emit(const KernelIf &item) {
    auto choice = b.create<scf::IfOp>(loc, loadScalar(item.condition), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(choice.thenBlock());
    emit(*item.then);
    b.setInsertionPointToStart(choice.elseBlock());
    emit(*item.otherwise);
  }

  void emit(const KernelWhile &item) {
    auto loop = b.create<scf::WhileOp>(loc, TypeRange(), ValueRange());
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&loop.getBefore());
    emit(*item.before);
    b.create<scf::ConditionOp>(loc, loadScalar(item.condition), ValueRange());
    b.createBlock(&loop.getAfter());
    emit(*item.body);
    b.create<scf::YieldOp>(loc);
  }

  void emit(const KernelBind &item) {
    Value value = b.create<arith::IndexCastOp>(loc, b.getIndexType(), loadScalar(item.value));
    Value low = size(b, loc, item.min), high = size(b, loc, item.max);
    Value span = b.create<arith::AddIOp>(loc, b.create<arith::SubIOp>(loc, high, low), constant(1));
    Value offset = b.create<arith::SubIOp>(loc, value, low);
    offset =
        b.create<tile::CheckIndexOp>(loc, offset.getType(), offset, span, ValueRange(), b.getI64IntegerAttr(item.site));
    symbols[item.symbol] = b.create<arith::AddIOp>(loc, offset, low);
  }
};

} // namespace

std::shared_ptr<const KernelPlan> planKernel(Module &module, const Nest &nest, const TileTarget &target) {
  return Planner(module, nest, target).run();
}

KernelArguments argumentsOf(const KernelPlan &plan) {
  KernelArguments result;
  for (const auto &[buffer, type] : plan.body->arguments) {
    result.buffers.push_back(buffer);
    result.bufferTypes.push_back(type);
  }
  for (unsigned s = 0; s < plan.moduleSymbols; ++s)
    result.ints.push_back(SizeExpr::symbol(s));
  for (unsigned s = 0; s < plan.sites; ++s)
    result.sites.push_back(s);
  return result;
}

LaunchPlan launchOf(const KernelPlan &plan) { return plan.launch; }

namespace {

class Writer {
public:
  explicit Writer(const KernelPlan &plan) : plan(plan) {}

  std::string run() {
    for (const KernelAxis &axis : plan.body->grid)
      line("grid " + text(axis));
    region(plan.body->body);
    for (const auto &[id, offset] : plan.scratch)
      line("tile b" + std::to_string(id) + " " + std::string(nameOf(plan.types.at(id))) + " at " + offset.str());
    line("scratch " + plan.bytes.str() + " bytes a thread");
    return out;
  }

private:
  const KernelPlan &plan;
  std::string out;
  unsigned depth = 0;

  void line(const std::string &text) { out += std::string(2 * depth, ' ') + text + "\n"; }

  static std::string text(const KernelAxis &axis) {
    std::string result = axis.name + ": s" + std::to_string(axis.start);
    if (axis.size)
      result += ", s" + std::to_string(*axis.size);
    return result + " in [" + axis.begin.str() + ", " + axis.end.str() + ") by " + std::to_string(axis.tile);
  }

  void inner(const Region &r) {
    ++depth;
    region(r);
    --depth;
  }

  void region(const Region &r) {
    for (const auto &item : r.items) {
      if (auto *block = std::get_if<KernelBlock>(&item)) {
        for (const KernelPlan::Piece &piece : plan.blocks.at(block)) {
          std::string all = str(piece.group);
          for (size_t at = 0; at < all.size();) {
            size_t end = all.find('\n', at);
            line(all.substr(at, end - at));
            at = end == std::string::npos ? all.size() : end + 1;
          }
        }
      } else if (auto *loop = std::get_if<KernelFor>(&item)) {
        line("for " + text(loop->axis));
        inner(*loop->body);
      } else if (auto *choice = std::get_if<KernelIf>(&item)) {
        line("if b" + std::to_string(choice->condition));
        inner(*choice->then);
        line("else");
        inner(*choice->otherwise);
      } else if (auto *again = std::get_if<KernelWhile>(&item)) {
        line("while");
        inner(*again->before);
        line("do, if b" + std::to_string(again->condition));
        inner(*again->body);
      } else {
        const auto &bind = std::get<KernelBind>(item);
        line("s" + std::to_string(bind.symbol) + " = b" + std::to_string(bind.value));
      }
    }
  }
};

} // namespace

std::string str(const KernelPlan &plan) { return Writer(plan).run(); }

std::string keyOf(const KernelPlan &plan) {
  std::string key = "kernel " + std::to_string(plan.moduleSymbols) + "\n" + plan.body->text;
  for (const auto &tile : plan.body->largest)
    key += tile ? " " + std::to_string(*tile) : " -";
  return key;
}

OwningOpRef<ModuleOp> emitKernel(MLIRContext &context, const KernelPlan &plan, llvm::StringRef name) {
  OpBuilder b(&context);
  Location loc = NameLoc::get(b.getStringAttr(name));
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  SmallVector<Type> types;
  for (const auto &[buffer, type] : plan.body->arguments)
    types.push_back(tile::BufferType::get(elementType(b, type)));
  auto kernel = b.create<tile::KernelOp>(loc, name, types, plan.moduleSymbols);
  Emitter(b, loc, plan).run(kernel);
  return module;
}

} // namespace tilewright::loop
