//===- KernelProgram.cpp - reading kernel programs -------------------------===//
#include "tilewright/Graph/KernelProgram.h"

#include "Cursor.h"

#include <cmath>

namespace tilewright::kernel {
namespace {

using graph::Cursor;

/// Local symbols and values are numbered by the program; a damaged one must not make us allocate without bound.
constexpr size_t kMaxNumber = 1 << 20;

class Reader {
public:
  Program read(const Cursor &root) {
    if (int64_t version = root.at("version").integer(); version != Program::kVersion)
      root.at("version").fail("version " + std::to_string(version) + " is not supported; this reads version " +
                              std::to_string(Program::kVersion));
    root.onlyKeys({"version", "name", "file", "symbols", "params", "relations", "body"});
    program.name = root.at("name").string();
    if (auto file = root.find("file"))
      program.file = file->string();
    root.at("symbols").each([&](const Cursor &c) { program.symbols.push_back(c.string()); });
    program.symbolCount = program.symbols.size();
    collectSymbols(root.at("body"));
    root.at("params").each([&](const Cursor &c) { program.params.push_back(parameter(c)); });
    if (auto relations = root.find("relations"))
      relations->each([&](const Cursor &c) { program.relations.push_back(relation(c)); });
    program.body = statements(root.at("body"));
    return std::move(program);
  }

private:
  Program program;
  std::vector<bool> defined;

  void local(const Cursor &c) {
    program.symbolCount = std::max<uint32_t>(program.symbolCount, c.index(kMaxNumber, "symbol") + 1);
  }

  /// Size expressions are checked against the number of all symbols, so that these come first.
  void collectSymbols(const Cursor &list) {
    list.each([&](const Cursor &c) {
      for (const char *key : {"axes", "axis"})
        if (auto axes = c.find(key)) {
          auto one = [&](const Cursor &axis) {
            if (!axis.value().is_object())
              return;
            local(axis.at("start"));
            if (auto size = axis.find("size"))
              local(*size);
          };
          if (axes->value().is_array())
            axes->each(one);
          else
            one(*axes);
        }
      if (c.at("op").string() == "bind")
        local(c.at("symbol"));
      for (const char *key : {"body", "then", "else", "condition"})
        if (auto inner = c.find(key))
          collectSymbols(*inner);
    });
  }

  SizeExpr size(const Cursor &c) { return c.size(program.symbolCount); }
  std::vector<SizeExpr> sizes(const Cursor &c) { return c.sizes(program.symbolCount); }

  Location location(const Cursor &c) {
    Location loc;
    if (auto found = c.find("loc")) {
      std::vector<int64_t> parts;
      found->each([&](const Cursor &part) { parts.push_back(part.integer()); });
      if (parts.size() != 2)
        found->fail("expected [line, column]");
      loc = {parts[0], parts[1]};
    }
    return loc;
  }

  Parameter parameter(const Cursor &c) {
    c.onlyKeys({"name", "kind", "dtype", "sizes", "layout", "symbol", "fresh", "loc"});
    Parameter result;
    result.name = c.at("name").string();
    result.dtype = c.at("dtype").dtype();
    result.loc = location(c);
    const std::string &kind = c.at("kind").string();
    if (kind == "scalar") {
      result.kind = Parameter::Scalar;
      if (auto symbol = c.find("symbol"); symbol && !symbol->value().is_null())
        result.symbol = symbol->index(program.symbols.size(), "symbol");
      return result;
    }
    if (kind != "in" && kind != "out" && kind != "inout")
      c.at("kind").fail("expected in, out, inout or scalar");
    result.kind = kind == "in" ? Parameter::In : kind == "out" ? Parameter::Out : Parameter::InOut;
    c.at("sizes").each([&](const Cursor &s) { result.sizes.push_back(s.size(program.symbols.size())); });
    const std::string &layout = c.at("layout").string();
    if (layout != "contiguous" && layout != "inner" && layout != "strided")
      c.at("layout").fail("expected contiguous, inner or strided");
    result.layout = layout == "contiguous" ? Parameter::Contiguous
                    : layout == "inner"    ? Parameter::Inner
                                           : Parameter::Strided;
    if (auto fresh = c.find("fresh"))
      result.fresh = fresh->value().is_boolean() && fresh->value().get<bool>();
    if (result.fresh && (result.kind != Parameter::Out || result.layout != Parameter::Contiguous))
      c.fail("only a contiguous output can be fresh");
    return result;
  }

  Relation relation(const Cursor &c) {
    c.onlyKeys({"op", "lhs", "rhs", "message"});
    const std::string &op = c.at("op").string();
    static const std::pair<const char *, Relation::Op> ops[] = {
        {"eq", Relation::Equal}, {"ne", Relation::NotEqual}, {"le", Relation::LessEqual}, {"lt", Relation::Less}};
    for (const auto &[name, value] : ops)
      if (op == name)
        return {value, c.at("lhs").size(program.symbols.size()), c.at("rhs").size(program.symbols.size()),
                c.at("message").string()};
    c.at("op").fail("expected eq, ne, le or lt");
  }

  Number number(const Cursor &c) {
    const auto &json = c.value();
    if (json.is_boolean())
      return {false, 0, json.get<bool>()};
    if (json.is_number_integer())
      return {false, 0, c.integer()};
    if (json.is_number_float())
      return {true, json.get<double>(), 0};
    const std::string &text = c.string();
    if (text == "inf" || text == "-inf")
      return {true, text[0] == '-' ? -INFINITY : INFINITY, 0};
    if (text == "nan")
      return {true, NAN, 0};
    c.fail("expected a number");
  }

  uint32_t use(const Cursor &c) {
    uint32_t id = c.index(kMaxNumber, "value");
    if (id >= defined.size() || !defined[id])
      c.fail("value " + std::to_string(id) + " is used before it is made");
    return id;
  }

  uint32_t define(const Cursor &c) {
    uint32_t id = c.index(kMaxNumber, "value");
    if (id >= defined.size())
      defined.resize(id + 1);
    if (defined[id])
      c.fail("value " + std::to_string(id) + " is made twice");
    defined[id] = true;
    program.valueCount = defined.size();
    return id;
  }

  Index index(const Cursor &c) {
    Index result;
    if (auto value = c.find("value")) {
      c.onlyKeys({"value", "dims"});
      result.value = use(*value);
      c.at("dims").each([&](const Cursor &d) { result.dims.push_back(d.index(64, "dimension")); });
      return result;
    }
    c.onlyKeys({"start", "terms"});
    result.start = size(c.at("start"));
    if (auto terms = c.find("terms"))
      terms->each([&](const Cursor &t) {
        if (!t.value().is_array() || t.value().size() != 2)
          t.fail("expected [dimension, step]");
        std::vector<Cursor> parts;
        t.each([&](const Cursor &part) { parts.push_back(part); });
        result.terms.push_back({parts[0].index(64, "dimension"), size(parts[1])});
      });
    return result;
  }

  Axis axis(const Cursor &c) {
    c.onlyKeys({"name", "start", "size", "begin", "end", "tile"});
    Axis result;
    if (auto name = c.find("name"))
      result.name = name->string();
    result.start = c.at("start").index(program.symbolCount, "symbol");
    result.begin = size(c.at("begin"));
    result.end = size(c.at("end"));
    const Cursor tile = c.at("tile");
    if (tile.value().is_string()) {
      if (tile.string() != "scalar")
        tile.fail("expected null, a number or \"scalar\"");
      result.tiling = Axis::Scalar;
      return result;
    }
    result.size = c.at("size").index(program.symbolCount, "symbol");
    if (!tile.value().is_null()) {
      result.tiling = Axis::Fixed;
      result.tile = tile.integer();
      if (result.tile < 1)
        tile.fail("a tile has at least one element");
    }
    return result;
  }

  std::vector<Statement> statements(const Cursor &list) {
    std::vector<Statement> result;
    list.each([&](const Cursor &c) { result.push_back(statement(c)); });
    return result;
  }

  void carriedIn(const Cursor &c, Statement &s) {
    if (auto carried = c.find("carried"))
      carried->each([&](const Cursor &entry) {
        entry.onlyKeys({"init", "arg", "next", "result"});
        s.carried.push_back({use(entry.at("init")), define(entry.at("arg")), 0, 0});
      });
  }

  void carriedOut(const Cursor &c, Statement &s) {
    size_t at = 0;
    if (auto carried = c.find("carried"))
      carried->each([&](const Cursor &entry) {
        s.carried[at].next = use(entry.at("next"));
        s.carried[at++].result = define(entry.at("result"));
      });
  }

  Statement statement(const Cursor &c) {
    Statement s;
    s.op = c.at("op").string();
    s.loc = location(c);
    if (s.op == "parallel" || s.op == "for") {
      c.onlyKeys({"op", "loc", "axes", "axis", "carried", "body"});
      if (s.op == "for")
        s.walked.push_back(axis(c.at("axis")));
      else
        c.at("axes").each([&](const Cursor &a) { s.walked.push_back(axis(a)); });
      carriedIn(c, s);
      s.body = statements(c.at("body"));
      carriedOut(c, s);
      return s;
    }
    if (s.op == "if") {
      c.onlyKeys({"op", "loc", "cond", "then", "else", "results"});
      s.condition = use(c.at("cond"));
      s.body = statements(c.at("then"));
      if (auto otherwise = c.find("else"))
        s.otherwise = statements(*otherwise);
      if (auto results = c.find("results"))
        results->each([&](const Cursor &r) {
          r.onlyKeys({"then", "else", "result"});
          s.merged.push_back({use(r.at("then")), use(r.at("else")), define(r.at("result"))});
        });
      return s;
    }
    if (s.op == "while") {
      c.onlyKeys({"op", "loc", "carried", "condition", "cond", "body"});
      carriedIn(c, s);
      s.otherwise = statements(c.at("condition"));
      s.condition = use(c.at("cond"));
      s.body = statements(c.at("body"));
      carriedOut(c, s);
      return s;
    }
    c.onlyKeys({"op",    "loc",        "id",     "dtype", "shape", "args",    "value", "size",
                "param", "axis",       "kind",   "axes",  "index", "map",     "fill",  "clip",
                "ids",   "descending", "symbol", "min",   "max",   "message", "text"});
    if (auto args = c.find("args"))
      args->each([&](const Cursor &a) { s.args.push_back(use(a)); });
    if (auto dtype = c.find("dtype"))
      s.dtype = dtype->dtype();
    if (auto shape = c.find("shape"))
      s.shape = sizes(*shape);
    if (auto value = c.find("value")) {
      if (s.op == "const")
        s.value = number(*value);
      else
        s.args.push_back(use(*value)); // store, atomic_add, bind
    }
    if (auto expression = c.find("size"))
      s.size = size(*expression);
    if (auto param = c.find("param"))
      s.param = param->index(program.params.size(), "parameter");
    if (auto found = c.find("axis"))
      s.axis = found->index(64, "dimension");
    if (auto kind = c.find("kind"))
      s.kind = kind->string();
    if (auto axes = c.find("axes"))
      axes->each([&](const Cursor &a) { s.axes.push_back(a.index(64, "dimension")); });
    for (const char *key : {"index", "map"})
      if (auto list = c.find(key))
        list->each([&](const Cursor &i) { s.index.push_back(index(i)); });
    if (auto fill = c.find("fill"); fill && !fill->value().is_null())
      s.fill = number(*fill);
    if (auto clip = c.find("clip"))
      s.clip = clip->value().is_boolean() && clip->value().get<bool>();
    if (auto descending = c.find("descending"))
      s.descending = descending->value().is_boolean() && descending->value().get<bool>();
    if (auto symbol = c.find("symbol"))
      s.symbol = symbol->index(program.symbolCount, "symbol");
    if (auto low = c.find("min"))
      s.min = size(*low);
    if (auto high = c.find("max"))
      s.max = size(*high);
    if (auto message = c.find("message"))
      s.message = message->string();
    if (auto id = c.find("id"))
      s.id = define(*id);
    if (auto ids = c.find("ids"))
      ids->each([&](const Cursor &i) { s.ids.push_back(define(i)); });
    return s;
  }
};

} // namespace

Program Program::parse(std::string_view text) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error &error) {
    throw graph::FormatError(std::string("no JSON: ") + error.what());
  }
  Program program = Reader().read(Cursor(json, "kernel"));
  program.text = text;
  return program;
}

bool Program::recognises(std::string_view text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("params");
}

std::string Program::where(const Location &loc) const {
  return (file.empty() ? name : file) + ":" + std::to_string(loc.line);
}

} // namespace tilewright::kernel
