"""Profiling: one judged candidate under every profiler that fits, each in a fresh worker.

Nothing that is learned here reaches a verdict. The inputs are of the workload's distribution and none that a candidate
is judged on, because what a profiler reports may be told to whoever writes the next one.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import materialise
from kernelevolve.errors import KernelEvolveError
from kernelevolve.judge.bench import Bench
from kernelevolve.judge.rejection import rejection
from kernelevolve.judge.session import ProgramSession
from kernelevolve.judge.verdict import Stage
from kernelevolve.problems import Workload
from kernelevolve.profilers import PROFILERS, Evidence
from kernelevolve.profilers.profiler import BINDING, INSTANCE, WEIGHTS, Probe, Profiler, ProfilerFailed, Running
from kernelevolve.workers import messages
from kernelevolve.workers.handle import WorkerDied, WorkerFailure
from kernelevolve.workers.isolation import Capability
from kernelevolve.workers.messages import CandidateProgram
from kernelevolve.workers.wire import WireViolation


@dataclass(slots=True)
class Profiled:
    """What all profilers said."""

    evidence: list[Evidence] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Profiler -> why it said nothing, or what it could not see."""


def profile(
    bench: Bench, candidate: Candidate, workload: Workload, call_seconds: float, names: Collection[str] | None = None
) -> Profiled:
    """Put the profilers of these names (all by default) to a candidate, one after the other.

    ``call_seconds`` is about how long a call takes. What a profiler or the candidate does under it ends that profiler's
    part only.
    """
    subject = CandidateSubject(bench, candidate, workload, call_seconds)
    profiled = Profiled()
    for name in PROFILERS:
        profiler = PROFILERS.get(name)
        fits = bench.target.device_type in profiler.device_types
        fits = fits and (profiler.languages is None or candidate.language in profiler.languages)
        if fits and (names is None or name in names):
            with bench.lock.timing():
                _ask(profiler, subject, profiled)
    return profiled


def _ask(profiler: Profiler, subject: CandidateSubject, profiled: Profiled) -> None:
    available = profiler.availability()
    if not available.ok:
        profiled.missing[profiler.name] = f"there is no {available.missing}; {available.fix}"
        return
    try:
        findings = profiler.profile(subject)
    except ProfilerFailed as failed:
        profiled.missing[profiler.name] = " ".join(str(failed).split())
    except (WorkerFailure, WireViolation) as failure:
        reason = rejection(failure, Stage.SMOKE, "").reason
        profiled.missing[profiler.name] = f"the candidate did not come through it: {reason}"
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        profiled.missing[profiler.name] = f"what came back from the candidate's process is no report: {said}"
    except KernelEvolveError as error:
        profiled.missing[profiler.name] = error.sentence
    else:
        profiled.ran.append(profiler.name)
        profiled.evidence += findings.evidence
        if findings.lacking:
            profiled.missing[profiler.name] = findings.lacking


class CandidateSubject:
    """Implements ``profilers.profiler.Subject``."""

    def __init__(self, bench: Bench, candidate: Candidate, workload: Workload, call_seconds: float) -> None:
        self.source = materialise(candidate)
        self.training = bench.instance.training
        self.call_seconds = call_seconds
        self.call_limit = bench.settings.run_seconds
        self._bench = bench
        self._workload = workload
        instance = bench.instance
        seed = secrets.randbits(62)
        self._inputs = instance.make_inputs(workload, secrets.randbits(62))
        self._init_inputs = instance.init_inputs(seed)
        self._weights = instance.make_weights(workload, seed)

    @contextmanager
    def start(
        self, *, before: Probe | None = None, load: bool = True, capabilities: Collection[Capability] = ()
    ) -> Iterator[Running]:
        """See the protocol."""
        session, place = self._bench.workers.open_candidate(frozenset(capabilities))
        try:
            running = _Running(session)
            binding = session.bind(BINDING, self._inputs)
            session.prepare(binding, self._inputs, self.call_limit)
            if before is not None:
                running.inspect(before, timeout=self.call_limit)
            if load:
                self._load(session)
                first_call = self._bench.settings.compile_seconds + self.call_limit
                session.forget(session.call(INSTANCE, [binding], first_call))
            else:
                held = (self._init_inputs, self._weights, tuple(self._bench.instance.parameter_names))
                session.prepare(session.bind(WEIGHTS, held), held, self.call_limit)
            yield running
        finally:
            session.close()
            self._bench.workers.clean(place)

    def _load(self, session: ProgramSession) -> None:
        patience, instance = self._bench.settings.compile_seconds, self._bench.instance
        session.load(CandidateProgram(self.source), patience)
        session.construct(
            INSTANCE, self._init_inputs, self._weights, instance.parameter_names, instance.training, patience
        )


class _Running:
    """Implements ``profilers.profiler.Running``."""

    def __init__(self, session: ProgramSession) -> None:
        self._session = session

    @property
    def pid(self) -> int:
        pid = self._session.handle.worker_pid
        if pid is None:
            raise WorkerDied(None, None)
        return pid

    def inspect(self, probe: Probe, *, timeout: float, **arguments: Any) -> dict[str, Any]:
        reply = self._session.handle.ask(messages.Inspect(probe, arguments), timeout).reply
        assert isinstance(reply, messages.Inspected)
        return reply.report
