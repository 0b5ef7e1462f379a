"""Measured once, measured again when the cache is no use, and never made worse by a busy machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kernelevolve.targets import ceilings as module
from kernelevolve.targets.ceilings import cached_ceilings
from kernelevolve.targets.target import Ceilings

KEY = {"device": "a chip", "driver": "1"}


def rates(read: float, launch: float = 1e-6) -> Ceilings:
    return Ceilings(
        device="a chip", read_bandwidth=read, copy_bandwidth=2 * read, flops={"float32": 100 / read},
        launch_seconds=launch, cache_bytes=1 << 20,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kernelevolve" / "ceilings"


def new_process() -> None:
    module._known.clear()


def never() -> Ceilings:
    raise AssertionError("measured although it was known")


def test_measured_once(cache: Path) -> None:
    first = cached_ceilings(KEY, lambda: rates(1.0))
    assert cached_ceilings(KEY, never) == first
    new_process()
    assert cached_ceilings(KEY, never) == first
    assert cached_ceilings({**KEY, "driver": "2"}, lambda: rates(5.0)).read_bandwidth == 5.0
    assert len(list(cache.iterdir())) == 2, "no temporary files are left"


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"ceilings": {}, "disturbed": false}', b"[]"])
def test_a_damaged_cache_is_measured_again(cache: Path, damage: bytes) -> None:
    cached_ceilings(KEY, lambda: rates(1.0))
    (path,) = cache.iterdir()
    path.write_bytes(damage)
    new_process()
    assert cached_ceilings(KEY, lambda: rates(2.0)).read_bandwidth == 2.0
    new_process()
    assert cached_ceilings(KEY, never).read_bandwidth == 2.0


def test_a_disturbed_measurement_is_repeated_later_and_the_better_rates_stay(cache: Path) -> None:
    busy = cached_ceilings(KEY, lambda: rates(2.0, 3e-6), disturbed=lambda: True)
    assert busy.read_bandwidth == 2.0
    assert busy.disturbed, "no floor that follows from it accuses anybody"
    new_process()
    assert cached_ceilings(KEY, never).read_bandwidth == 2.0, "not again at once"
    (path,) = cache.iterdir()
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))
    new_process()
    merged = cached_ceilings(KEY, lambda: rates(4.0, 5e-6))
    assert (merged.read_bandwidth, merged.flops["float32"], merged.launch_seconds) == (4.0, 50.0, 3e-6)
    os.utime(path, (long_ago, long_ago))
    new_process()
    assert cached_ceilings(KEY, never) == merged, "a quiet measurement settles it"


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cached_ceilings(KEY, lambda: rates(3.0)).read_bandwidth == 3.0
