"""The last place an error can go: what a user sees when something is wrong, and the exit code that says so."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from kernelevolve.cli.terminal import print_json
from kernelevolve.errors import KernelEvolveError
from kernelevolve.version import __version__

EXIT_BAD_INPUT, EXIT_CRASH, EXIT_INTERRUPTED = 2, 70, 130


def guarded(command: Callable[[Sequence[str]], Any], words: Sequence[str]) -> int:
    """Run a command line; every way out of it becomes an exit code.

    * KernelEvolveError and usage errors: one sentence on stderr, exit code 2.
    * Ctrl-C where no command handles it itself: exit code 130.
    * Anything else is a fault of this program: one sentence with the path of a file that has the traceback, code 70.

    With ``--json`` the sentence is on stdout too, as ``{"error": …}``.
    """
    as_json = "--json" in words
    try:
        code = command(words)
        sys.stdout.flush()
        return int(code or 0)
    except KernelEvolveError as error:
        return _complain(error.sentence, as_json, EXIT_BAD_INPUT)
    except typer.TyperException as error:
        return _complain(_usage_sentence(error, words), as_json, EXIT_BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", as_json, EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe went away; without this the interpreter complains again when it flushes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        log = _write_crash_log(words)
        sentence = f"this is a fault of kernelevolve itself ({type(error).__name__}); its traceback is in {log}"
        return _complain(sentence, as_json, EXIT_CRASH)


def _complain(sentence: str, as_json: bool, code: int) -> int:
    from kernelevolve.report.console import printable

    print(f"error: {printable(sentence)}", file=sys.stderr, flush=True)
    if as_json:
        print_json({"error": sentence})
    return code


def _usage_sentence(error: typer.TyperException, words: Sequence[str]) -> str:
    """The complaint and where to read on, on one line."""
    complaint = " ".join(error.format_message().split()).rstrip(".")
    command = next((word for word in words if not word.startswith("-")), None)
    # A complaint that was raised while an unknown command was looked up has no command to read on about.
    known = command is not None and f"'{command}'" not in complaint
    return f"{complaint}; see kernelevolve {f'{command} ' if known else ''}--help"


def _write_crash_log(words: Sequence[str]) -> Path:
    """Keep the traceback of the exception being handled where the user can find and send it."""
    descriptor, name = tempfile.mkstemp(prefix="kernelevolve-crash-", suffix=".log")
    with os.fdopen(descriptor, "w") as file:
        file.write(f"kernelevolve {__version__}, Python {sys.version}\narguments: {list(words)}\n\n")
        traceback.print_exc(file=file)
    return Path(name)
