"""What the command line and Python have in common: set up a search, run it, and write down what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelevolve.candidates import Candidate
from kernelevolve.ensemble import choose, distiller, operators_of
from kernelevolve.errors import InvalidCandidate, InvalidRequest, MissingTarget
from kernelevolve.judge.protocol import Judge
from kernelevolve.judge.verdict import Effort, Verdict
from kernelevolve.languages import candidate_of
from kernelevolve.operators.llm.model_choice import ModelChoice, OpenModel
from kernelevolve.operators.llm.settings import WritingSettings
from kernelevolve.problems import Problem
from kernelevolve.problems.loaders import from_module, load_problem
from kernelevolve.profilers import PROFILERS, Diagnosis
from kernelevolve.results import write_results
from kernelevolve.run import Run
from kernelevolve.search.engine import Engine
from kernelevolve.search.events import Listener, ModelUnavailable
from kernelevolve.search.ledger import Budget
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.settings import SearchSettings, default_policy
from kernelevolve.skills.library import settings_for
from kernelevolve.skills.records import DEFAULT_INJECTION
from kernelevolve.store import RunRecord, Store
from kernelevolve.targets import Target, resolve
from kernelevolve.vetting import refuse_vacuous
from kernelevolve.workers.sandbox import Sandbox
from kernelevolve.workspace import open_run, open_store

if TYPE_CHECKING:
    from torch import nn


_TRANSFER = "transfer"
"""The operator that has nothing to do without kernels of earlier runs."""
_WORKERS = 3
"""Candidates in work at once where compiling does not disturb timing: one is timed, the next are built."""


def optimize(
    problem: Problem | Path | str | nn.Module | Callable[..., Any],
    example_inputs: Any = None,
    *,
    target: str = "auto",
    evaluations: int = 60,
    minutes: float = 10,
    seed: int = 0,
    out: Path | str = "runs",
    policy: str | None = None,
    operators: Sequence[str] | None = None,
    models: Sequence[str] | WritingSettings = (),
    tokens: int | None = None,
    dollars: float | None = None,
    fallback: bool = False,
    conversations: int = 1,
    recording: Path | str | None = None,
    roofline_target: float | None = None,
    skills: bool = True,
    injection: float = DEFAULT_INJECTION,
    sandbox: Sandbox | str = Sandbox.AUTO,
    listeners: Sequence[Listener] = (),
) -> Run:
    """Search for a fast, verified kernel and return the run.

    ``problem`` is a Problem, a file in the KernelBench format, the name of a shipped one
    (``ranking/rmsnorm_residual``), or a module or function together with ``example_inputs``, a tuple of its arguments.
    ``evaluations`` and ``minutes`` are hard limits; ``roofline_target`` ends the search early, at that fraction of the
    roofline. ``models`` are language models that write candidates (``openai:gpt-5``; keys come from the environment),
    within ``tokens`` and ``dollars``; ``fallback`` allows to go on without those that cannot be used here, and
    ``conversations`` is how many of them are held at once. ``recording`` is a run whose programs are judged again, in
    the place of an operator. With ``skills`` the run may use what earlier runs of the workspace on similar problems
    found; ``injection`` is the share of nodes whose prompts show it. ``sandbox`` says how well candidates must be shut
    in: 'auto' (as well as this machine can, and at least off the network and off all files but their own), 'strict'
    (fully), or 'none' (not at all). An interruption (Ctrl-C) keeps everything: the returned run is ``interrupted`` and
    can be resumed.

    Raises KernelEvolveError: InvalidProblem, MissingTarget, InvalidRequest, or the bare one for a machine that cannot
    shut candidates in, with a sentence that says how to mend it.
    """
    begun = begin(
        problem, example_inputs, target=target, evaluations=evaluations, minutes=minutes, seed=seed, out=out,
        policy=policy, operators=operators, models=models, tokens=tokens, dollars=dollars, fallback=fallback,
        conversations=conversations, recording=recording, roofline_target=roofline_target, skills=skills,
        injection=injection, sandbox=sandbox,
    )  # fmt: skip
    for reason in begun.unavailable:
        for listener in listeners:
            listener.on_event(ModelUnavailable(reason))
    try:
        return _search(begun, listeners)
    finally:
        begun.judge.close()


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that is about to be searched, and what it takes to judge."""

    store: Store
    record: RunRecord
    settings: SearchSettings
    target: Target
    judge: Judge
    """To be closed by whoever has it."""
    unavailable: tuple[str, ...] = ()
    """Why language models that were named are not asked, a sentence each."""
    opened: Mapping[ModelChoice, OpenModel] = field(default_factory=dict)
    """Language models that are open already."""


def begin(
    problem: Problem | Path | str | nn.Module | Callable[..., Any],
    example_inputs: Any = None,
    *,
    target: str = "auto",
    evaluations: int = 60,
    minutes: float = 10,
    seed: int = 0,
    out: Path | str = "runs",
    policy: str | None = None,
    operators: Sequence[str] | None = None,
    models: Sequence[str] | WritingSettings = (),
    tokens: int | None = None,
    dollars: float | None = None,
    fallback: bool = False,
    conversations: int = 1,
    recording: Path | str | None = None,
    roofline_target: float | None = None,
    skills: bool = True,
    injection: float = DEFAULT_INJECTION,
    sandbox: Sandbox | str = Sandbox.AUTO,
) -> Begun:
    """What ``optimize`` does before it searches: check everything, vet the problem, open a judge, store the run."""
    device = resolve(target)
    place = None if recording is None else str(open_run(str(recording), out=out).directory.resolve())
    chosen = choose(operators, models, dollars=dollars, fallback=fallback, recording=place)
    injection = checked_injection(injection) if skills else 0.0
    settings = SearchSettings(
        budget=checked_budget(evaluations, minutes, tokens, dollars),
        policy=policy or default_policy(evaluations),
        operators=chosen.operators,
        writing=chosen.writing,
        recording=place,
        sandbox=checked_sandbox(sandbox),
        conversations=conversations,
        seed=seed,
        workers=1 if device.exclusive_compile else _WORKERS,
        roofline_target=roofline_target,
    )
    POLICIES.get(settings.policy)
    store = open_store(out)
    text = _as_problem(problem, example_inputs, store)
    refuse_vacuous(text, device)
    seen = settings_for(store, text, device, injection=injection, transfers=skills)
    # Without a past kernel the choice of operators is what it would be if there were no such operator.
    names = settings.operators
    if not operators and not seen.transfers:
        names = tuple(name for name in names if name != _TRANSFER)
    settings = settings.model_copy(update={**dict(seen), "operators": names})
    judge = open_judge(text, device, store, settings.sandbox, screen_all_baselines=False)
    try:
        record = store.create_run(
            text, device.name, device=device.device_name(), settings=settings.model_dump(mode="json")
        )
    except BaseException:
        judge.close()
        raise
    return Begun(store, record, settings, device, judge, chosen.unavailable, chosen.opened)


def resume(
    run: str,
    *,
    out: Path | str = "runs",
    evaluations: int | None = None,
    minutes: float | None = None,
    tokens: int | None = None,
    dollars: float | None = None,
    sandbox: Sandbox | str | None = None,
    listeners: Sequence[Listener] = (),
) -> Run:
    """Continue a run that was interrupted or killed, or one that ended, with a larger budget.

    ``run`` is as for ``open_run``. The limits, if given, replace the run's and count what it has spent already. Nothing
    that was judged is judged again. ``sandbox``, if given, replaces the run's from now on; a run that was begun with
    'none' is only continued so if that is said again.
    Raises InvalidRequest if there is no such run, MissingTarget if this machine lacks its target or has another device
    than the run began on.
    """
    found = open_run(run, out=out)
    store, record = found.store, found.record
    settings = with_limits(SearchSettings.model_validate(record.settings), evaluations, minutes, tokens, dollars)
    settings = settings.model_copy(update={"sandbox": continued_sandbox(record.id, settings, sandbox)})
    device = device_of(record)
    judge = open_judge(record.problem, device, store, settings.sandbox, screen_all_baselines=False)
    try:
        store.set_settings(record.id, settings.model_dump(mode="json"))
        return _search(Begun(store, record, settings, device, judge), listeners)
    finally:
        judge.close()


def device_of(record: RunRecord) -> Target:
    """The target of a stored run on this machine. Raises MissingTarget if that is not the device that it began on."""
    device = resolve(record.target)
    if record.device and device.device_name() != record.device:
        raise MissingTarget(
            f"run {record.id} was timed on {record.device!r} and this is {device.device_name()!r}",
            fix="resume it on such a device, or start a new run here",
        )
    return device


def verify(
    problem: Problem | Path | str,
    candidate: Candidate | Path | str,
    *,
    target: str = "auto",
    effort: Effort = Effort.PROMOTION,
    sandbox: Sandbox | str = Sandbox.AUTO,
    out: Path | str = "runs",
) -> Verdict:
    """Judge one candidate, unless told otherwise as strictly as a finalist: fresh process, held-out and stress
    workloads, long timing.

    ``candidate`` is a Candidate or a Python file that defines ``ModelNew``; ``sandbox`` is as for ``optimize``.
    Raises KernelEvolveError for what cannot be read or run here; anything the candidate itself does is in the verdict.
    """
    device = resolve(target)
    text = load_problem(problem) if not isinstance(problem, Problem) else problem
    program = candidate if isinstance(candidate, Candidate) else read_candidate(Path(candidate))
    judge = open_judge(text, device, open_store(out), checked_sandbox(sandbox))
    try:
        return judge.evaluate(program, effort)
    finally:
        judge.close()


def profile(
    problem: Problem | Path | str,
    candidate: Candidate | Path | str,
    *,
    target: str = "auto",
    workload: str | None = None,
    profilers: Sequence[str] | None = None,
    sandbox: Sandbox | str = Sandbox.AUTO,
    out: Path | str = "runs",
) -> tuple[Verdict, Diagnosis]:
    """Judge one candidate as in a search, then put it to the profilers: the verdict, and what holds it back.

    A candidate that is correct, or wrong and yet runs, is profiled on ``workload`` (by default the slowest that was
    timed); of any other the diagnosis says only that it was not. ``profilers`` are names, all that fit by default.
    Raises KernelEvolveError for what cannot be read or run here, and for names that do not exist.
    """
    from kernelevolve.judge.diagnosis import diagnose
    from kernelevolve.judge.local import LocalJudge
    from kernelevolve.judge.settings import JudgeSettings

    for name in profilers or ():
        PROFILERS.get(name)
    device = resolve(target)
    text = load_problem(problem) if not isinstance(problem, Problem) else problem
    program = candidate if isinstance(candidate, Candidate) else read_candidate(Path(candidate))
    # One baseline shows that the machine times as it should; what the others reach is no part of a diagnosis.
    settings = JudgeSettings(sandbox=checked_sandbox(sandbox), baselines=("eager",))
    judge = LocalJudge(text, device, workspace=open_store(out).workspace / "judge", settings=settings)
    try:
        verdict = judge.evaluate(program, Effort.SCREEN)
        if not verdict.ran:
            missing = dict.fromkeys(PROFILERS, f"a candidate that is {verdict.kind} is not profiled")
            return verdict, diagnose(verdict, missing=missing)
        return verdict, judge.profile(program, verdict, workload=workload, profilers=profilers)
    finally:
        judge.close()


def open_judge(
    problem: Problem,
    target: Target,
    store: Store,
    sandbox: Sandbox = Sandbox.AUTO,
    *,
    screen_all_baselines: bool = True,
) -> Judge:
    """A judge of one problem on this machine."""
    from kernelevolve.judge.local import LocalJudge
    from kernelevolve.judge.settings import JudgeSettings

    settings = JudgeSettings(sandbox=sandbox, screen_all_baselines=screen_all_baselines)
    return LocalJudge(problem, target, workspace=store.workspace / "judge", settings=settings)


def read_text(path: Path) -> str:
    """The text of a candidate's file. Raises InvalidCandidate."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        words = getattr(error, "strerror", None) or "it is not text"
        raise InvalidCandidate(f"the candidate cannot be read: {words}", path=path, fix="check the path") from None


def read_candidate(path: Path) -> Candidate:
    """The candidate in a file; its language is the first that recognises the text. Raises InvalidCandidate."""
    text = read_text(path)
    try:
        return candidate_of(text)
    except InvalidCandidate as error:
        raise InvalidCandidate(error.problem, path=path, line=error.line, fix=error.fix) from None


def _search(begun: Begun, listeners: Sequence[Listener]) -> Run:
    store, record, settings = begun.store, begun.record, begun.settings
    operators, retriever = operators_of(settings, begun.opened)
    policy = POLICIES.get(settings.policy)()
    Engine(store, record, settings, policy, operators, begun.target, begun.judge, listeners, retriever).run()
    run = Run(store, record.id)
    write_results(run, distiller(operators, settings, store, record.id))
    return run


def _as_problem(problem: Any, example_inputs: Any, store: Store) -> Problem:
    if isinstance(problem, Problem):
        return problem
    if isinstance(problem, (str, Path)):
        if example_inputs is not None:
            raise InvalidRequest("a problem file makes its own inputs", fix="leave example_inputs out")
        return load_problem(problem)
    if example_inputs is None:
        raise InvalidRequest("a module or function needs example inputs", fix="pass example_inputs=(x, y, …)")
    return from_module(problem, example_inputs, store_dir=store.workspace / "payloads")


def checked_sandbox(name: Sandbox | str) -> Sandbox:
    try:
        return Sandbox(name)
    except ValueError:
        raise InvalidRequest(f"there is no sandbox {name!r}", fix=f"use {', '.join(Sandbox)}") from None


def continued_sandbox(run: str, settings: SearchSettings, asked: Sandbox | str | None) -> Sandbox:
    """How the candidates of a stored run are shut in: as is asked for, or else as it was begun.

    Raises InvalidRequest if that would be not at all without having been asked for: 'none' is said each time.
    """
    if asked is not None:
        return checked_sandbox(asked)
    if settings.sandbox is Sandbox.NONE:
        raise InvalidRequest(
            f"run {run} was begun with --sandbox none, and nothing is run unsandboxed without being told to",
            fix="say --sandbox none again, or --sandbox auto to shut candidates in from now on",
        )
    return settings.sandbox


def with_limits(
    settings: SearchSettings,
    evaluations: int | None,
    minutes: float | None,
    tokens: int | None = None,
    dollars: float | None = None,
) -> SearchSettings:
    """The settings with these limits in the place of their own, where given. Raises InvalidRequest."""
    budget = checked_budget(
        settings.budget.evaluations if evaluations is None else evaluations,
        settings.budget.seconds / 60 if minutes is None else minutes,
        settings.budget.tokens if tokens is None else tokens,
        settings.budget.dollars if dollars is None else dollars,
    )
    return settings.model_copy(update={"budget": budget})


def checked_injection(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise InvalidRequest(f"an injection rate of {rate:g} is no share of the nodes", fix="give a number from 0 to 1")
    return rate


def checked_budget(evaluations: int, minutes: float, tokens: int | None = None, dollars: float | None = None) -> Budget:
    if evaluations < 1:
        raise InvalidRequest(f"{evaluations} evaluations are not enough to search", fix="allow at least one")
    if not minutes > 0:
        raise InvalidRequest(f"{minutes} minutes are not enough to search", fix="allow more than zero")
    if tokens is not None and tokens < 1:
        raise InvalidRequest(f"{tokens} tokens are not enough to ask a model", fix="allow more than zero")
    if dollars is not None and not 0 < dollars < float("inf"):
        raise InvalidRequest(f"{dollars:g} dollars are no limit", fix="allow more than zero")
    return Budget(evaluations=evaluations, seconds=minutes * 60, tokens=tokens, dollars=dollars)
