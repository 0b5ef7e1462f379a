"""What can be known of a candidate without running it: its tunables, its shape, and the text for one configuration."""

from __future__ import annotations

import ast
from typing import Any

from kernelevolve.candidates.candidate import Candidate
from kernelevolve.candidates.space import Bool, Choice, Config, Int, PowerOfTwo, TunableSpace
from kernelevolve.errors import InvalidCandidate
from kernelevolve.hashing import digest_json

_KINDS: dict[str, Any] = {"PowerOfTwo": PowerOfTwo, "Int": Int, "Choice": Choice, "Bool": Bool}
SPACE_NAME, CONFIG_NAME, PLAN_NAME = "TUNABLES", "CONFIG", "PLAN"


def parse(source: str) -> ast.Module:
    """The syntax tree of a candidate; InvalidCandidate with the line if it is not Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise InvalidCandidate(
            f"the candidate is not valid Python: {getattr(error, 'msg', error)}",
            path="candidate.py", line=line, fix="correct the syntax",
        ) from None  # fmt: skip


def assigned(tree: ast.Module, name: str) -> ast.expr | None:
    """The value expression of the last module-level assignment to ``name``, or None."""
    found = None
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            found = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            found = node.value
    return found


def defines_model_new(source: str) -> bool:
    """True if the module has a top-level ``ModelNew`` class or assignment."""
    tree = parse(source)
    return assigned(tree, "ModelNew") is not None or any(
        isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in tree.body
    )


def read_space(source: str) -> TunableSpace:
    """The TunableSpace that a source declares as ``TUNABLES = TunableSpace(...)``, read without running it.

    Raises InvalidCandidate if the declaration is not made of literals. A source without one has an empty space.
    """
    value = assigned(parse(source), SPACE_NAME)
    if value is None:
        return TunableSpace()
    try:
        space = _literal(value)
    except (ValueError, TypeError) as error:
        raise InvalidCandidate(
            f"TUNABLES cannot be read: {str(error).splitlines()[0]}", path="candidate.py", line=value.lineno,
            fix="declare it as TunableSpace({'NAME': PowerOfTwo(low, high, default), ...}) with literal arguments",
        ) from None  # fmt: skip
    if not isinstance(space, TunableSpace):
        raise InvalidCandidate("TUNABLES is not a TunableSpace", path="candidate.py", line=value.lineno)
    return space


def read_plan(source: str) -> dict[str, Any]:
    """The structural decisions that a generated source records as ``PLAN = {...}``; {} if there are none."""
    value = assigned(parse(source), PLAN_NAME)
    if value is None:
        return {}
    try:
        plan = ast.literal_eval(value)
    except ValueError:
        return {}
    return plan if isinstance(plan, dict) else {}


def _literal(node: ast.expr) -> Any:
    """A literal, or a call of a known tunable kind with literal arguments."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        kind = TunableSpace if name == "TunableSpace" else _KINDS.get(name)
        if kind is None:
            raise ValueError(f"unknown tunable kind {name!r}")
        return kind(*map(_literal, node.args), **{str(k.arg): _literal(k.value) for k in node.keywords})
    if isinstance(node, ast.Dict):
        return {ast.literal_eval(k): _literal(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(map(_literal, node.elts))
    return ast.literal_eval(node)


def materialise(candidate: Candidate) -> str:
    """The source with its ``CONFIG = ...`` assignment replaced by the candidate's configuration as a literal."""
    if not candidate.config:
        return candidate.source
    value = assigned(parse(candidate.source), CONFIG_NAME)
    if value is None:
        raise InvalidCandidate(
            "the candidate has a configuration but no module-level CONFIG", path="candidate.py",
            fix="add the line CONFIG = TUNABLES.default",
        )  # fmt: skip
    lines = candidate.source.splitlines(keepends=True)
    # ast counts columns in UTF-8 bytes.
    start_line, end_line = value.lineno - 1, (value.end_lineno or value.lineno) - 1
    head = lines[start_line].encode()[: value.col_offset].decode()
    tail = lines[end_line].encode()[value.end_col_offset or 0 :].decode()
    return "".join([*lines[:start_line], head, repr(candidate.config), tail, *lines[end_line + 1 :]])


def split_config(source: str) -> tuple[str, Config]:
    """The source and the configuration to judge it with: a literal ``CONFIG = {...}`` in the text, else the default."""
    space = read_space(source)
    value = assigned(parse(source), CONFIG_NAME)
    if value is not None:
        try:
            config = ast.literal_eval(value)
        except ValueError:
            config = None
        if isinstance(config, dict) and space.allows(config):
            return source, config
    return source, space.default


class _Normaliser(ast.NodeTransformer):
    """Drops docstrings; optionally blanks numeric constants."""

    def __init__(self, blank_numbers: bool) -> None:
        self.blank_numbers = blank_numbers

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if self.blank_numbers and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return ast.copy_location(ast.Constant(value=0), node)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)


def structure_key(source: str, *, ignore_numbers: bool = False) -> str:
    """Hash of the syntax tree without comments, layout and docstrings: equal keys are the same program.

    With ``ignore_numbers`` two sources that differ in numeric constants only are equal too: such an edit is a retune,
    not a new program.
    """
    tree = _Normaliser(ignore_numbers).visit(parse(source))
    return digest_json(ast.dump(tree, include_attributes=False))
