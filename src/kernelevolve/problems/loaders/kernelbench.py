"""Files in the KernelBench format, read as text: everything that can be checked without running them is checked."""

from __future__ import annotations

import ast
from pathlib import Path

from pydantic import ValidationError

from kernelevolve.candidates.structure import assigned
from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.source import BATCH_NAMES, Constant, constants
from kernelevolve.problems.tolerance import TolerancePolicy


def load_file(path: Path, *, overrides: dict[str, Constant], scale: float | None) -> Problem:
    """The problem in a file. Raises InvalidProblem."""
    if path.is_dir():
        raise InvalidProblem("this is a directory, not a problem file", path=path, fix="name one .py file in it")
    try:
        source = path.read_text()
    except FileNotFoundError:
        raise InvalidProblem("there is no such problem file", path=path, fix="check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidProblem(f"the file cannot be read as text: {error}", path=path, fix="name a Python file") from None
    return from_source(source, name=path.stem, path=path, overrides=overrides, scale=scale)


def from_source(
    source: str,
    *,
    name: str,
    path: Path | None = None,
    overrides: dict[str, Constant] | None = None,
    scale: float | None = None,
) -> Problem:
    """The problem in a text. Raises InvalidProblem."""
    place = path or name
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise InvalidProblem(
            f"the file is not valid Python: {getattr(error, 'msg', error)}",
            path=place, line=getattr(error, "lineno", None), fix="correct the syntax",
        ) from None  # fmt: skip
    _check_names(tree, place)
    replaced = dict(overrides or {})
    known = constants(source)
    for key in replaced:
        if key not in known:
            raise InvalidProblem(
                f"there is no module constant {key!r} to set", path=place,
                fix=f"set one of: {', '.join(known) or '(the file has none)'}",
            )  # fmt: skip
    if scale is not None:
        replaced |= _scaled(known, scale, place)
    tolerance = assigned(tree, "TOLERANCE")
    return Problem(
        name=name, source=source, path=path, overrides=replaced,
        tolerance=TolerancePolicy() if tolerance is None else _tolerance(tolerance, place),
    )  # fmt: skip


def _check_names(tree: ast.Module, place: Path | str) -> None:
    defined = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            defined |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, (ast.ImportFrom, ast.Import)):
            defined |= {(alias.asname or alias.name) for alias in node.names}
    if "Model" not in defined and "*" not in defined:
        raise InvalidProblem("there is no class Model", path=place, fix="define the reference as class Model(nn.Module)")
    if "get_inputs" not in defined and "*" not in defined:
        raise InvalidProblem(
            "there is no function get_inputs()", path=place, fix="define it to return the list of arguments of forward"
        )
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
            required = len(node.args.posonlyargs) + len(node.args.args) - len(node.args.defaults)
            required += sum(default is None for default in node.args.kw_defaults)
            if required:
                raise InvalidProblem(
                    f"{node.name}() has arguments without a default", path=place, line=node.lineno,
                    fix="give every argument a default value",
                )  # fmt: skip


def _scaled(known: dict[str, Constant], scale: float, place: Path | str) -> dict[str, Constant]:
    if not 0 < scale:
        raise InvalidProblem(f"--scale {scale} is not positive", fix="use a number such as 0.125")
    for name in BATCH_NAMES:
        value = known.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return {name: max(1, round(value * scale))}
    numbers = [name for name, value in known.items() if isinstance(value, int)]
    raise InvalidProblem(
        "--scale finds no batch constant", path=place,
        fix=f"use --set NAME=VALUE with one of: {', '.join(numbers) or '(the file has no integer constants)'}",
    )  # fmt: skip


def _tolerance(node: ast.expr, place: Path | str) -> TolerancePolicy:
    try:
        if isinstance(node, ast.Call):
            values = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
        else:
            values = ast.literal_eval(node)
        return TolerancePolicy(**values)
    except (ValueError, TypeError, ValidationError):
        raise InvalidProblem(
            "TOLERANCE cannot be read", path=place, line=node.lineno,
            fix="write TOLERANCE = {'k': 4.0, …} with the fields of TolerancePolicy as literals",
        ) from None  # fmt: skip
