"""Constraints between tunables: arithmetic text that is checked and evaluated without running any of it as Python.

A constraint comes from a candidate, which nobody trusts, and is evaluated in processes that hold expected values. So
there is no ``eval``: the text becomes a tree of closures over a fixed list of operators, and the operators that could
make a huge value out of a short text (powers, shifts, repeated strings) are bounded.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from kernelevolve.candidates.syntax import expression_tree
from kernelevolve.candidates.tunable import Value, is_number

Evaluate: TypeAlias = Callable[[Mapping[str, Value]], Any]

_MAX_EXPONENT = 64
_MAX_DEPTH = 64


def _multiply(a: Any, b: Any) -> Any:
    if isinstance(a, (str, tuple)) or isinstance(b, (str, tuple)):
        raise TypeError("only numbers can be multiplied")
    return a * b


def _power(a: Any, b: Any) -> Any:
    if not (is_number(a) and is_number(b)) or abs(b) > _MAX_EXPONENT:
        raise OverflowError("the exponent is too large")
    return a**b


def _shift_left(a: int, b: int) -> int:
    if b > _MAX_EXPONENT:
        raise OverflowError("the shift is too large")
    return a << b


def _modulo(a: Any, b: Any) -> Any:
    if not is_number(a):
        raise TypeError("only numbers have a remainder")  # a string would be formatted
    return a % b


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: _multiply, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: _modulo, ast.LShift: _shift_left, ast.Pow: _power,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


class Constraint:
    """One constraint, ready to be asked. Raises ValueError if the text is not arithmetic over ``names``."""

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self.text = text
        self._names = frozenset(names)
        try:
            tree = expression_tree(text.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"constraint {text!r} is not an expression") from None
        self._evaluate = self._compile(tree.body, 0)

    def __reduce__(self) -> tuple[type[Constraint], tuple[str, frozenset[str]]]:
        return Constraint, (self.text, self._names)

    def holds(self, config: Mapping[str, Value]) -> bool:
        """True if the configuration satisfies it; a division by zero or an overflow does not."""
        try:
            return bool(self._evaluate(config))
        except (ArithmeticError, TypeError, ValueError):
            return False

    def _compile(self, node: ast.expr, depth: int) -> Evaluate:
        if depth > _MAX_DEPTH:
            raise ValueError(f"constraint {self.text!r} is nested too deeply")
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return lambda config: value
            case ast.Name(id=name):
                if name not in self._names:
                    raise ValueError(f"constraint {self.text!r} names {name!r}, which is not a tunable")
                return lambda config: config[name]
            case ast.UnaryOp(op=op) if type(op) in _UNARY:
                apply, inner = _UNARY[type(op)], self._compile(node.operand, depth + 1)
                return lambda config: apply(inner(config))
            case ast.BinOp(op=op) if type(op) in _BINARY:
                return self._binary(_BINARY[type(op)], node.left, node.right, depth)
            case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
                return self._comparison(node, depth)
            case ast.BoolOp(op=op):
                parts = [self._compile(value, depth + 1) for value in node.values]
                if isinstance(op, ast.And):
                    return lambda config: all(part(config) for part in parts)
                return lambda config: any(part(config) for part in parts)
            case ast.IfExp():
                test, body, other = (self._compile(n, depth + 1) for n in (node.test, node.body, node.orelse))
                return lambda config: body(config) if test(config) else other(config)
            case ast.Tuple():
                items = [self._compile(item, depth + 1) for item in node.elts]
                return lambda config: tuple(item(config) for item in items)
        raise ValueError(f"constraint {self.text!r} may use arithmetic and comparisons only")

    def _binary(self, apply: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr, depth: int) -> Evaluate:
        a, b = self._compile(left, depth + 1), self._compile(right, depth + 1)
        return lambda config: apply(a(config), b(config))

    def _comparison(self, node: ast.Compare, depth: int) -> Evaluate:
        operands = [self._compile(operand, depth + 1) for operand in (node.left, *node.comparators)]
        tests = [_COMPARE[type(op)] for op in node.ops]

        def evaluate(config: Mapping[str, Value]) -> bool:
            found = [operand(config) for operand in operands]
            return all(test(a, b) for test, a, b in zip(tests, found, found[1:], strict=False))

        return evaluate
