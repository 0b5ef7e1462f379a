"""What may be used of a processor: affinity, siblings, quotas, environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelevolve.targets import topology


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_quota_of_cgroup_version_two(tmp_path: Path) -> None:
    root, membership = tmp_path / "fs", tmp_path / "cgroup"
    write(membership, "0::/outer/inner\n")
    assert topology.cpu_quota(root, membership) is None
    write(root / "outer/cpu.max", "250000 100000\n")
    write(root / "outer/inner/cpu.max", "max 100000\n")
    assert topology.cpu_quota(root, membership) == 2.5
    write(root / "outer/inner/cpu.max", "50000 100000\n")
    assert topology.cpu_quota(root, membership) == 0.5


def test_quota_of_cgroup_version_one(tmp_path: Path) -> None:
    root, membership = tmp_path / "fs", tmp_path / "cgroup"
    write(membership, "9:name=systemd:/\n5:cpu,cpuacct:/docker/abc\n3:cpuset:/docker/abc\n")
    write(root / "cpu,cpuacct/cpu.cfs_quota_us", "150000\n")
    write(root / "cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    assert topology.cpu_quota(root, membership) == 1.5, "inside a container the path is the host's, the base is ours"
    write(root / "cpu,cpuacct/cpu.cfs_quota_us", "-1\n")
    assert topology.cpu_quota(root, membership) is None


def test_no_cgroups_at_all(tmp_path: Path) -> None:
    assert topology.cpu_quota(tmp_path, tmp_path / "missing") is None


def test_threads_follow_affinity_environment_and_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(topology, "cpu_quota", lambda: None)
    assert topology.usable_threads() == topology.physical_cores() <= len(topology.allowed_cpus())
    monkeypatch.setattr(topology, "physical_cores", lambda: 8)
    assert topology.usable_threads() == 8
    monkeypatch.setattr(topology, "cpu_quota", lambda: 2.9)
    assert topology.usable_threads() == 2
    monkeypatch.setattr(topology, "cpu_quota", lambda: 0.3)
    assert topology.usable_threads() == 1
    monkeypatch.setattr(topology, "cpu_quota", lambda: None)
    for value, expected in (("3", 3), ("64", 8), ("0", 8), ("many", 8), ("", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert topology.usable_threads() == expected


def test_siblings_and_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two packages of two cores with two threads each; a last-level cache for each package."""
    monkeypatch.setattr(topology, "_CPUS", tmp_path)
    monkeypatch.setattr(topology, "allowed_cpus", lambda: list(range(8)))
    for cpu in range(8):
        package, core = cpu // 4, cpu % 2
        write(tmp_path / f"cpu{cpu}/topology/physical_package_id", f"{package}\n")
        write(tmp_path / f"cpu{cpu}/topology/core_id", f"{core}\n")
        for index, (level, kind, size, shared) in enumerate(
            [
                (1, "Data", "48K", f"{cpu % 2}-{package}"),
                (1, "Instruction", "32K", "x"),
                (3, "Unified", "32M", f"{package}"),
            ]
        ):
            cache = tmp_path / f"cpu{cpu}/cache/index{index}"
            write(cache / "level", f"{level}\n")
            write(cache / "type", f"{kind}\n")
            write(cache / "size", f"{size}\n")
            write(cache / "shared_cpu_list", f"{shared}\n")
    assert topology.physical_cores() == 4
    assert topology.cache_bytes() == {"l1": 48 << 10, "l3": 32 << 20}
    assert topology.last_level_bytes() == 64 << 20
    monkeypatch.setattr(topology, "allowed_cpus", lambda: [0, 2])
    assert topology.physical_cores() == 1
    assert topology.last_level_bytes() == 32 << 20


def test_a_system_that_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_CPUS", tmp_path)
    assert topology.physical_cores() == len(os.sched_getaffinity(0))
    assert topology.cache_bytes() == {}
    assert topology.last_level_bytes() == 0


def test_work_of_others_does_not_count_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = os.sysconf("SC_CLK_TCK")

    def machine(user: int, idle: int, own: float) -> None:
        """Seconds since the start of a machine, of which ``own`` were this process's."""
        text = f"cpu  {user * ticks} 0 0 {idle * ticks} 0 0 0 0 0 0\ncpu0 1 1 1 1\n"
        monkeypatch.setattr(topology, "_read", lambda path: text)
        monkeypatch.setattr(os, "times", lambda: os.times_result((own, 0.0, 0.0, 0.0, 0.0)))

    machine(user=100, idle=900, own=3.0)
    watch = topology.OtherWork()
    machine(user=110, idle=910, own=11.0)
    assert watch.share() == pytest.approx(0.1), "of 20 seconds 10 were busy, 8 of them ours"
    machine(user=108, idle=912, own=11.0)
    assert watch.share() == 0.0
    monkeypatch.setattr(topology, "_read", lambda path: "")
    assert topology.OtherWork().share() == 0.0
