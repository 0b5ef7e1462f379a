"""Baselines: the reference as it is and as torch.compile makes it, each in a worker that lasts as long as the judge."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from kernelevolve.judge.cases import CaseBook
from kernelevolve.judge.session import ProgramSession
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.timing import Contestant
from kernelevolve.problems import Workload
from kernelevolve.workers.handle import WorkerDied, WorkerFailure
from kernelevolve.workers.messages import ReferenceProgram

COMPILE_MODES: dict[str, dict[str, str | None]] = {
    "cpu": {"eager": None, "compile": "default"},
    "cuda": {"eager": None, "compile": "default", "max-autotune": "max-autotune-no-cudagraphs"},
}
"""torch device type -> name of a baseline -> ``mode`` of torch.compile (None: eager)."""


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
        self._run_seconds = settings.run_seconds
        self._lock = threading.Lock()
        self._session: ProgramSession | None = None
        self._ready: dict[str, Contestant] = {}
        self.failure: str | None = None
        """Why it is unavailable, once that is known."""

    def contestant(self, workload: Workload, book: CaseBook, parameters: frozenset[str], training: bool) -> Contestant:
        """This baseline with a workload bound, compiled and called once. Blocks; holds the device while compiling.

        Raises BaselineUnavailable, also on every later call, if the baseline cannot run the problem.
        """
        with self._lock:
            if self.failure is not None:
                raise BaselineUnavailable(self.failure)
            if self._session is not None and not self._session.handle.alive:
                self._end()
            if workload.name not in self._ready:
                try:
                    with self._working():
                        self._ready[workload.name] = self._make(workload, book, parameters, training)
                except WorkerDied as death:
                    self._end()
                    if death.signal_name != "SIGKILL":
                        self.failure = str(death)
                    raise BaselineUnavailable(str(death)) from None
                except WorkerFailure as failure:
                    self._end()
                    self.failure = " ".join(str(failure).split())[:300]
                    raise BaselineUnavailable(self.failure) from None
            ready = self._ready[workload.name]
            return Contestant(self.name, ready.session, ready.instance, ready.binding, ready.run_seconds)

    def _make(self, workload: Workload, book: CaseBook, parameters: frozenset[str], training: bool) -> Contestant:
        if self._session is None:
            self._session = self._open_session(self.name)
            self._session.load(self._program, self._compile_seconds)
        case = book.cases(workload)[0]
        session, name = self._session, workload.name
        session.construct(name, case.init_inputs, case.weights, parameters, training, self._compile_seconds)
        binding = session.bind(name, case.inputs)
        first = Contestant(self.name, session, name, binding, self._compile_seconds)
        first.call(case.inputs)
        return Contestant(self.name, session, name, binding, self._run_seconds)

    def _end(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None
        self._ready.clear()

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._end()
