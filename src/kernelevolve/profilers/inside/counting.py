"""A candidate's native calls under callgrind, inside its worker."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from typing import Any

from kernelevolve.languages.build_cache import BuildError
from kernelevolve.profilers.inside import replay
from kernelevolve.profilers.inside.callgrind_output import parse_callgrind
from kernelevolve.profilers.inside.recording import CannotRecord, current
from kernelevolve.profilers.inside.remarks import line_of
from kernelevolve.workers.site import Site

_DROPPED = ("-march=", "-mtune=", "-mprefer-vector-width=", "-mavx512")
_ADDED = ("-march=x86-64-v3",) if platform.machine() == "x86_64" else ()
"""Valgrind knows no AVX-512."""
_OUTPUT = "callgrind.out"
_LINES, _FUNCTIONS = 30, 10
_OPTIONS = (
    "--tool=callgrind", f"--callgrind-out-file={_OUTPUT}", "--dump-line=yes", "--compress-strings=no",
    "--compress-pos=no", "--cache-sim=yes", "--collect-atstart=no", "--vgdb=no", "--error-limit=no",
)  # fmt: skip
_SOURCE = re.compile(r"source-(\d+)\.cpp")


def count(site: Site, valgrind: str, seconds: float) -> dict[str, Any]:
    """Probe: the instructions of one call of the candidate, by line and function; ``trouble`` says why there are none.

    With one thread, because valgrind runs threads in turn and those that wait would count.
    """
    recording = current()
    try:
        recording.record(site)
        if not recording.calls:
            return {"trouble": "a call of the candidate runs no function that it built with languages.cpp"}
        program = replay.make(recording, site.scratch, _DROPPED, ("-g", *_ADDED))
        functions = dict.fromkeys(call.prototype.name for call in recording.calls)
        command = [valgrind, *_OPTIONS, *(f"--toggle-collect={name}" for name in functions), str(program)]
        done = subprocess.run(
            command, cwd=site.scratch, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
        )  # fmt: skip
    except CannotRecord as error:
        return {"trouble": str(error)}
    except BuildError as error:
        return {"trouble": f"it does not compile without AVX-512: {error.excerpt.splitlines()[0]}"[:500]}
    except subprocess.TimeoutExpired:
        return {"trouble": f"its native calls did not end within {seconds:.0f} s under valgrind"}
    if done.returncode != 0:
        return {
            "trouble": f"its native calls ended with {done.returncode} under valgrind: {done.stderr[-300:].strip()}"
        }
    counts = parse_callgrind((site.scratch / _OUTPUT).read_text(errors="replace"))
    lines: list[dict[str, Any]] = []
    for (file, line), costs in counts.lines.items():
        source = _SOURCE.fullmatch(file)
        if source is not None and 0 < int(source[1]) <= len(recording.builds) and line > 0:
            index = int(source[1]) - 1
            text = line_of(recording.builds[index].source, line)
            lines.append({"source": index, "line": line, "text": text, "instructions": costs.get("Ir", 0)})
    lines.sort(key=lambda entry: -int(entry["instructions"]))
    functions_found: list[dict[str, Any]] = [
        {"name": name[:200], "library": library[:200], "instructions": costs.get("Ir", 0)}
        for (library, name), costs in counts.functions.items()
    ]
    # Functions of headers are inlined: only the file is left of them.
    functions_found += [
        {"name": file[:200], "library": f"code inlined into {library}"[:200], "instructions": costs.get("Ir", 0)}
        for (library, file), costs in counts.files.items()
        if library.startswith(replay.LIBRARY) and file.endswith(".h")
    ]
    functions_found.sort(key=lambda entry: -int(entry["instructions"]))
    return {
        "instructions": counts.totals.get("Ir", 0),
        "line_fetches": counts.totals.get("D1mr", 0),
        "calls": len(recording.calls),
        "lines": lines[:_LINES],
        "functions": functions_found[:_FUNCTIONS],
    }
