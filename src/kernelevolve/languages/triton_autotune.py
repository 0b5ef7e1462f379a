"""Declares the tunables of ``@triton.autotune``: a candidate must not time itself, the tuner of the search does that.

The list of configurations is read without running the file and replaced by the one that ``CONFIG`` describes; with a
single configuration Triton's autotuner times nothing. The configurations that were listed become seeds.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kernelevolve.candidates.space import Bool, Choice, Int, PowerOfTwo, TunableSpace, Value
from kernelevolve.candidates.structure import CONFIG_NAME, SPACE_NAME, assigned, parse, read_space
from kernelevolve.errors import InvalidCandidate

_LAUNCH_OPTIONS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": None}
"""Keyword arguments of triton.Config besides the constants, with Triton's defaults."""
_STEPS = 100_000
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


def declare_autotune(source: str) -> str:
    """The source with every ``@triton.autotune`` of several configurations turned into TUNABLES and CONFIG.

    A kernel's tunables are called like its constants (``BLOCK``, ``num_warps``), after ``<kernel>_`` if names would
    meet; only those that differ between configurations become tunables. A source without such a decorator is returned
    as it is. Raises InvalidCandidate, naming the line, if the configurations cannot be read from the text.
    """
    tree = parse(source)
    found = [_read(tree, call, name) for name, call in _autotune_calls(tree) if not _has_one_config(call)]
    several = [autotune for autotune in found if len(autotune.configs) > 1]
    if not several:
        return source
    old = read_space(source)
    varying = [name for autotune in several for name in autotune.varying()]
    clash = len(set(varying)) < len(varying) or bool(set(varying) & set(old.tunables))
    tunables: dict[str, Any] = dict(old.tunables)
    seeds: list[Mapping[str, Value]] = list(old.seeds)
    edits: list[_Edit] = []
    for autotune in several:
        names = {name: f"{autotune.kernel}_{name}" if clash else name for name in autotune.varying()}
        for name, choice in autotune.varying().items():
            tunables[names[name]] = choice
        seeds += [{names[name]: config[name] for name in names} for config in autotune.configs]
        edits.append(_Edit.replacing(source, autotune.node, autotune.render(names)))
    space = _render(TunableSpace(tunables, old.constraints, seeds))
    return _apply(source, edits + _declaration(source, tree, space, min(a.node.lineno for a in several)))


@dataclass(frozen=True, slots=True)
class _Autotune:
    """One call of autotune: where its list is, and what is in it."""

    kernel: str
    node: ast.expr
    constructor: str
    """How the file spells triton.Config."""
    constants: tuple[str, ...]
    configs: tuple[dict[str, Any], ...]

    def varying(self) -> dict[str, Choice]:
        """The parameters that differ between configurations, starting with the first one's value."""
        choices = {}
        for name, first in self.configs[0].items():
            values = list(dict.fromkeys(config[name] for config in self.configs))
            if len(values) > 1:
                if all(isinstance(v, (int, float)) for v in values):
                    values.sort()
                choices[name] = Choice(*values, default=first)
        return choices

    def render(self, names: Mapping[str, str]) -> str:
        """The list with one configuration, in which tunables are read from CONFIG."""
        text = {n: f'{CONFIG_NAME}["{names[n]}"]' if n in names else repr(v) for n, v in self.configs[0].items()}
        constants = ", ".join(f'"{name}": {text[name]}' for name in self.constants)
        options = "".join(f", {name}={value}" for name, value in text.items() if name not in self.constants)
        return f"[{self.constructor}({{{constants}}}{options})]"


def _autotune_calls(tree: ast.Module) -> list[tuple[str, ast.Call]]:
    """Name of the kernel and the call, for decorators and for plain calls."""
    named = {
        id(decorator): node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _last_name(node.func) == "autotune"]
    return [(named.get(id(call), f"kernel{i}"), call) for i, call in enumerate(calls)]


def _configs(call: ast.Call) -> ast.expr | None:
    return next((k.value for k in call.keywords if k.arg == "configs"), call.args[0] if call.args else None)


def _has_one_config(call: ast.Call) -> bool:
    """True if the list is written out and has one element: nothing is timed then, whatever the element is."""
    node = _configs(call)
    return isinstance(node, ast.List) and len(node.elts) == 1 and not isinstance(node.elts[0], ast.Starred)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _read(tree: ast.Module, call: ast.Call, kernel: str) -> _Autotune:
    node = _configs(call)
    reader = _Reader(tree)
    try:
        if node is None:
            raise ValueError("there are no configs")
        configs = reader.value(node, {})
        if not isinstance(configs, list) or not all(isinstance(c, _Config) for c in configs) or not configs:
            raise ValueError("the configs are not a list of triton.Config")
        keys = {tuple(config.constants) for config in configs}
        if len({frozenset(k) for k in keys}) > 1:
            raise ValueError("the configs name different constants")
    except (ValueError, ArithmeticError, TypeError, KeyError, RecursionError) as error:
        raise InvalidCandidate(
            f"the configurations of @triton.autotune on {kernel} cannot be read: {error}", path="candidate.py",
            line=call.lineno, fix="write them as a list of triton.Config with literal values, or declare TUNABLES",
        ) from None  # fmt: skip
    used = [name for name in _LAUNCH_OPTIONS if any(name in config.options for config in configs)]
    merged = tuple(
        {**c.constants, **{name: c.options.get(name, _LAUNCH_OPTIONS[name]) for name in used}} for c in configs
    )
    return _Autotune(kernel, node, reader.constructor, tuple(configs[0].constants), merged)


@dataclass(frozen=True, slots=True)
class _Config:
    constants: dict[str, Any]
    options: dict[str, Any]


class _Reader:
    """Evaluates the few kinds of expression that lists of configurations are written with. Raises ValueError."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self._left = _STEPS
        self.constructor = "triton.Config"

    def value(self, node: ast.expr, scope: Mapping[str, Any]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError("there are too many of them")
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self._named(node.id, scope)
            case ast.List() | ast.Tuple():
                return [self.value(element, scope) for element in node.elts]
            case ast.Dict():
                keys = [self.value(key, scope) for key in node.keys if key is not None]
                return dict(zip(keys, (self.value(v, scope) for v in node.values), strict=True))
            case ast.ListComp() | ast.GeneratorExp():
                return self._comprehension(node, node.generators, scope)
            case ast.BinOp():
                return self._apply(node.op, self.value(node.left, scope), self.value(node.right, scope))
            case ast.Compare(ops=[op], comparators=[other]):
                return self._apply(op, self.value(node.left, scope), self.value(other, scope))
            case ast.BoolOp():
                values = [self.value(part, scope) for part in node.values]
                return all(values) if isinstance(node.op, ast.And) else any(values)
            case ast.IfExp():
                return self.value(node.body if self.value(node.test, scope) else node.orelse, scope)
            case ast.Call():
                return self._call(node, scope)
        raise ValueError(f"{ast.unparse(node)[:60]!r} is not made of literals")

    def _named(self, name: str, scope: Mapping[str, Any]) -> Any:
        if name in scope:
            return scope[name]
        value = assigned(self._tree, name)
        if value is None:
            raise ValueError(f"{name!r} is not a literal of this file")
        return self.value(value, {})

    def _apply(self, op: ast.AST, left: Any, right: Any) -> Any:
        numbers = all(isinstance(value, (int, float)) and abs(value) <= 1 << 40 for value in (left, right))
        small = not isinstance(op, ast.Pow) or (numbers and abs(right) <= 64)
        if type(op) in _OPERATORS and small and (numbers or isinstance(op, (ast.Add, ast.Eq, ast.NotEq))):
            return _OPERATORS[type(op)](left, right)
        raise ValueError("a list of configurations may use plain arithmetic only")

    def _comprehension(
        self, node: ast.ListComp | ast.GeneratorExp, generators: list[ast.comprehension], scope: Mapping[str, Any]
    ) -> list[Any]:
        if not generators:
            return [self.value(node.elt, scope)]
        first, *rest = generators
        found: list[Any] = []
        for item in self.value(first.iter, scope):
            inner = {**scope, **_bind(first.target, item)}
            if all(self.value(test, inner) for test in first.ifs):
                found += self._comprehension(node, rest, inner)
        return found

    def _call(self, node: ast.Call, scope: Mapping[str, Any]) -> Any:
        name = _last_name(node.func)
        if name == "Config":
            self.constructor = ast.unparse(node.func)
            return self._config(node, scope)
        arguments = [self.value(argument, scope) for argument in node.args]
        if name == "range" and arguments and len(range(*arguments)) <= _STEPS:
            return list(range(*arguments))
        if name == "list" and len(arguments) == 1:
            return list(arguments[0])
        function = self._functions.get(name)
        body = function.body[-1] if function is not None else None
        if function is not None and isinstance(body, ast.Return) and body.value is not None and len(function.body) == 1:
            return self.value(body.value, dict(zip((a.arg for a in function.args.args), arguments, strict=True)))
        raise ValueError(f"the call {ast.unparse(node)[:60]!r} cannot be followed")

    def _config(self, node: ast.Call, scope: Mapping[str, Any]) -> _Config:
        keywords = {str(k.arg): k.value for k in node.keywords}
        first = node.args[0] if node.args else keywords.pop("kwargs", ast.Dict(keys=[], values=[]))
        options = dict(zip(_LAUNCH_OPTIONS, (self.value(a, scope) for a in node.args[1:]), strict=False))
        unknown = set(keywords) - set(_LAUNCH_OPTIONS)
        if unknown:
            raise ValueError(f"triton.Config has {', '.join(sorted(unknown))}, which cannot be declared")
        constants = self.value(first, scope)
        return _Config(constants, options | {name: self.value(v, scope) for name, v in keywords.items()})


def _bind(target: ast.expr, item: Any) -> dict[str, Any]:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple):
        return {n: v for t, i in zip(target.elts, item, strict=True) for n, v in _bind(t, i).items()}
    raise ValueError("a comprehension may bind names only")


def _render(space: TunableSpace) -> str:
    kinds = {name: _render_tunable(tunable) for name, tunable in space.tunables.items()}
    lines = ["TunableSpace(", "    {"]
    lines += [f'        "{name}": {text},' for name, text in kinds.items()]
    lines += ["    },"]
    if space.constraints:
        lines += [f"    constraints={space.constraints!r},"]
    if space.seeds:
        lines += ["    seeds=(", *(f"        {dict(seed)!r}," for seed in space.seeds), "    ),"]
    return "\n".join([*lines, ")"])


def _render_tunable(tunable: object) -> str:
    match tunable:
        case Choice():
            return f"Choice({', '.join(map(repr, tunable.options))}, default={tunable.default!r})"
        case PowerOfTwo():
            return f"PowerOfTwo({tunable.low}, {tunable.high}, {tunable.default})"
        case Int():
            return f"Int({tunable.low}, {tunable.high}, {tunable.default}, {tunable.step})"
        case Bool():
            return f"Bool({tunable.default})"
    raise TypeError(f"unknown kind of tunable {type(tunable).__name__}")


@dataclass(frozen=True, slots=True)
class _Edit:
    """Bytes ``start:end`` of the source become ``text``."""

    start: int
    end: int
    text: str

    @classmethod
    def replacing(cls, source: str, node: ast.expr, text: str) -> _Edit:
        start = _offset(source, node.lineno, node.col_offset)
        return cls(start, _offset(source, node.end_lineno or node.lineno, node.end_col_offset or 0), text)

    @classmethod
    def after(cls, source: str, line: int, text: str) -> _Edit:
        start = _offset(source, line + 1, 0)
        return cls(start, start, text)


def _offset(source: str, line: int, column: int) -> int:
    # ast counts columns in UTF-8 bytes and breaks lines where the tokenizer does, not at form feeds.
    return sum(len(text.encode()) + 1 for text in source.split("\n")[: line - 1]) + column


def _apply(source: str, edits: list[_Edit]) -> str:
    data = source.encode()
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    return data.decode()


def _declaration(source: str, tree: ast.Module, space: str, before: int) -> list[_Edit]:
    """Edits that put TUNABLES and CONFIG above line ``before``, where the first kernel is decorated."""
    value = assigned(tree, SPACE_NAME)
    config = assigned(tree, CONFIG_NAME)
    if value is not None:
        if value.lineno > before or config is None or config.lineno > before:
            raise InvalidCandidate(
                "TUNABLES and CONFIG stand below @triton.autotune", path="candidate.py", line=value.lineno,
                fix="declare both above the kernels",
            )  # fmt: skip
        kinds = "from kernelevolve.candidates.space import Bool, Choice, Int, PowerOfTwo, TunableSpace\n"
        return [
            _Edit.replacing(source, value, space),
            _Edit.after(source, _header_end(tree, value.lineno), kinds),
        ]
    text = (
        "\nfrom kernelevolve.candidates.space import Choice, TunableSpace\n\n"
        f"{SPACE_NAME} = {space}\n{CONFIG_NAME} = {SPACE_NAME}.default\n"
    )
    return [_Edit.after(source, _header_end(tree, before), text)]


def _header_end(tree: ast.Module, before: int) -> int:
    """Last line of the imports above line ``before``, or of the docstring; 0 if there is neither."""
    header = [
        node.end_lineno or node.lineno
        for node in tree.body
        if node.lineno < before
        and (isinstance(node, (ast.Import, ast.ImportFrom)) or (node is tree.body[0] and isinstance(node, ast.Expr)))
    ]
    return max(header, default=0)
