"""Nsight Compute round a process with the candidate, started inside a worker that does not hold it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from kernelevolve.profilers.inside.ncu_output import parse_ncu
from kernelevolve.profilers.inside.ncu_program import DATA_FILE, SOURCE_FILE
from kernelevolve.profilers.profiler import BINDING, WEIGHTS
from kernelevolve.workers.isolation import module_path
from kernelevolve.workers.site import Site

_REPORT = "profiled.ncu-rep"
_SECTIONS = ("SpeedOfLight", "Occupancy", "LaunchStats", "WarpStateStats", "MemoryWorkloadAnalysis")
_METRICS = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "regex:smsp__average_warps_issue_stalled.*per_issue_active",
)
_LAUNCHES = 16
"""Kernels of a call that are looked at; each is run several times over."""
_BOOTSTRAP = (
    "import json, sys, pathlib; sys.path[:] = json.loads(sys.argv[1]); "
    "from kernelevolve.profilers.inside.ncu_program import main; main(pathlib.Path(sys.argv[2]))"
)
_IMPORT_SECONDS = 60.0
_NO_PERMISSION = "ERR_NVGPUCTRPERM"


def count(site: Site, ncu: str, source: str, training: bool, seconds: float) -> dict[str, Any]:
    """Probe: the counters of each kernel of one call; ``trouble`` says why there are none.

    Clocks are left as they are (``--clock-control none``): locking them needs rights that nobody should have here.
    """
    init_inputs, weights, parameters = site.bindings[WEIGHTS]
    data = {
        "init_inputs": init_inputs, "weights": weights, "parameters": parameters, "training": training,
        "inputs": site.bindings[BINDING],
    }  # fmt: skip
    torch.save(data, site.scratch / DATA_FILE)
    (site.scratch / SOURCE_FILE).write_text(source)
    path = json.dumps(module_path())
    command = [
        ncu, "--clock-control", "none", "--profile-from-start", "off", "--target-processes", "all",
        "--launch-count", str(_LAUNCHES), *(word for name in _SECTIONS for word in ("--section", name)),
        "--metrics", ",".join(_METRICS), "--force-overwrite", "--export", str(site.scratch / _REPORT),
        sys.executable, "-I", "-c", _BOOTSTRAP, path, str(site.scratch),
    ]  # fmt: skip
    try:
        said = _run(command, site.scratch, seconds)
        if not (site.scratch / _REPORT).is_file():
            return {"trouble": trouble_in(said)}
        pages = {
            page: _run([ncu, "--import", _REPORT, "--csv", "--page", page, "--print-units", "base"], site.scratch,
                       _IMPORT_SECONDS)
            for page in ("details", "raw")
        }  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return {"trouble": f"it did not end within {late.timeout:g} s"}
    return {"kernels": [asdict(kernel) for kernel in parse_ncu(pages["details"], pages["raw"])]}


def _run(command: list[str], place: Path, seconds: float) -> str:
    """All that a command says; a process that does not end in time is killed, and TimeoutExpired raised."""
    done = subprocess.run(
        command, cwd=place, env=os.environ | {"LC_ALL": "C"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, check=False,
    )  # fmt: skip
    return done.stdout


def trouble_in(said: str) -> str:
    """Why there is no report, from the tool's words."""
    if _NO_PERMISSION in said:
        return (
            "the driver lets only administrators read its counters; run as root, or load it with "
            "NVreg_RestrictProfilingToAdminUsers=0"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")] or lines[-1:]
    return (errors[0].removeprefix("==ERROR==").strip() if errors else "it made no report and said nothing")[:400]
