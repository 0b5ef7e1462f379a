"""compute-sanitizer round a process with the candidate, started inside a worker that does not hold it.

A fork cannot be watched, only a program from its start. The sanitizer's log lies where that program may not write.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from kernelevolve.languages.toolchain.compute_sanitizer import Tool, command
from kernelevolve.workers.isolation import module_path
from kernelevolve.workers.sanitized_program import Start
from kernelevolve.workers.site import Site

LOG_HEAD, LOG_TAIL = 48 << 10, 4 << 10
"""Bytes of a log that are read: its first findings, and how it ends."""
_OUTPUT_TAIL = 4 << 10
_PROGRESS_BYTES = 64 << 10
_BOOTSTRAP = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kernelevolve.workers.sanitized_program import main; main(sys.argv[2])"
)
_ENVIRONMENT = {
    # Torch would cut many tensors out of one allocation, and an access beside a tensor would be inside of it.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "LC_ALL": "C",
}


def watch(site: Site, sanitizer: str, tool: str, report: str, seconds: float, limit: float) -> dict[str, Any]:
    """Probe: run the program whose plan lies in ``report`` under a tool, and read what the tool wrote there.

    ``seconds`` are for the calls, ``limit`` for everything; what is not finished then is killed. The answer has the
    ``log`` of the tool, the end of the ``output`` of both, the ``progress`` that the program noted, one JSON a line,
    the exit ``code``, and whether it was ``late``.
    """
    place = Path(report)
    names = {what: place / f"{tool}.{what}" for what in ("log", "output", "progress")}
    for name in names.values():
        name.touch()
    start = Start(str(place), str(site.scratch), str(names["log"]), str(names["progress"]), seconds)
    path = json.dumps(module_path())
    target = [sys.executable, "-I", "-c", _BOOTSTRAP, path, start.encode()]
    with names["output"].open("wb") as output:
        process = subprocess.Popen(
            command(Path(sanitizer), Tool(tool), names["log"], target), cwd=site.scratch,
            env=os.environ | _ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return {
        "log": _read(names["log"], LOG_HEAD, LOG_TAIL),
        "output": _read(names["output"], 0, _OUTPUT_TAIL),
        "progress": _read(names["progress"], _PROGRESS_BYTES, 0),
        "code": code,
        "late": code is None,
    }


def _read(path: Path, head: int, tail: int) -> str:
    """The text of a file, or so many bytes of its beginning and its end."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size <= head + tail:
            return file.read().decode(errors="replace")
        first = file.read(head)
        file.seek(size - tail)
        return (first + b"\n" + file.read(tail)).decode(errors="replace")
