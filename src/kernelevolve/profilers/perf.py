"""Counters of the processor while the candidate runs (``perf stat``, attached from outside of the worker).

The candidate's process is a worker like any other: ``perf`` runs on this side of the wall. Where a machine's counters
are hidden, as in most virtual machines, page faults and processor time are left.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from time import perf_counter

from kernelevolve.languages import Availability
from kernelevolve.profilers.diagnosis import Evidence, Metric
from kernelevolve.profilers.inside import recording
from kernelevolve.profilers.profiler import Findings, ProfilerFailed, Subject

_EVENTS = ("cycles", "instructions", "LLC-load-misses", "task-clock", "page-faults", "context-switches")
_HARDWARE = _EVENTS[:3]
_CACHE_LINE = 64
_SECONDS = 0.5
"""For which the candidate is called again and again, or once if a call takes longer."""
_MOST_CALLS = 10_000
_ANSWER_SECONDS = 10.0


class Perf:
    """Hardware and software counters."""

    name = "perf"
    device_types = frozenset({"cpu"})
    languages = None

    def availability(self) -> Availability:
        """Whether perf is installed; what it may count shows when it counts."""
        if shutil.which("perf") is None:
            return Availability(ok=False, missing="perf", fix="apt-get install linux-perf")
        return Availability(ok=True)

    def profile(self, subject: Subject) -> Findings:
        """Instructions per cycle, bytes that missed the last cache, processors used, page faults and switches."""
        calls = max(1, min(_MOST_CALLS, int(_SECONDS / max(subject.call_seconds, 1e-7))))
        patience = 10 * _SECONDS + subject.call_limit
        with subject.start() as running:
            running.inspect(recording.repeat, timeout=patience, times=min(calls, 3))  # Threads exist afterwards.
            with _Counting(running.pid) as counting:
                start = perf_counter()
                running.inspect(recording.repeat, timeout=patience, times=calls)
                seconds = perf_counter() - start
                counts = counting.finish()
        if not counts:
            raise ProfilerFailed("it may not count here; sysctl kernel.perf_event_paranoid=1")
        hidden = [event for event in _HARDWARE if event not in counts]
        lacking = f"{', '.join(hidden)} cannot be counted on this machine" if hidden else ""
        return Findings(tuple(self._evidence(counts, seconds, calls)), lacking)

    def _evidence(self, counts: dict[str, float], seconds: float, calls: int) -> Iterator[Evidence]:
        detail = f"mean of {calls} calls"

        def item(metric: Metric, value: float, unit: str) -> Evidence:
            return Evidence(profiler=self.name, metric=metric, value=value, unit=unit, detail=detail)

        if counts.get("cycles") and "instructions" in counts:
            yield item(Metric.INSTRUCTIONS_PER_CYCLE, counts["instructions"] / counts["cycles"], "per cycle")
        if "LLC-load-misses" in counts:
            yield item(Metric.LAST_LEVEL_MISS_BYTES, counts["LLC-load-misses"] * _CACHE_LINE / calls, "B")
        if "task-clock" in counts:
            yield item(Metric.PROCESSORS_USED, counts["task-clock"] * 1e-3 / seconds, "processors")
        if "page-faults" in counts:
            yield item(Metric.PAGE_FAULTS, counts["page-faults"] / calls, "per call")
        if "context-switches" in counts:
            yield item(Metric.CONTEXT_SWITCHES, counts["context-switches"] / calls, "per call")


class _Counting:
    """``perf stat`` on the threads of one process; it counts from entering the context until ``finish``."""

    def __init__(self, pid: int) -> None:
        command_read, self._command = os.pipe()
        self._answer, answer_write = os.pipe()
        arguments = ["-x", ",", "-p", str(pid), "-D", "-1", "--control", f"fd:{command_read},{answer_write}"]
        self._process = subprocess.Popen(
            [str(shutil.which("perf")), "stat", *arguments, "-e", ",".join(_EVENTS)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"LC_ALL": "C"}, pass_fds=(command_read, answer_write), errors="replace",
        )  # fmt: skip
        os.close(command_read)
        os.close(answer_write)

    def __enter__(self) -> _Counting:
        try:
            self._tell("enable")
        except ProfilerFailed:
            self.close()
            raise
        return self

    def finish(self) -> dict[str, float]:
        """Stop, and give the counts of the events that could be counted."""
        self._tell("disable")
        self._process.send_signal(signal.SIGINT)
        try:
            said = self._process.communicate(timeout=_ANSWER_SECONDS)[1]
        except subprocess.TimeoutExpired:
            raise ProfilerFailed("perf does not end") from None
        return parse_perf(said)

    def _tell(self, word: str) -> None:
        """Send a command and wait until it is obeyed."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._command, f"{word}\n".encode())
        ready, _, _ = select.select([self._answer], [], [], _ANSWER_SECONDS)
        if not ready or not os.read(self._answer, 16).startswith(b"ack"):
            self._process.kill()
            said = self._process.communicate()[1].strip().splitlines()
            raise ProfilerFailed(f"perf does not count: {said[0] if said else 'no answer'}")

    def close(self) -> None:
        """End perf if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        for descriptor in (self._command, self._answer):
            os.close(descriptor)

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_perf(text: str) -> dict[str, float]:
    """Event -> count, from ``perf stat -x ,`` (task-clock in milliseconds); what was not counted is left out."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        fields = line.split(",")
        if len(fields) >= 3:
            with contextlib.suppress(ValueError):
                found[fields[2].partition(":")[0]] = float(fields[0])
    return found


PROFILER = Perf()
