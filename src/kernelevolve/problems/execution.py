"""Execution of a problem's text as a module of its own. The text is the user's and is trusted."""

from __future__ import annotations

import inspect
import itertools
import linecache
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from kernelevolve.errors import InvalidProblem
from kernelevolve.problems.problem import Problem
from kernelevolve.problems.source import effective_source

_counter = itertools.count()


@dataclass(frozen=True, slots=True)
class Execution:
    """A problem's text after it was run once, and the way to call what it defines without showing a traceback."""

    problem: Problem
    module: ModuleType
    file: str
    """File name in the text's code objects: the problem's path, or a name made for a text without one."""

    def get(self, name: str) -> Any:
        """What the text defines under a name, or None."""
        return getattr(self.module, name, None)

    def attempt(self, what: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """``call(...)``; whatever it raises becomes InvalidProblem with the text's own line at which it arose."""
        try:
            return call(*args, **kwargs)
        except InvalidProblem:
            raise
        except Exception as error:
            raise _blame(self.problem, self.file, what, error) from None

    def invalid(self, sentence: str, fix: str, *, at: str | None = None) -> InvalidProblem:
        """InvalidProblem that names the problem's place and the line on which ``at`` is defined."""
        line = None
        if at is not None:
            try:
                line = inspect.getsourcelines(self.get(at))[1]
            except (OSError, TypeError):
                line = None  # Made by a call or imported: there is no line to name.
        return InvalidProblem(sentence, path=self.problem.path or self.problem.name, line=line, fix=fix)


def execute(problem: Problem, device: torch.device) -> Execution:
    """Run the text of a problem; tensors that it makes at module level are made on the device.

    Raises InvalidProblem with the line if it raises.
    """
    # torch.compile and pickling look a module up by name, and two problems may have the same file name.
    name = f"kernelevolve_problem_{problem.digest[:12]}_{next(_counter)}"
    file = str(problem.path) if problem.path is not None else f"<problem {problem.name} {problem.digest[:8]}>"
    source = effective_source(problem)
    # So that tracebacks, inspect and TorchScript read the text that runs, not what the file holds by then.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = ModuleType(name)
    module.__file__ = file
    module.__dict__["KERNELEVOLVE_PAYLOAD"] = {digest: str(path) for digest, path in problem.payload.items()}
    sys.modules[name] = module
    try:
        with device:
            exec(compile(source, file, "exec"), module.__dict__)
    except InvalidProblem:
        raise
    except Exception as error:
        raise _blame(problem, file, "the file fails when it is imported", error) from None
    return Execution(problem, module, file)


def _blame(problem: Problem, file: str, what: str, error: Exception) -> InvalidProblem:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    message = next((text.strip() for text in str(error).splitlines() if text.strip()), "no message")
    return InvalidProblem(
        f"{what}: {type(error).__name__}: {message[:300]}", path=problem.path or problem.name, line=line,
        fix=_fix_for(error),
    )  # fmt: skip


def is_out_of_memory(error: Exception) -> bool:
    """True if the machine or the device has too little memory; the CPU's allocator says so in words only."""
    words = ("not enough memory", "can't allocate memory")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(word in str(error) for word in words)


def _fix_for(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"install {error.name} or remove the import"
    if is_out_of_memory(error):
        return "make the problem smaller with --scale or --set"
    if "not implemented for" in str(error) or "dtype" in str(error):
        return "use a dtype that this operator takes on this device"
    return "correct that line, or the values that reach it"
