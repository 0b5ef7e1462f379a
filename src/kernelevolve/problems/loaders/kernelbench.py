"""Files in the KernelBench format, read as text: all that can be checked without running them is checked here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from kernelevolve.candidates.structure import assigned
from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.tolerance import TolerancePolicy

Place: TypeAlias = Path | str
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class KernelBenchLoader:
    """Reads a Python file with ``Model``, ``get_inputs()`` and, if the constructor takes any, ``get_init_inputs()``."""

    def matches(self, name: str) -> bool:
        return Path(name).suffix == ".py" or Path(name).exists()

    def load(self, name: str) -> Problem:
        return read_file(Path(name))


LOADER = KernelBenchLoader()


def read_file(path: Path) -> Problem:
    """The problem in a file. Raises InvalidProblem."""
    if path.is_dir():
        raise InvalidProblem("this is a directory, not a problem file", path=path, fix="name one .py file in it")
    try:
        source = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidProblem("there is no such problem file", path=path, fix="check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InvalidProblem(
            f"the file cannot be read as text: {reason}", path=path, fix="name a Python file"
        ) from None
    return from_source(source, name=path.stem, path=path)


def from_source(source: str, *, name: str, path: Path | None = None) -> Problem:
    """The problem in a text. Raises InvalidProblem."""
    place = path or name
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise InvalidProblem(
            f"the file is not valid Python: {getattr(error, 'msg', error)}",
            path=place, line=getattr(error, "lineno", None), fix="correct the syntax",
        ) from None  # fmt: skip
    _check_imports(tree, place)
    _check_model(tree, place)
    _check_functions(tree, place)
    tolerance = assigned(tree, "TOLERANCE")
    policy = TolerancePolicy() if tolerance is None else _tolerance(tolerance, place)
    return Problem(name=name, source=source, path=path, tolerance=policy)


def _check_imports(tree: ast.Module, place: Place) -> None:
    for node in tree.body:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            modules = [node.module]
        else:
            continue
        for module in modules:
            package = module.partition(".")[0]
            if not _is_installed(package):
                raise InvalidProblem(
                    f"the file imports {package}, which is not installed", path=place, line=node.lineno,
                    fix=f"install {package} (pip install {package}) or remove the import",
                )  # fmt: skip


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return True  # Already imported without a specification, or odd; running the file will tell.


def _check_model(tree: ast.Module, place: Place) -> None:
    for node in tree.body:
        if isinstance(node, _Function) and node.name == "Model":
            raise InvalidProblem(
                "Model is a function, not a class", path=place, line=node.lineno,
                fix="write it as class Model(torch.nn.Module) with a forward method",
            )  # fmt: skip
        if isinstance(node, ast.ClassDef) and node.name == "Model" and not node.bases:
            raise InvalidProblem(
                "Model is not a torch.nn.Module", path=place, line=node.lineno, fix="write class Model(torch.nn.Module)"
            )
    if not {"Model", "*"} & set(_names(tree)):
        raise InvalidProblem(
            "there is no class Model", path=place, fix="define the reference as class Model(torch.nn.Module)"
        )


def _check_functions(tree: ast.Module, place: Place) -> None:
    if not {"get_inputs", "*"} & set(_names(tree)):
        raise InvalidProblem(
            "there is no function get_inputs()", path=place, fix="let it return the list of arguments of Model.forward"
        )
    for node in tree.body:
        if not (isinstance(node, _Function) and node.name in ("get_inputs", "get_init_inputs", "get_workloads")):
            continue
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        required = [a.arg for a in plain[: len(plain) - len(arguments.defaults)]]
        required += [a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is None]
        required = [name for name in required if name != "device_type"]
        if required:
            raise InvalidProblem(
                f"{node.name}() needs the argument {required[0]!r}", path=place, line=node.lineno,
                fix="give every argument a default value",
            )  # fmt: skip


def _names(tree: ast.Module) -> Iterator[str]:
    """Names that the module binds at its top level, in plain statements or under ``if`` and ``try``."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        else:
            yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            yield from (n.name for n in ast.walk(node) if isinstance(n, (ast.ClassDef, ast.FunctionDef)))


def _tolerance(node: ast.expr, place: Place) -> TolerancePolicy:
    try:
        if isinstance(node, ast.Call):
            values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
        else:
            values = ast.literal_eval(node)
        unknown = sorted(set(values) - set(TolerancePolicy.model_fields))
        if unknown:
            raise ValueError(f"there is no field {unknown[0]!r}")
        return TolerancePolicy(**values)
    except (ValueError, TypeError, AttributeError, ValidationError) as error:
        message = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error).splitlines()[0]
        raise InvalidProblem(
            f"TOLERANCE cannot be read: {message}", path=place, line=node.lineno,
            fix=f"write a dict of literals with some of {', '.join(TolerancePolicy.model_fields)}",
        ) from None  # fmt: skip
