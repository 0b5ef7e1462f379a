"""Bench: what all evaluations of one judge share: the device, the workers, the baselines and the input sets."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from math import prod
from pathlib import Path
from typing import Any

import torch

from kernelevolve.errors import KernelEvolveError
from kernelevolve.judge.baselines import COMPILE_MODES, LIBRARY, Baseline, BaselineUnavailable
from kernelevolve.judge.cases import CaseBook
from kernelevolve.judge.device import DeviceLock
from kernelevolve.judge.integrity import ReferenceEffects, reference_effects
from kernelevolve.judge.noise import StartNoise
from kernelevolve.judge.oracle import Case, Oracle, exact_products
from kernelevolve.judge.physics import rooflines
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.judge.statistics import TWIN_SUFFIX
from kernelevolve.judge.timing import BaselineLost, Contestant, TimingSession
from kernelevolve.judge.verdict import Roofline, Samples
from kernelevolve.judge.worker_factory import WorkerFactory
from kernelevolve.problems import Problem, Role, Workload
from kernelevolve.problems.instance import load_instance
from kernelevolve.targets import Target
from kernelevolve.workers.layout import map_leaves
from kernelevolve.workers.messages import ClockName, ReferenceProgram
from kernelevolve.workers.program import adopt_weights


class Bench:
    """Everything that lasts as long as the judge. Thread-safe."""

    def __init__(self, problem: Problem, target: Target, workspace: Path, settings: JudgeSettings) -> None:
        self.problem, self.target, self.settings = problem, target, settings
        self.workers = WorkerFactory(problem, target, workspace, settings)
        self.ceilings, self.threads, self.maker = self.workers.ceilings, self.workers.threads, self.workers.maker
        # The scheduler tells how long a program stood waiting for a processor; of a GPU nobody tells.
        self.lock = DeviceLock(self.ceilings.device, apart=target.device_type != "cpu")
        try:
            self.instance = load_instance(problem, torch.device(target.device_type))
        except KernelEvolveError:
            self.workers.close()
            raise
        self._oracle = Oracle(self.instance, problem.tolerance)
        self._reference_lock = threading.Lock()
        self.book = self.fresh_book()
        self._effects: dict[str, ReferenceEffects] = {}
        self._rooflines: dict[str, Roofline] = {}
        self._measuring = threading.Lock()
        self._baseline_seconds: dict[str, dict[str, float]] = {}
        self._listening = threading.Lock()
        self.noise: StartNoise | None = None
        """What ``noise_at_start`` has found, once somebody has asked for it."""
        modes = COMPILE_MODES[target.device_type]
        programs = {name: ReferenceProgram(problem, mode) for name, mode in modes.items()}
        if self.instance.library is not None:
            programs[LIBRARY] = ReferenceProgram(problem, None, library=True)
        names = [name for name in programs if settings.baselines is None or name in settings.baselines]
        self._baselines = {name: self._baseline(name, programs[name]) for name in names}
        self._twins = {name: self._baseline(name, programs[name]) for name in names}
        self._pool = ThreadPoolExecutor(max_workers=max(1, len(names)), thread_name_prefix="baseline")

    def fresh_book(self) -> CaseBook:
        """Input sets with new secret seeds."""
        return CaseBook(self._oracle, self.instance, self.settings, self._reference_lock)

    def workloads(self, *roles: Role) -> tuple[Workload, ...]:
        """The problem's workloads in these roles."""
        return tuple(workload for workload in self.instance.workloads if workload.role in roles)

    def effects(self, workload: Workload, book: CaseBook) -> ReferenceEffects:
        """What the reference does on a workload besides returning."""
        case, other, *_ = book.cases(workload)
        with self._reference_lock:
            if workload.name not in self._effects:
                model = self.instance.make_model(0)
                adopt_weights(model, case.weights, self.instance.device)
                self._effects[workload.name] = reference_effects(model, case.inputs, other.inputs)
            return self._effects[workload.name]

    def state_after(self, *cases: Case) -> dict[str, torch.Tensor]:
        """The reference's state dict after calls on these cases, in training mode."""
        with self._reference_lock:
            model = self.instance.make_model(0)
            adopt_weights(model, cases[0].weights, self.instance.device)
            for case in cases:
                copies = map_leaves(case.inputs, lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf)
                with exact_products(), torch.no_grad():
                    model(*copies)
            return {name: value.detach() for name, value in model.state_dict().items()}

    def rooflines(self, workloads: Sequence[Workload]) -> dict[str, Roofline]:
        """The physics of the workloads, by name."""
        with self._reference_lock:
            missing = [workload for workload in workloads if workload.name not in self._rooflines]
            if missing:
                self._rooflines |= rooflines(self.instance, missing, self.ceilings)
            return {workload.name: self._rooflines[workload.name] for workload in workloads}

    def building(self) -> AbstractContextManager[None]:
        """Hold while building where that disturbs timing."""
        return self.lock.working() if self.target.exclusive_compile else nullcontext()

    def arguments(
        self, workload: Workload, seed: int
    ) -> tuple[tuple[Any, ...], dict[str, torch.Tensor], tuple[Any, ...]]:
        """Arguments of the constructor, weights, and arguments of a call, all from one seed; nothing is computed."""
        with self._reference_lock:
            instance = self.instance
            return (
                instance.init_inputs(seed),
                instance.make_weights(workload, seed),
                instance.make_inputs(workload, seed),
            )

    # -- baselines -------------------------------------------------------------------------------------------------

    def _baseline(self, name: str, program: ReferenceProgram) -> Baseline:
        return Baseline(name, program, self.workers.open_baseline, self.lock.working, self.settings)

    def start_baselines(self) -> None:
        """Compile the baselines for the search workloads in the background, side by side."""

        def prepare(name: str) -> None:
            for workload in self.workloads(Role.SEARCH):
                self.contestants(workload, self.book, [name])

        for name in self._baselines:
            self._pool.submit(prepare, name)

    def contestants(self, workload: Workload, book: CaseBook, names: Sequence[str] | None = None) -> list[Contestant]:
        """The baselines that can run a workload, ready to be timed. Waits for their compilation."""
        found = []
        for name, baseline in self._baselines.items():
            if names is None or name in names:
                try:
                    found.append(
                        baseline.contestant(workload, book, self.instance.parameter_names, self.instance.training)
                    )
                except BaselineUnavailable:
                    continue
        return found

    def twin(self, name: str, workload: Workload, book: CaseBook) -> Contestant:
        """The same baseline once more, in another process: what differs between the two is noise.

        Raises BaselineUnavailable.
        """
        twin = self._twins[name].contestant(workload, book, self.instance.parameter_names, self.instance.training)
        twin.name = name + TWIN_SUFFIX
        return twin

    def end_twin(self, name: str) -> None:
        """End the second process of a baseline; whoever asks next gets a new one."""
        self._twins[name].rest()

    def unavailable(self) -> dict[str, str]:
        """Baselines that cannot run this problem, with the reason."""
        return {name: baseline.failure for name, baseline in self._baselines.items() if baseline.failure is not None}

    def baseline_seconds(self, workload: Workload) -> dict[str, float]:
        """Seconds per call of each baseline that runs, by the main clock; measured on first use and then kept.

        Must not be called while the device is held.
        """
        with self._measuring:
            if workload.name not in self._baseline_seconds:
                contestants = self.contestants(workload, self.book)
                self._time(workload, contestants, self.settings.screen.seconds)
                self._baseline_seconds[workload.name] = {c.name: c.median(self.clocks[0]) for c in contestants}
            return self._baseline_seconds[workload.name]

    def fastest_baseline(self) -> str | None:
        """The baseline that is fastest over the search workloads together; None if none runs them all.

        Must not be called while the device is held.
        """
        timed = [self.baseline_seconds(workload) for workload in self.workloads(Role.SEARCH)]
        means = {name: prod(times[name] for times in timed) for name in timed[0] if all(name in t for t in timed)}
        return min(means, key=means.__getitem__, default=None)

    def noise_at_start(self) -> StartNoise:
        """How far apart two processes of the fastest baseline are on the search workloads; measured on first use.

        Must not be called while the device is held.
        """
        with self._listening:
            if self.noise is None:
                self.noise = self._listen()
            return self.noise

    def _listen(self) -> StartNoise:
        name: str | None = None
        workloads, samples = self.workloads(Role.SEARCH), list[Samples]()
        try:
            name = self.fastest_baseline()
            if name is None:
                return StartNoise(missing="no baseline runs all search workloads")
            for workload in workloads:
                pair = [*self.contestants(workload, self.book, [name]), self.twin(name, workload, self.book)]
                self._time(workload, pair, self.settings.screen.seconds / len(workloads))
                samples += [s for one in pair for s in one.samples(workload.name, self.maker.methods)]
        except (BaselineUnavailable, BaselineLost) as reason:
            return StartNoise(missing=str(reason))
        finally:
            if name is not None:
                self.end_twin(name)  # A search is long, and a twin takes the memory of a whole baseline.
        return StartNoise.of(name, samples)

    def _time(self, workload: Workload, contestants: Sequence[Contestant], seconds: float) -> None:
        """Time baselines side by side as a screen does."""
        session = TimingSession(
            self.settings.screen, seconds, self.clocks, lambda: self.book.variation(workload), random.Random()
        )
        with self.lock.timing():
            session.run(contestants)

    @property
    def clocks(self) -> tuple[ClockName, ...]:
        """The clocks of this device, the main one first."""
        return tuple(self.maker.methods)

    @property
    def baseline_names(self) -> tuple[str, ...]:
        """All baselines of this target, also unavailable ones."""
        return tuple(self._baselines)

    def close(self) -> None:
        """End every process and remove the scratch directories."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.workers.close()  # First, for a baseline is locked while its worker compiles.
        for baseline in (*self._baselines.values(), *self._twins.values()):
            baseline.close()
