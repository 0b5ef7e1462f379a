"""What can be known of a candidate without running it: its tunables, its shape, and the text for one configuration."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from kernelevolve.candidates.candidate import Candidate
from kernelevolve.candidates.space import Bool, Choice, Config, Int, PowerOfTwo, TunableSpace
from kernelevolve.candidates.syntax import module_tree
from kernelevolve.candidates.tunable import is_number
from kernelevolve.errors import InvalidCandidate
from kernelevolve.hashing import digest_json

_KINDS: dict[str, Any] = {"PowerOfTwo": PowerOfTwo, "Int": Int, "Choice": Choice, "Bool": Bool}
SPACE_NAME, CONFIG_NAME, PLAN_NAME = "TUNABLES", "CONFIG", "PLAN"

_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
"""Where Python's parser ends a line; ``str.splitlines`` also ends one at a form feed and at Unicode separators."""
_NUMBER = re.compile(r"(?<![\w.])(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*(?!\w)")
"""A numeric literal of a C-like language."""


def parse(source: str) -> ast.Module:
    """The syntax tree of a candidate; InvalidCandidate with the line if it is not Python."""
    try:
        return module_tree(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise InvalidCandidate(
            f"the candidate is not valid Python: {getattr(error, 'msg', error)}",
            path="candidate.py", line=line, fix="correct the syntax",
        ) from None  # fmt: skip
    except (RecursionError, MemoryError):
        raise InvalidCandidate(
            "the candidate is nested too deeply for the Python parser", path="candidate.py", fix="split its expressions"
        ) from None


def assigned(tree: ast.Module, name: str) -> ast.expr | None:
    """The value expression of the last module-level assignment to ``name``, or None."""
    found = None
    for statement in tree.body:
        if name in _names_assigned(statement):
            assert isinstance(statement, (ast.Assign, ast.AnnAssign))
            found = statement.value
    return found


def _names_assigned(statement: ast.stmt) -> list[str]:
    """The plain names that an assignment gives a value to."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


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
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidCandidate(
            f"TUNABLES cannot be read: {_cause(error)}", path="candidate.py", line=value.lineno,
            fix="declare it as TunableSpace({'NAME': PowerOfTwo(low, high, default), ...}) with literal arguments",
        ) from None  # fmt: skip
    if not isinstance(space, TunableSpace):
        raise InvalidCandidate("TUNABLES is not a TunableSpace", path="candidate.py", line=value.lineno)
    return space


def read_plan(source: str) -> dict[str, Any]:
    """The structural decisions that a generated source records as ``PLAN = {...}``; {} if there are none."""
    plan = _literal_assigned(parse(source), PLAN_NAME)
    return plan if isinstance(plan, dict) else {}


def read_choices(source: str) -> dict[str, str]:
    """The structural decisions that a generated source records, decision -> answer; {} if it records none."""
    try:
        plan = read_plan(source)
    except InvalidCandidate:
        return {}
    choices = plan.get("choices", plan)
    return {str(k): str(v) for k, v in choices.items()} if isinstance(choices, dict) else {}


def _literal_assigned(tree: ast.Module, name: str) -> Any:
    """The value of a module-level literal; None if there is none of that name, or it is not a literal."""
    value = assigned(tree, name)
    if value is None:
        return None
    try:
        return ast.literal_eval(value)
    except (ValueError, TypeError, RecursionError):
        return None


def _cause(error: Exception) -> str:
    """One line: the first complaint of a pydantic error, or the message."""
    if isinstance(error, ValidationError):
        return str(error.errors()[0]["msg"]).removeprefix("Value error, ")
    return next(iter(str(error).splitlines()), type(error).__name__)


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
    lines = _LINE_END.split(candidate.source)
    # ast counts columns in UTF-8 bytes.
    start_line, end_line = value.lineno - 1, (value.end_lineno or value.lineno) - 1
    head = lines[start_line].encode()[: value.col_offset].decode()
    tail = lines[end_line].encode()[value.end_col_offset or 0 :].decode()
    return "".join([*lines[:start_line], head, repr(candidate.config), tail, *lines[end_line + 1 :]])


def split_config(source: str) -> tuple[str, Config]:
    """The source and the configuration to judge it with: a literal ``CONFIG = {...}`` in the text, else the default."""
    space = read_space(source)
    config = _literal_assigned(parse(source), CONFIG_NAME)
    if isinstance(config, dict) and space.allows(config):
        return source, config
    return source, space.default


def structure_key(source: str, *, ignore_numbers: bool = False) -> str:
    """Hash of the program without comments, layout, docstrings and ``CONFIG``: equal keys are the same program.

    All configurations of one program have the same key. With ``ignore_numbers`` two sources that differ in numeric
    constants only are equal too, also inside an embedded source (a string of several lines): such an edit is a retune,
    not a new program.
    """
    tree = parse(source)
    if assigned(tree, SPACE_NAME) is not None:
        tree.body = [statement for statement in tree.body if _names_assigned(statement) != [CONFIG_NAME]]
    return digest_json(list(_tokens(tree, ignore_numbers)))


def program_key(candidate: Candidate) -> str:
    """What makes two candidates one program: the syntax tree; the text itself if it has none."""
    try:
        return structure_key(candidate.source)
    except InvalidCandidate:
        return candidate.source_digest


def _tokens(tree: ast.Module, ignore_numbers: bool) -> Iterator[str]:
    """The tree in prefix order; with a stack of its own, because generated sources nest deeper than Python recurses.

    Fields that hold nothing are left out: each version of Python adds some, and a recording outlives the version.
    """
    waiting: list[Any] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, ast.Constant):
            yield f"constant {_constant(item.value, ignore_numbers)}"
        elif isinstance(item, ast.AST):
            yield type(item).__name__
            for field in reversed(item._fields):
                value = getattr(item, field, None)
                if value is not None and value != []:
                    waiting += [value, (field,)]
        elif isinstance(item, tuple):
            yield f"field {item[0]}"
        elif isinstance(item, list):
            kept = [part for part in item if not _is_docstring(part)]
            yield f"list of {len(kept)}"
            waiting.extend(reversed(kept))
        else:
            yield repr(item)


def _is_docstring(item: object) -> bool:
    """True for a string that stands alone as a statement: it does nothing, wherever it is."""
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)


def _constant(value: object, ignore_numbers: bool) -> str:
    if ignore_numbers and is_number(value):
        return "number"
    if ignore_numbers and isinstance(value, str) and "\n" in value:
        return repr(_NUMBER.sub("number", value))
    return repr(value)
