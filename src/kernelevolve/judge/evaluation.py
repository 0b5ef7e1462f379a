"""Evaluation: the stages that one candidate passes, from its text to its times."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from kernelevolve.candidates import Candidate
from kernelevolve.judge import integrity, memory_check, suspicion
from kernelevolve.judge.baselines import BaselineUnavailable
from kernelevolve.judge.bench import Bench
from kernelevolve.judge.cases import SEED, SEED_COMMITMENT, CaseBook
from kernelevolve.judge.clocks import Finding, Word
from kernelevolve.judge.correctness import BoundCandidate, worst
from kernelevolve.judge.graph_timing import GraphTimes, time_graphs
from kernelevolve.judge.measurement import CANDIDATE, assemble
from kernelevolve.judge.memory_check import MEMORY_CHECK, NOT_EXAMINED, MemoryCheck
from kernelevolve.judge.oracle import Case
from kernelevolve.judge.physics import with_time
from kernelevolve.judge.rejection import Rejected, rejection
from kernelevolve.judge.series import SeriesSession, series_calls
from kernelevolve.judge.session import ProgramSession
from kernelevolve.judge.settings import TimingPlan
from kernelevolve.judge.static import check_text, read_notes
from kernelevolve.judge.timing import BaselineLost, Contestant, TimingSession
from kernelevolve.judge.verdict import Effort, OutputError, Roofline, Samples, Stage, Verdict, VerdictKind
from kernelevolve.problems import Role, Workload
from kernelevolve.workers.handle import WorkerFailure
from kernelevolve.workers.messages import CandidateProgram
from kernelevolve.workers.wire import WireViolation

T = TypeVar("T")

_ARTIFACTS = frozenset({".so", ".cubin", ".ptx", ".hsaco"})
_ARTIFACT_LIMIT = 64 << 20
_SERIES_ROUNDS = {Effort.SCREEN: 2, Effort.PROMOTION: 5}
_FURTHER_ROUNDS = {Effort.SCREEN: 0, Effort.PROMOTION: 20}
"""A promotion's claim needs the consent of the judge's clock, which five rounds leave undecided for short kernels."""
_MORE_ROUNDS, _MORE_TIMES = 4, 2
"""So many shorter rounds are taken, so often at most, while the machine is too busy for the first to say anything."""
_ATTEMPTS = 2
"""Whatever rests on clocks must be seen this often before it is held against a candidate."""


@dataclass(slots=True)
class Evaluation:
    """One candidate at one effort, in one worker. ``run`` is called once."""

    bench: Bench
    candidate: Candidate
    effort: Effort
    best: dict[str, float]
    """Workload -> least seconds of any correct candidate so far."""
    rng: random.Random
    stage: Stage = Stage.STATIC
    artifact_key: str | None = None
    series_calls: list[int] = field(default_factory=list)
    """For every workload, how many calls a series had by which the judge's clock was compared with the workers'."""
    taken_again: int = 0
    """Timed calls that other work on the machine disturbed, and that were repeated."""
    memory_check: MemoryCheck = NOT_EXAMINED
    seconds_building: float = 0.0
    seconds_running: float = 0.0
    _errors: list[OutputError] = field(default_factory=list)

    def run(self) -> Verdict:
        """The verdict. Raises only for failures of the judge itself."""
        start = perf_counter()
        try:
            verdict = self._pass_stages(self._in_worker)
        except Rejected as rejected:
            verdict = self._rejected(rejected)
        return verdict.model_copy(update={"seconds_total": perf_counter() - start})

    def build(self) -> Verdict | None:
        """Go no further than one checked call on the first workload; None if that works."""
        try:
            self._pass_stages(self._built)
        except Rejected as rejected:
            return self._rejected(rejected)
        return None

    def _rejected(self, rejected: Rejected) -> Verdict:
        return self._verdict(
            kind=rejected.kind,
            stage=rejected.stage,
            reason=rejected.reason,
            detail=rejected.detail,
            errors=worst((*self._errors, *rejected.errors)),
        )

    def _verdict(self, **fields: object) -> Verdict:
        return Verdict.model_validate(
            {
                "candidate_id": self.candidate.id,
                "effort": self.effort,
                "artifact_key": self.artifact_key,
                "seconds_building": self.seconds_building,
                "seconds_running": self.seconds_running,
                **fields,
            }
        )

    def _pass_stages(self, stages: Callable[[ProgramSession, str, Path], T]) -> T:
        source = check_text(self.candidate)
        self.stage = Stage.BUILD
        session, place = self.bench.workers.open_candidate()
        try:
            return stages(session, source, place)
        except (WorkerFailure, WireViolation) as failure:
            raise rejection(failure, self.stage, session.handle.output()) from None
        finally:
            session.close()
            self.bench.workers.clean(place)

    def _load(self, session: ProgramSession, source: str) -> None:
        with self.bench.building():
            start = perf_counter()
            session.load(CandidateProgram(source), self.bench.settings.compile_seconds)
            self.seconds_building += perf_counter() - start

    def _built(self, session: ProgramSession, source: str, _place: Path) -> None:
        self._load(session, source)
        self._settle(session, self.bench.workloads(Role.SEARCH)[0], self.bench.book)

    def _in_worker(self, session: ProgramSession, source: str, place: Path) -> Verdict:
        promotion = self.effort is Effort.PROMOTION
        if self.effort is not Effort.TUNE:
            self.bench.noise_at_start()  # Before anything of the candidate runs, whose threads could be part of it.
        book = self.bench.fresh_book() if promotion else self.bench.book
        timed = self.bench.workloads(*((Role.SEARCH, Role.HELD_OUT) if promotion else (Role.SEARCH,)))
        self._load(session, source)
        bound = {workload.name: self._settle(session, workload, book) for workload in timed}
        if promotion:
            for workload in self.bench.workloads(Role.STRESS):
                self._settle(session, workload, book)
                book.forget(workload)  # It is not timed; large problems need the memory.
            self.memory_check = memory_check.examine(self.bench, source, book)
        self.artifact_key = _artifact_key(place)
        self.stage = Stage.PROMOTION if promotion else Stage.TIMING
        samples, rooflines = self._time(timed, bound, book)
        graphs = time_graphs(self.bench, bound, timed, book, samples, self.rng) if promotion else GraphTimes()
        samples += graphs.samples
        missing = self.bench.unavailable()
        return self._verdict(
            kind=VerdictKind.CORRECT,
            stage=self.stage,
            errors=worst(self._errors),
            measurement=assemble(self.bench, samples, self._circumstances(book)),
            rooflines=rooflines,
            notes=(
                *read_notes(self.candidate.source),
                *self.memory_check.notes,
                *graphs.notes,
                *(f"the baseline {name} could not run: {reason}" for name, reason in missing.items()),
            ),
        )

    def _circumstances(self, book: CaseBook) -> dict[str, str]:
        found = {
            "calls_taken_again": str(self.taken_again),
            "calls_in_a_series": " ".join(map(str, self.series_calls)) or "none",
        }
        if self.effort is Effort.PROMOTION:
            found |= {f"conditions.{name}": value for name, value in self.bench.target.conditions().items()}
            # Nobody is judged by this book any more.
            found |= {SEED: str(book.seed), SEED_COMMITMENT: book.commitment, MEMORY_CHECK: self.memory_check.summary}
        return found

    # -- correctness and integrity ---------------------------------------------------------------------------------

    def _settle(self, session: ProgramSession, workload: Workload, book: CaseBook) -> BoundCandidate:
        """Construct the candidate for a workload and settle whether it is right there."""
        with self.bench.lock.working():
            cases, effects = book.cases(workload), self.bench.effects(workload, book)
        settings = self.bench.settings
        case, name, training = cases[0], workload.name, self.bench.instance.training
        self.stage = Stage.BUILD
        start = perf_counter()
        with self.bench.building():
            repacked = session.construct(
                name,
                case.init_inputs,
                case.weights,
                self.bench.instance.parameter_names,
                training,
                settings.compile_seconds,
            )
        binding = session.bind(name, case.inputs)
        self.seconds_building += perf_counter() - start
        if training and repacked:
            reason = "from_reference makes other parameters than the reference's, and in training these are what counts"
            raise Rejected(VerdictKind.WRONG, Stage.BUILD, reason)
        bound = BoundCandidate(session, name, binding, effects, self.bench.target.device_type, settings.run_seconds)
        self.stage = Stage.SMOKE
        patience = settings.compile_seconds + settings.run_seconds
        start = perf_counter()
        with self.bench.building():  # Just-in-time compilers work in the first call.
            call = bound.call(case, patience)
        self.seconds_building += perf_counter() - start
        with self.bench.lock.working():
            start = perf_counter()
            if self.effort is Effort.TUNE:
                self._errors += bound.check_call(call, case, Stage.SMOKE)
            else:
                self._errors += bound.check_pair(call, case, cases[1])
                self.stage = Stage.INTEGRITY
                if not repacked:
                    self._check_state(bound, case, cases[1])
                if training:
                    self._errors += bound.check_gradients(cases[1], patience)
            self.seconds_running += perf_counter() - start
        return bound

    def _check_state(self, bound: BoundCandidate, case: Case, second: Case) -> None:
        """What the calls on the two cases have left in weights and buffers."""
        state = bound.session.read_state(bound.instance, case.weights, bound.run_seconds)
        if self.bench.instance.training:
            name = integrity.wrong_state(case.weights, self.bench.state_after(case, second), state)
            if name is not None:
                reason = f"a call in training mode leaves something else in {name} than the reference"
                raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, reason)
            return
        changed = integrity.changed_weights(case.weights, state)
        if changed:
            raise Rejected(VerdictKind.WRONG, Stage.INTEGRITY, f"a call changed the weight {changed[0]}")

    # -- timing ----------------------------------------------------------------------------------------------------

    def _time(
        self, workloads: Sequence[Workload], bound: dict[str, BoundCandidate], book: CaseBook
    ) -> tuple[list[Samples], tuple[Roofline, ...]]:
        """Samples of all workloads, and rooflines with the candidate's time."""
        samples: list[Samples] = []
        rooflines: list[Roofline] = []
        with self.bench.lock.working():
            floors = self.bench.rooflines(workloads)
        plan = getattr(self.bench.settings, self.effort.value)
        for workload in workloads:
            timed, series = self._time_workload(
                workload, bound[workload.name], book, plan, len(workloads), floors[workload.name]
            )
            for contestant in timed:
                self.taken_again += contestant.taken_again
                samples += contestant.samples(workload.name, self.bench.maker.methods)
            samples += series.samples(workload.name) if series is not None else ()
            seconds = next(c for c in timed if c.name == CANDIDATE).median(self.bench.clocks[0])
            rooflines.append(with_time(floors[workload.name], seconds))
            self.best[workload.name] = min(seconds, self.best.get(workload.name, seconds))
        return samples, tuple(rooflines)

    def _time_workload(
        self,
        workload: Workload,
        bound: BoundCandidate,
        book: CaseBook,
        plan: TimingPlan,
        shares: int,
        roofline: Roofline,
    ) -> tuple[list[Contestant], SeriesSession | None]:
        findings: list[Finding] = []
        # Rates that were measured beside other work are too low, and the floor that follows from them too high.
        floor = 0.0 if self.bench.ceilings.disturbed else roofline.floor_seconds
        usual = self.bench.baseline_seconds(workload) if self.effort is Effort.TUNE else {}
        for _ in range(_ATTEMPTS):
            others = self._others(workload, book)
            candidate = Contestant(
                CANDIDATE, bound.session, bound.instance, bound.binding, bound.run_seconds, trusted=False
            )
            best = self.best.get(workload.name)
            session = TimingSession(
                plan=plan,
                seconds=plan.seconds / shares,
                clocks=self.bench.clocks,
                fresh=lambda: book.variation(workload),
                rng=self.rng,
                check=self._checks(bound, book.cases(workload)).__next__,
                check_rate=self.bench.settings.check_rate,
                abandon_above=best * plan.abandon if best is not None and plan.abandon is not None else None,
            )
            with self.bench.lock.timing():
                start = perf_counter()
                session.run([candidate, *others])
                finding = suspicion.of_times(candidate, others, usual, self.bench.clocks[0], floor)
                series = None
                if finding is None and self.effort is not Effort.TUNE:
                    series = self._series(candidate, others, bound, workload, book)
                    finding = suspicion.of_series(series)
                self.seconds_running += perf_counter() - start
            if finding is None:
                return [candidate, *others], series
            findings.append(finding)
        disturbed = next((finding for finding in findings if finding.word is Word.DISTURBED), None)
        kind = VerdictKind.CHEAT if disturbed is None else VerdictKind.INFRASTRUCTURE
        reason = (disturbed or findings[-1]).reason
        raise Rejected(kind, self.stage, f"on workload {workload.name}: {reason}")

    def _series(
        self,
        candidate: Contestant,
        others: Sequence[Contestant],
        bound: BoundCandidate,
        workload: Workload,
        book: CaseBook,
    ) -> SeriesSession:
        """Series of the candidate and the baselines. Holds the device."""
        cases, clock = book.cases(workload), self.bench.clocks[0]
        if self.effort is Effort.SCREEN:
            others = sorted(others, key=lambda other: other.median(clock))[:1]  # One shows what a hand-shake takes.
        series = SeriesSession(
            candidate=candidate,
            others=others,
            bound=bound,
            calls=series_calls(candidate.median("wall"), cases[0], self.bench.target.device_type),
            clock=clock,
            known=lambda: self.rng.choice(cases),
            fresh=lambda: book.variation(workload),
            golden=lambda inputs: book.case_of(workload, inputs),
            rng=self.rng,
            stage=self.stage,
        )
        self.series_calls.append(series.calls)
        series.run(_SERIES_ROUNDS[self.effort], more=_FURTHER_ROUNDS[self.effort])
        for _ in range(_MORE_TIMES):
            finding = suspicion.of_series(series)
            if finding is None or finding.word is not Word.DISTURBED:
                break
            series.run_shorter(_MORE_ROUNDS)
        self._errors += series.errors
        return series

    def _others(self, workload: Workload, book: CaseBook) -> list[Contestant]:
        """The baselines to time beside the candidate."""
        if self.effort is Effort.SCREEN:
            fastest = None if self.bench.settings.screen_all_baselines else self.bench.fastest_baseline()
            return self.bench.contestants(workload, book, None if fastest is None else [fastest])
        if self.effort is Effort.TUNE:
            return []  # Its times are compared with each other only: every call is spent on the candidate.
        known = self.bench.baseline_seconds(workload)
        fastest = min(known, key=known.__getitem__, default=None)
        others = self.bench.contestants(workload, book)
        if fastest is not None:
            try:
                others.append(self.bench.twin(fastest, workload, book))
            except BaselineUnavailable as reason:
                raise BaselineLost(f"the second run of {fastest} failed: {reason}") from None
        return others

    def _checks(self, bound: BoundCandidate, cases: Sequence[Case]) -> Iterator[None]:
        """Each step calls the candidate on inputs with a golden and compares; first those that it has not seen."""
        seen = 1 if self.effort is Effort.TUNE else 2
        unseen = list(cases[seen:])
        self.rng.shuffle(unseen)
        for errors in bound.checks(unseen, cases, self.rng, self.stage):
            self._errors += errors
            yield


def _artifact_key(place: Path) -> str | None:
    """Hash over everything that the candidate's compilers left, in an order that does not depend on names."""
    built = (p for p in place.rglob("*") if p.suffix in _ARTIFACTS and p.is_file() and not p.is_symlink())
    digests = sorted(hashlib.sha256(p.read_bytes()).hexdigest() for p in built if p.stat().st_size <= _ARTIFACT_LIMIT)
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else None
