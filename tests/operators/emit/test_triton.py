"""Generated Triton kernels are right by Triton's own interpreter, where Triton is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

HERE = Path(__file__).parent
NAMES = ["rms_norm", "long_rms_norm", "feed_forward", "factorisation", "linear", "map_id", "embedding_bag"]


@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_agrees_with_torch(name: str) -> None:
    command = [sys.executable, "-W", "ignore", str(HERE / "interpret.py"), name]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert float(finished.stdout) < 1e-5
