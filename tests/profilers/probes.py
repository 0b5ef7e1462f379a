"""Probes that tests send into a worker; it imports them by name."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from kernelevolve.workers.site import Site


def confinement(site: Site) -> dict[str, Any]:
    """The capabilities that are left, and what the kernel answers to what they would allow."""
    libc = ctypes.CDLL(None, use_errno=True)
    effective = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    answers = {}
    for name, call in (
        ("mount", lambda: libc.mount(b"none", str(site.scratch).encode(), b"tmpfs", 0, None)),
        ("unshare", lambda: libc.unshare(0x20000)),
        ("chroot", lambda: libc.chroot(str(site.scratch).encode())),
    ):
        ctypes.set_errno(0)
        answers[name] = ctypes.get_errno() if call() != 0 else 0
    writes = {}
    for name, file in (("thread", "/proc/self/task/$$/comm"), ("kernel", "/proc/sys/kernel/core_pattern")):
        # Opened only, and by a child, as a tool starts one: the CUDA driver names its threads in this way.
        writes[name] = subprocess.run(["sh", "-c", f": >>{file}"], stderr=subprocess.DEVNULL, check=False).returncode
    return {"writes": writes, "effective": effective[1] if effective else "", "answers": answers, "uid": os.geteuid()}
