"""Baselines: the reference as it is, as torch.compile makes it and as a library does it, if the problem names one.

Each is in a worker that lasts as long as the judge.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from kernelevolve.judge.cases import CaseBook
from kernelevolve.judge.correctness import compare_or_reject, output_slots
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.session import ProgramSession
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.timing import Contestant
from kernelevolve.problems import Workload
from kernelevolve.workers.handle import WorkerDied, WorkerFailure
from kernelevolve.workers.layout import Layout
from kernelevolve.workers.messages import ReferenceProgram

COMPILE_MODES: dict[str, dict[str, str | None]] = {
    "cpu": {"eager": None, "compile": "default"},
    "cuda": {"eager": None, "compile": "default", "max-autotune": "max-autotune-no-cudagraphs"},
}
"""torch device type -> name of a baseline -> ``mode`` of torch.compile (None: eager)."""

LIBRARY = "library"
"""Name of the baseline that a problem itself brings; its results are checked like a candidate's."""
_MOST_KILLS = 2
_PATIENCE = 10
"""A baseline may be this many times slower than a candidate before it is given up: it is the user's own program."""


class BaselineUnavailable(Exception):
    """A baseline cannot run this problem; the message says why."""


class Baseline:
    """One baseline: a session that is started when needed, and again if its worker dies. Thread-safe."""

    def __init__(
        self,
        name: str,
        program: ReferenceProgram,
        open_session: Callable[[str], ProgramSession],
        working: Callable[[], AbstractContextManager[None]],
        settings: JudgeSettings,
    ) -> None:
        self.name = name
        self._program = program
        self._open_session = open_session
        self._working = working
        self._compile_seconds = settings.baseline_compile_seconds
        self._call_seconds = _PATIENCE * settings.run_seconds
        self._lock = threading.Lock()
        self._session: ProgramSession | None = None
        self._ready: dict[str, Contestant] = {}
        self._kills = 0
        self.failure: str | None = None
        """Why it is unavailable, once that is known."""

    def contestant(self, workload: Workload, book: CaseBook, parameters: frozenset[str], training: bool) -> Contestant:
        """This baseline with a workload bound, compiled and called once. Blocks; holds the device while compiling.

        Raises BaselineUnavailable, also on every later call, if the baseline cannot run the problem.
        """
        with self._lock:
            if self.failure is None and self._session is not None and not self._session.handle.alive:
                self._end()
            while self.failure is None and workload.name not in self._ready:
                try:
                    with self._working():
                        self._ready[workload.name] = self._make(workload, book, parameters, training)
                except Rejected as rejected:
                    self._end()
                    self.failure = rejected.reason
                except WorkerFailure as failure:
                    self._end()
                    self._note(failure)
            if self.failure is not None:
                raise BaselineUnavailable(self.failure)
            return replace(self._ready[workload.name], blocks={}, handshakes=[], gaps=[])

    def _note(self, failure: WorkerFailure) -> None:
        """A worker that somebody killed gets another try; everything else is the problem's own doing and final."""
        killed = isinstance(failure, WorkerDied) and failure.killed
        self._kills += killed
        if not killed or self._kills > _MOST_KILLS:
            self.failure = " ".join(str(failure).split())[:300]

    def _make(self, workload: Workload, book: CaseBook, parameters: frozenset[str], training: bool) -> Contestant:
        if self._session is None:
            self._session = self._open_session(self.name)
            self._session.load(self._program, self._compile_seconds)
        case = book.cases(workload)[0]
        session, name, patience = self._session, workload.name, self._compile_seconds
        session.construct(name, case.init_inputs, case.weights, parameters, training, patience)
        binding = session.bind(name, case.inputs)
        session.prepare(binding, case.inputs, patience)
        call = session.call(name, [binding], patience)  # The compiler works in the first call.
        if self._program.library:
            outputs, _ = session.pull(call, {0: output_slots(case, Layout())}, patience)
            compare_or_reject(case, outputs[0])
        session.forget(call)
        return Contestant(self.name, session, name, binding, self._call_seconds)

    def _end(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
        self._ready.clear()

    def rest(self) -> None:
        """End the worker and forget what failed: whoever asks next gets a new one. Nobody may be using it."""
        with self._lock:
            self._end()
            self.failure, self._kills = None, 0

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._end()
