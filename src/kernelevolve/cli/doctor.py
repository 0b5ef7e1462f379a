"""``kernelevolve doctor``: what this machine can do, what is missing, and the fix."""

from __future__ import annotations

from kernelevolve.cli.terminal import JsonOption


def doctor(as_json: JsonOption = False) -> int:
    """Say what this machine can compile, run, profile and sandbox, and how to mend what is missing.

    Exit code 0: kernels can be searched here; 1: something that every search needs is missing.
    """
    raise NotImplementedError
