"""Conditions: what decides times beside the program: clocks, power, heat, and who else uses the device.

They are recorded with a promotion, for a reader who wonders why a figure differs from that of another day.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

_SECONDS = 10.0
_QUERY = {
    "clocks.sm": "sm_clock", "clocks.max.sm": "sm_clock_limit", "clocks.mem": "memory_clock",
    "power.draw": "power", "power.limit": "power_limit", "temperature.gpu": "temperature",
    "clocks_event_reasons.active": "clocks_limited_by", "memory.used": "memory_used",
    "compute_mode": "compute_mode", "mig.mode.current": "mig",
}  # fmt: skip
"""What nvidia-smi is asked for -> the name under which it is recorded."""
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def of_gpu(index: int) -> dict[str, str]:
    """Clocks, power and heat of a GPU at this moment, and the programs of others on it, by nvidia-smi.

    Values have nvidia-smi's own units. Empty if there is no nvidia-smi; what a driver does not know is left out.
    """
    answer = _smi(index, f"--query-gpu={','.join(_QUERY)}")
    if not answer:
        return {}
    values = [value.strip() for value in answer.splitlines()[0].split(",")]
    found = {
        name: value
        for name, value in zip(_QUERY.values(), values, strict=False)
        if value and not value.startswith(("[N/A]", "[Not", "[Unknown"))
    }
    programs = [line for line in _smi(index, "--query-compute-apps=pid").splitlines() if line.strip()]
    # In a container the numbers may be those of another process table, so ours are not told from others.
    return found | {"programs_on_the_device": str(len(programs))}


def _smi(index: int, query: str) -> str:
    command = ["nvidia-smi", f"--id={index}", query, "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def of_cpu() -> dict[str, str]:
    """Load of the machine over the last minute, and the frequency governor if the system tells."""
    found = {"load": f"{os.getloadavg()[0]:.2f}"}
    with contextlib.suppress(OSError):
        found["governor"] = _GOVERNOR.read_text().strip()
    return found
