"""What a worker tells of an exception: its kind, its words, and where in the program it happened."""

from __future__ import annotations

import traceback
from typing import Any

from kernelevolve.workers.program import CANDIDATE_FILE, InterfaceError

_MESSAGE_LIMIT = 8_000
_COMPILER_ERRORS = frozenset(
    {"BuildError", "CompilationError", "CompileTimeAssertionFailure", "OutOfResources", "PTXASError"}
)
"""Class names, because naming the classes would import a compiler that this worker may not need."""
_MEMORY_PHRASES = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "bad_alloc")


def describe_fault(fault: BaseException) -> dict[str, Any]:
    """The body of a ``Failed`` reply."""
    message = str(fault)
    return {
        "category": _category(fault, message),
        "type": type(fault).__qualname__[:256],
        "message": _shorten(message),
        "traceback": _shorten(_frames(fault)),
    }


def _category(fault: BaseException, message: str) -> str:
    causes: list[BaseException] = []
    cause: BaseException | None = fault
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__
    if any(isinstance(c, SyntaxError) or type(c).__name__ in _COMPILER_ERRORS for c in causes):
        return "build"
    if isinstance(fault, InterfaceError):
        return "interface"
    if isinstance(fault, MemoryError) or "OutOfMemory" in type(fault).__name__:
        return "memory"
    if isinstance(fault, (RuntimeError, OSError)) and any(phrase in message.lower() for phrase in _MEMORY_PHRASES):
        return "memory"
    return "exception"


def _frames(fault: BaseException) -> str:
    """The frames that lie in the candidate's own file, innermost last; all frames if there are none."""
    frames = traceback.extract_tb(fault.__traceback__)
    own = [frame for frame in frames if frame.filename.endswith(CANDIDATE_FILE)] or list(frames)
    for frame in own:
        frame.filename = frame.filename.rsplit("/", 1)[-1]
    return "".join(traceback.format_list(own[-12:])).rstrip()


def _shorten(text: str) -> str:
    if len(text) <= _MESSAGE_LIMIT:
        return text
    half = _MESSAGE_LIMIT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
