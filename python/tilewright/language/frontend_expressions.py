"""Expressions of a kernel: syntax tree -> values of the builder or compile-time Python values."""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any, NoReturn

from . import arithmetic, indexing, loops, ops_checks, ops_tile, other_names
from .arithmetic import Span, is_compile_time, is_size
from .bounds import Axis
from .builder import Builder, Frame, Param, Tile, describe, show_size, show_tile
from .frontend_analysis import RETURN, analyse
from .frontend_names import Capture, attribute, check_capture, is_kernel, look_up
from .frontend_python import PYTHON
from .indexing import Slice
from .other_names import KEYWORDS, NAMES, instead_of
from .registry import BUILTINS, METHODS
from .sizes import Size, size
from .source import KernelError, source_of
from .types import DTYPES, DType, DTypeParameter, bool_, from_torch, is_torch_dtype

Environment = dict[str, Any]

_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.BitAnd: "&",
    ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_UNARY = {ast.UAdd: "+", ast.USub: "-", ast.Invert: "~"}

_UNSUPPORTED: dict[type, tuple[str, str]] = {
    ast.Lambda: ("lambda", "a function written with def outside of the kernel"),
    ast.JoinedStr: ("an f-string", "a plain string; tw.print takes values after its text"),
    ast.Dict: ("a dict", "variables or tuples"),
    ast.Set: ("a set", "a tuple"),
    ast.DictComp: ("a dict comprehension", "variables or tuples"),
    ast.SetComp: ("a set comprehension", "a tuple"),
    ast.Yield: ("yield", "a store to an Out"),
    ast.YieldFrom: ("yield from", "a store to an Out"),
    ast.Await: ("await", "plain code"),
    ast.NamedExpr: ("`:=`", "an assignment before the expression"),
    ast.Starred: ("`*` in an expression", "the items written out"),
}


#: Their Python functions are no helpers.
_LIBRARIES = ("torch", "numpy", "triton", "jax")


class Poison:
    """What a variable holds that has no value at this place, and why."""

    __slots__ = ("hint", "message")

    def __init__(self, message: str, hint: str) -> None:
        self.message, self.hint = message, hint


class Method:
    """`x.sum` before it is called."""

    __slots__ = ("function", "owner")

    def __init__(self, owner: Tile, function: Callable[..., Any]) -> None:
        self.owner, self.function = owner, function

    @property
    def __name__(self) -> str:
        return f"x.{self.function.__name__}"


class Expressions:
    """Evaluates expressions in the environment of the function that is being traced."""

    def __init__(self, builder: Builder, dtypes: dict[str, DType], public: dict[str, Any]) -> None:
        self.b = builder
        builder.call = self.call
        self.dtypes = dtypes
        self.public = public
        self.env: Environment = {}
        self.captures: dict[tuple[int, str], Capture] = {}
        self.loop_depth = 0

    def fail(self, message: str, hint: str = "", node: ast.AST | None = None) -> NoReturn:
        self.b.fail(message, hint, node)

    def evaluate(self, node: ast.expr) -> Any:
        frame = self.b.frames[-1]
        outer, frame.node = frame.node, node
        method = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            what, hint = _UNSUPPORTED.get(type(node), (f"a {type(node).__name__}", "what docs/language.md lists"))
            self.fail(f"{what} cannot be used in a kernel", hint)
        value = method(node)
        frame.node = outer
        return value

    # -- leaves --------------------------------------------------------------------------------------------------------

    def _Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, (complex, bytes)):
            self.fail(f"{node.value!r} cannot be used in a kernel", "numbers that are int, float or bool")
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        value = self.env.get(node.id, self)
        if value is self:
            frame = self.b.frames[-1]
            if node.id in analyse(frame.source).locals:
                self.fail(f"{node.id} is used before it is assigned", f"{node.id} = ... before this line")
            value = self.resolve(look_up(self.b, frame.source.function, node.id, self.captures, self.public))
        if isinstance(value, Poison):
            self.fail(value.message, value.hint)
        if isinstance(value, Axis) and value.ended:
            self.fail(
                f"the axis {value.name} is used after its loop",
                "a variable assigned inside of the loop, or the loop's size",
            )
        return value

    def resolve(self, value: Any) -> Any:
        """dtype parameters become what the specialisation says; symbols must be some parameter's."""
        if isinstance(value, DTypeParameter):
            if value.name not in self.dtypes:
                self.fail(
                    f"the dtype {value.name} is used, and no parameter has it",
                    f"a parameter X: tw.In[{value.name}, ...]",
                )
            return self.dtypes[value.name]
        if isinstance(value, Size):
            for name in sorted(value.symbols()):
                if name not in self.b.symbols:
                    self.fail(
                        f"the size {name} is used, and no parameter has it",
                        f"one of {', '.join(n for n in self.b.symbols if '@' not in n) or 'the parameters sizes'}, or a parameter of the size {name}",
                    )
            return arithmetic.plain(value)
        if is_torch_dtype(value):
            dtype = from_torch(value)
            if dtype is None:
                self.fail(f"{value} is no dtype of kernels", ", ".join(map(repr, DTYPES.values())))
            return dtype
        return value

    def _Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.evaluate(e) for e in node.elts)

    def _List(self, node: ast.List) -> Any:
        return tuple(self.evaluate(e) for e in node.elts)

    def _Slice(self, node: ast.Slice) -> Slice:
        return Slice(*(None if part is None else self.evaluate(part) for part in (node.lower, node.upper, node.step)))

    def _ListComp(self, node: ast.ListComp) -> Any:
        return self._comprehension(node)

    def _GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> tuple[Any, ...]:
        """Written out: everything that it runs over must be there at compile time."""
        results: list[Any] = []
        saved = dict(self.env)

        def level(k: int) -> None:
            if k == len(node.generators):
                results.append(self.evaluate(node.elt))
                return
            generator = node.generators[k]
            for value in self.compile_time_items(self.evaluate(generator.iter), generator.iter):
                self.bind(generator.target, value)
                if all(self.decided(test) for test in generator.ifs):
                    level(k + 1)

        level(0)
        self.env = saved
        return tuple(results)

    def compile_time_items(self, value: Any, node: ast.AST) -> list[Any]:
        if isinstance(value, (tuple, range)):
            return list(value)
        if (
            isinstance(value, loops.Range)
            and value.scalar
            and is_compile_time(value.begin)
            and is_compile_time(value.end)
        ):
            return list(range(value.begin, value.end, value.step))
        shown = "run-time indices" if isinstance(value, (loops.Range, loops.Parallel)) else describe(value)
        self.fail(f"a comprehension over {shown}", "a `for` loop, or something that is there at compile time", node)

    def decided(self, node: ast.expr) -> bool:
        value = self.evaluate(node)
        if isinstance(value, (Tile, Size)):
            self.fail("a condition of a comprehension is known only at run time", "a compile-time condition", node)
        return bool(value)

    # -- operators -----------------------------------------------------------------------------------------------------

    def _BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.evaluate(node.left), self.evaluate(node.right)
        if isinstance(node.op, (ast.Add, ast.Sub)):
            for base, offset, part in ((left, right, node.right), (right, left, node.left)):
                if isinstance(base, Param) and indexing.is_index(offset):
                    shown = ast.unparse(part) if isinstance(node.op, ast.Add) else "i"
                    self.fail(
                        f"`{_BINARY[type(node.op)]}` of the parameter {base.name} and {describe(offset)}: parameters are"
                        " tensors, not pointers",
                        indexing.access(base, "", shown),
                    )
        return self.binary(node.op, left, right)

    def binary(self, operator: ast.operator, x: Any, y: Any) -> Any:
        if isinstance(operator, ast.MatMult):
            return ops_tile.matmul(x, y)
        return arithmetic.binary(self.b, _BINARY[type(operator)], x, y)

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        x = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            if isinstance(x, Tile):
                self._check_scalar_bool(x, "not", "~")
                return arithmetic.unary(self.b, "~", x)
            if isinstance(x, (Size, Axis, Span, Param)):
                self.fail(f"`not` of {describe(x)}", "a comparison, such as N == 0")
            return not x
        return arithmetic.unary(self.b, _UNARY[type(node.op)], x)

    def _check_scalar_bool(self, x: Tile, word: str, instead: str) -> None:
        if x.shape:
            self.fail(
                f"`{word}` of {show_tile(x)}: a tile has no single truth value",
                f"`{instead}`, in parentheses around comparisons",
            )
        if not x.dtype.is_bool:
            self.fail(f"`{word}` of {show_tile(x)}, which is no bool", "a comparison, such as n != 0")

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        word, instead = ("and", "&") if is_and else ("or", "|")
        result: Any = None
        for part in node.values:
            value = self.evaluate(part)
            if isinstance(value, (Size, Axis, Span, Param)):
                self.fail(f"`{word}` of {describe(value)}", "a comparison, such as N == 0", part)
            if isinstance(value, Tile):
                self._check_scalar_bool(value, word, instead)
                result = (
                    value
                    if not isinstance(result, Tile)
                    else self.b.emit("and" if is_and else "or", (result, value), bool_, ())
                )
            elif bool(value) != is_and:
                return value if not isinstance(result, Tile) else bool(value)
            elif not isinstance(result, Tile):
                result = value
        return result

    def _Compare(self, node: ast.Compare) -> Any:
        left = self.evaluate(node.left)
        results: list[Any] = []
        for operator, part in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(part)
            if isinstance(operator, (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
                results.append(self._identity(operator, left, right))
            else:
                results.append(arithmetic.compare(self.b, _COMPARE[type(operator)], left, right))
            left = right
        if len(results) == 1:
            return results[0]
        if any(r is False for r in results):
            return False
        tiles = [r for r in results if isinstance(r, Tile)]
        for r in tiles:
            if r.shape:
                self.fail("a chain of comparisons of tiles", "(a <= x) & (x < b)")
        if not tiles:
            return True
        result = tiles[0]
        for r in tiles[1:]:
            result = self.b.emit("and", (result, r), bool_, ())
        return result

    def _identity(self, operator: ast.cmpop, left: Any, right: Any) -> bool:
        word = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}[type(operator)]
        if isinstance(operator, (ast.Is, ast.IsNot)) and (right is None or left is None):
            return (left is right) == isinstance(operator, ast.Is)
        if not is_compile_time(left) or not is_compile_time(right):
            self.fail(f"`{word}` of run-time values", "`==`, or `x is None` of a compile-time constant")
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return (left is right or (isinstance(left, DType) and left == right)) == isinstance(operator, ast.Is)
        return (left in right) == isinstance(operator, ast.In)

    # -- subscripts and attributes -------------------------------------------------------------------------------------

    def index(self, node: ast.expr) -> Any:
        return self.evaluate(node)

    def _Subscript(self, node: ast.Subscript) -> Any:
        base = self.evaluate(node.value)
        index = self.index(node.slice)
        if isinstance(base, Param):
            return indexing.load_param(self.b, base, index)
        if isinstance(base, Tile):
            return indexing.index_tile(self.b, base, index)
        if isinstance(base, (tuple, str)):
            if isinstance(index, Slice) and all(
                part is None or isinstance(part, int) for part in (index.start, index.stop, index.step)
            ):
                return base[slice(index.start, index.stop, index.step)]
            if not isinstance(index, int):
                self.fail(
                    f"a tuple is indexed by {describe(index)}, which is known only at run time",
                    "a compile-time int, or tw.static_range",
                )
            if not -len(base) <= index < len(base):
                self.fail(f"the index {index} of a tuple of {len(base)}", f"an index below {len(base)}")
            return base[index]
        self.fail(f"{describe(base)} cannot be indexed", "a parameter, a tile or a tuple")

    def _Attribute(self, node: ast.Attribute) -> Any:
        base = self.evaluate(node.value)
        name = node.attr
        if isinstance(base, Tile):
            return self._tile_attribute(base, name)
        if isinstance(base, Axis):
            return self._axis_attribute(base, name)
        if isinstance(base, Param):
            known = {"shape": tuple(map(arithmetic.plain, base.sizes)), "dtype": base.dtype, "ndim": len(base.sizes)}
            if name in known:
                return known[name]
            whole = indexing.example(base, ":")
            self.fail(
                f"the parameter {base.name} has no attribute {name}",
                f"{whole}.{name}, of a tile"
                if name in METHODS or name == "T"
                else re.sub(r"\bx\b", base.name, NAMES.get(name, ""))
                or f"{base.name}.shape, {base.name}.dtype, {base.name}.ndim, or {whole} for a tile",
            )
        if is_size(base) and name in ("start", "size", "stop"):  # an axis with tile=1 is its index
            return {"start": base, "size": 1, "stop": base + 1}[name]
        if isinstance(base, (Size, Span, Slice)):
            self.fail(f"{describe(base)} has no attribute {name}", "an axis, a tile or a parameter before the dot")
        return self.resolve(attribute(self.b, base, name, self.captures, self.public))

    def _tile_attribute(self, x: Tile, name: str) -> Any:
        if name in ("dtype", "ndim", "shape"):
            return {"dtype": x.dtype, "ndim": len(x.shape), "shape": tuple(map(arithmetic.plain, x.shape))}[name]
        if name == "T":
            if len(x.shape) != 2:
                self.fail(
                    f".T of {show_tile(x)}, which is no matrix",
                    "tw.transpose(x) for the last two dimensions, or tw.permute",
                )
            return ops_tile.transpose(x)
        if name in METHODS:
            return Method(x, METHODS[name])
        hint = (
            f"tw.{name}(x)"
            if name in self.public
            else other_names.METHODS.get(name) or instead_of(name, METHODS, "x.{}()")
        )
        self.fail(
            f"a tile has no attribute {name}",
            hint or "x.T, x.shape, x.dtype, x.ndim, or a method that docs/language.md lists",
        )

    def _axis_attribute(self, axis: Axis, name: str) -> Any:
        if name == "start":
            return arithmetic.plain(axis.start)
        if name == "size":
            return arithmetic.plain(axis.size)
        if name == "stop":
            return arithmetic.plain(axis.start + axis.size)
        if name == "index":
            if axis.tile is None:
                self.fail(
                    f"{axis.name}.index counts tiles, and the compiler chooses how long the tiles of {axis.name} are",
                    f"an explicit size: tile=64, or {axis.name}.start",
                )
            return arithmetic.plain((axis.start - axis.begin - axis.first) // axis.tile)
        self.fail(
            f"the axis {axis.name} has no attribute {name}",
            f"{axis.name}.start, {axis.name}.size, {axis.name}.stop or {axis.name}.index",
        )

    def _IfExp(self, node: ast.IfExp) -> Any:
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            return self.evaluate(node.body if condition else node.orelse)
        return self.select_expression(condition, node)

    def select_expression(self, condition: Tile, node: ast.IfExp) -> Any:
        raise NotImplementedError

    def condition(self, node: ast.expr) -> bool | Tile:
        """A condition of `if` or `while`: decided now, or a rank-0 bool."""
        value = self.evaluate(node)
        if isinstance(value, Tile):
            if value.shape:
                self.fail(
                    f"the truth value of {show_tile(value)}: a tile has no single one",
                    "tw.where(condition, x, y), or tw.any(condition) / tw.all(condition)",
                    node,
                )
            if not value.dtype.is_bool:
                self.fail(f"the truth value of {show_tile(value)}", "a comparison, such as n != 0", node)
            return value
        if isinstance(value, (Size, Axis, Span, Param, Method)):
            self.fail(f"the truth value of {describe(value)}", "a comparison, such as N != 0", node)
        return bool(value)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _Call(self, node: ast.Call) -> Any:
        function = self.evaluate(node.func)
        if function is ops_checks.static_assert:
            return self._static_assert(node)
        args: list[Any] = []
        for a in node.args:
            if not args and isinstance(a, ast.Subscript) and function in (indexing.store, indexing.atomic_add):
                base = self.evaluate(a.value)
                if isinstance(base, Param):
                    self.fail(
                        f"tw.{function.__name__} takes a parameter and an index, not an element",
                        f"tw.{function.__name__}({base.name}, {_as_argument(a.slice)}, value)",
                        a,
                    )
            if isinstance(a, ast.Starred):
                items = self.evaluate(a.value)
                if not isinstance(items, tuple):
                    self.fail(f"`*` of {describe(items)} in a call", "a tuple", a)
                args += items
            else:
                args.append(self.evaluate(a))
        keywords: dict[str, Any] = {}
        for k in node.keywords:
            if k.arg is None:
                self.fail("`**` in a call", "arguments by name", k.value)
            keywords[k.arg] = self.evaluate(k.value)
        return self.call(function, args, keywords)

    def call(self, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        if isinstance(function, Method):
            function, args = function.function, [function.owner, *args]
        if isinstance(function, FunctionType):
            if function in BUILTINS:
                return self._call_builtin(function, args, keywords)
            if (function.__module__ or "").partition(".")[0] not in _LIBRARIES:
                return self.inline(function, args, keywords)
        if isinstance(function, DType):
            if len(args) != 1 or keywords:
                self.fail(f"{function} takes one value", "x.to(dtype)")
            return arithmetic.convert(self.b, args[0], function)
        if is_kernel(function):
            self.fail(
                f"the kernel {function.name} is called inside of a kernel",
                "a helper: a plain function without @tw.kernel",
            )
        handler = PYTHON.get(function) if isinstance(function, (type, types.BuiltinFunctionType)) else None
        if handler is not None:
            return handler(self, args, keywords)
        if getattr(function, "__module__", None) == "math" and callable(function):
            return self._call_math(function, args, keywords)
        if not callable(function):
            self.fail(f"{describe(function)} is called, and it is no function", "a function of tw, or a helper")
        name = getattr(function, "__name__", type(function).__name__)
        self.fail(
            f"{getattr(function, '__module__', '') or ''}.{name} cannot be called in a kernel".lstrip("."),
            f"tw.{name}"
            if name in self.public
            else NAMES.get(name) or "functions of tw, of math on compile-time numbers, and plain Python helpers",
        )

    def _call_builtin(self, function: FunctionType, args: list[Any], keywords: dict[str, Any]) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError:
            signature = inspect.signature(function)
            try:
                signature.bind(*args, **keywords)
            except TypeError as error:
                self.fail(f"tw.{function.__name__}: {error}", self._usage(function, signature, args, keywords))
            raise

    def _usage(
        self, function: FunctionType, signature: inspect.Signature, args: list[Any], keywords: dict[str, Any]
    ) -> str:
        """What to write instead of a call whose arguments a function does not take."""
        if function in (indexing.load, indexing.store, indexing.atomic_add) and args:
            for name in keywords.keys() & KEYWORDS.keys():
                return KEYWORDS[name]
            if isinstance(args[0], Param) and len(args) + len(keywords) == 1:
                return indexing.access(args[0], function.__name__)
            if isinstance(args[0], Tile) and function is indexing.load:
                return "the tile itself, which is loaded; tw.load(X, i, fill=0.0) for elements outside of X"
        bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        return f"tw.{function.__name__}{signature.replace(parameters=bare, return_annotation=signature.empty)}"

    def _call_math(self, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        name = function.__name__
        if not all(is_compile_time(a) for a in args):
            self.fail(
                f"math.{name} of a run-time value",
                f"tw.{name}" if name in self.public else NAMES.get(name) or "a function of tw",
            )
        try:
            return function(*args, **keywords)
        except (TypeError, ValueError, OverflowError) as error:
            self.fail(f"math.{name}: {error}", "numbers that it takes")

    def _static_assert(self, node: ast.Call) -> None:
        """On sizes, a relation that is checked when sizes are known, and relied on from here."""
        if not node.args:
            self.fail("tw.static_assert without a condition", 'tw.static_assert(condition, "message")')
        message = "a static assertion does not hold"
        if len(node.args) > 1:
            message = self.evaluate(node.args[1])
        for k in node.keywords:
            if k.arg == "message":
                message = self.evaluate(k.value)
        if not isinstance(message, str):
            self.fail(f"the message of tw.static_assert is {describe(message)}", "a string")
        test = node.args[0]
        conditions = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        for condition in conditions:
            if isinstance(condition, ast.Compare) and len(condition.ops) == 1 and type(condition.ops[0]) in _COMPARE:
                x, y = self.evaluate(condition.left), self.evaluate(condition.comparators[0])
                x, y = (v.size if isinstance(v, Tile) and v.size is not None else v for v in (x, y))
                if is_size(x) and is_size(y) and not (isinstance(x, int) and isinstance(y, int)):
                    self._assume(_COMPARE[type(condition.ops[0])], size(x), size(y), message)
                    continue
                ops_checks.static_assert(arithmetic.compare(self.b, _COMPARE[type(condition.ops[0])], x, y), message)
            else:
                value = self.evaluate(condition)
                ops_checks.static_assert(bool(value) if is_compile_time(value) else value, message)

    def _assume(self, sign: str, x: Size, y: Size, message: str) -> None:
        if sign in (">", ">="):
            x, y, sign = y, x, {">": "<", ">=": "<="}[sign]
        known = arithmetic.decide(self.b, sign, x, y)
        if known is False:
            self.fail(message, "sizes for which it holds")
        if known:
            return
        if not self.b.bounds.is_global(x - y):
            self.fail(
                f"tw.static_assert of {show_size(x)} {sign} {show_size(y)}, which is not fixed by the sizes of parameters",
                "tw.assert_",
            )
        self.b.relate(
            {"<=": "le", "<": "lt", "==": "eq", "!=": "ne"}[sign],
            x,
            y,
            f"line {self.b.place()[0]}: {message} ({{lhs}} {sign} {{rhs}})",
        )
        facts = {"<=": [y - x], "<": [y - x - 1], "==": [y - x, x - y], "!=": []}[sign]
        self.b.bounds.known += facts

    # -- helpers -------------------------------------------------------------------------------------------------------

    def inline(self, function: FunctionType, args: list[Any], keywords: dict[str, Any]) -> Any:
        """A call of a plain Python function: its body is traced here."""
        try:
            source = source_of(function)
        except KernelError as error:
            self.fail(error.message, error.hint)
        if any(frame.source.tree is source.tree for frame in self.b.frames):
            self.fail(f"{function.__name__} calls itself: recursion cannot be compiled", "a loop")
        try:
            bound = _signature(function).bind(*args, **keywords)
        except TypeError as error:
            self.fail(f"{function.__name__}: {error}", f"{function.__name__}{_signature(function)}")
        bound.apply_defaults()
        for p in _signature(function).parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                self.fail(f"the helper {function.__name__} takes *{p.name}", "parameters by name")
        env: Environment = {}
        for name, value in bound.arguments.items():
            env[name] = (
                value
                if any(value is a for a in (*args, *keywords.values()))
                else self.resolve(check_capture(self.b, name, value))
            )
        outer, depth = self.env, self.loop_depth
        self.env, self.loop_depth = env, 0
        self.b.frames.append(Frame(source))
        self.block(analyse(source).body)
        result = self.env.get(RETURN)
        if isinstance(result, Poison):
            self.fail(f"the helper {function.__name__} returns on some ways only", "`return` at its end")
        self.b.frames.pop()
        self.env, self.loop_depth = outer, depth
        return result

    def block(self, statements: list[ast.stmt]) -> None:
        raise NotImplementedError

    def bind(self, target: ast.expr, value: Any) -> None:
        raise NotImplementedError


def _as_argument(index: ast.expr) -> str:
    """The text of an index where no brackets stand around it."""
    if isinstance(index, ast.Tuple):
        return f"({', '.join(map(_as_argument, index.elts))})"
    if isinstance(index, ast.Slice):
        ends = [ast.unparse(end) if end is not None else "None" for end in (index.lower, index.upper)]
        return f"slice({', '.join(ends if index.lower is not None else ends[1:])})"
    return ast.unparse(index)


@lru_cache(maxsize=1024)
def _signature(function: FunctionType) -> inspect.Signature:
    return inspect.signature(function)
