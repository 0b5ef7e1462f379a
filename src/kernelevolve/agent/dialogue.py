"""Dialogue: one run, asked and told from outside; what terminal and Model Context Protocol have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelevolve import session
from kernelevolve.errors import InvalidRequest
from kernelevolve.judge.protocol import Judge
from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.profilers import Diagnosis
from kernelevolve.prompting import DEFAULT_TOKENS, Memory, Prompt, Retriever, answered_source, assemble
from kernelevolve.results import write_results
from kernelevolve.run import Run
from kernelevolve.search.engine import Engine
from kernelevolve.search.evaluation import judge_twice
from kernelevolve.search.events import Listener
from kernelevolve.search.policies import POLICIES
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.turns import WAITING, Question, Told, Turns, told_candidate
from kernelevolve.skills.records import DEFAULT_INJECTION
from kernelevolve.store import RunLock, RunStatus
from kernelevolve.workers.sandbox import Sandbox

if TYPE_CHECKING:
    from kernelevolve.problems import Problem


def start(
    problem: Problem | Path | str,
    *,
    target: str = "auto",
    evaluations: int = 60,
    minutes: float = 10,
    seed: int = 0,
    out: Path | str = "runs",
    policy: str | None = None,
    skills: bool = True,
    injection: float = DEFAULT_INJECTION,
    sandbox: Sandbox | str = Sandbox.AUTO,
    retriever: Retriever | None = None,
) -> Dialogue:
    """A new run that waits for candidates: the problem is vetted and the baselines are timed, nothing is searched.

    ``minutes`` is time of judging; nobody pays for the time in which a writer thinks. Everything else is as for
    ``optimize``, whose errors this raises too.
    """
    begun = session.begin(
        problem, target=target, evaluations=evaluations, minutes=minutes, seed=seed, out=out, policy=policy,
        skills=skills, injection=injection, sandbox=sandbox,
    )  # fmt: skip
    store, run = begun.store, begun.record.id
    try:
        store.set_baselines(run, begun.judge.baselines())
        store.set_status(run, RunStatus.INTERRUPTED, WAITING)
    except BaseException:
        begun.judge.close()
        raise
    return Dialogue(Run(store, run), sandbox=sandbox, retriever=retriever, judge=begun.judge)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the prompt that puts it."""

    question: Question
    prompt: Prompt
    memory: Memory


class Dialogue:
    """One run. The judge is opened when the first candidate needs it and stays until ``close``; a context manager."""

    def __init__(
        self,
        run: Run,
        *,
        sandbox: Sandbox | str | None = None,
        retriever: Retriever | None = None,
        judge: Judge | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """``sandbox`` says how candidates are shut in here, by default as the run began; 'none' is said each time."""
        self.run = run
        self._sandbox = None if sandbox is None else session.checked_sandbox(sandbox)
        self._retriever = retriever
        self._judge = judge
        self._listeners = listeners
        self._target = session.device_of(run.record)

    def __enter__(self) -> Dialogue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the judge's processes."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None

    def ask(
        self,
        parents: Sequence[int] | None = None,
        *,
        memory: Memory | None = None,
        tokens: int = DEFAULT_TOKENS,
        diagnosis: Diagnosis | None = None,
    ) -> Asked:
        """The next prompt; asked again before something is told it is the same one, word for word but for the budget.

        ``parents`` are nodes to be changed (one), combined (two) or none for a draft, instead of the policy's choice.
        """
        question = self._turns().question(parents)
        context = question.briefing.context(
            question.parents, question.budget, memory=memory, retriever=self._retriever, diagnosis=diagnosis
        )
        return Asked(question, assemble(context, tokens=tokens), context.memory)

    def tell(self, text: str, parents: Sequence[int] | None = None, *, answer: bool = False) -> Told:
        """Judge a program and keep it as a node.

        ``text`` is the whole file, or with ``answer`` what a model replied: a fenced file, or edits to the program that
        the prompt for these parents shows. Raises InvalidCandidate if an answer holds no program or an edit does not
        apply; whatever is wrong with a program itself is in the verdict.
        """
        turns = self._turns()
        question = turns.question(parents)
        if answer:
            shown = self.run.candidate(question.parents[0]).source if question.parents else None
            text = answered_source(text, shown)
        candidate = told_candidate(text, list(question.briefing.languages()))
        return turns.tell(candidate, self._opened, parents)

    def raise_limits(self, evaluations: int | None, minutes: float | None) -> None:
        """Replace the run's limits by these, where given; they count what was spent already."""
        changed = session.with_limits(self._settings(), evaluations, minutes)
        self.run.store.set_settings(self.run.id, changed.model_dump(mode="json"))

    def profile(self, node: int) -> Diagnosis:
        """What holds a node back, by the profilers of this machine. Raises InvalidRequest if it does not run."""
        verdict = self.run.verdicts(node)[0]
        if not verdict.ran:
            raise InvalidRequest(f"node {node} is {verdict.kind} and cannot be profiled", fix="profile one that runs")
        found = session.profile(
            self.run.problem, self.run.candidate(node), target=self.run.target, sandbox=self._shut_in(),
            out=self.run.store.workspace,
        )  # fmt: skip
        return found[1]

    def verify(self, node: int) -> Verdict:
        """The strict test of one node; it becomes a verdict of the run, as in a finale."""
        candidate = self.run.candidate(node)
        lock = RunLock(self.run.directory)
        lock.acquire()
        try:
            verdict = judge_twice(self._opened(), candidate, Effort.PROMOTION)
            if verdict.kind is not VerdictKind.INFRASTRUCTURE:
                self.run.store.append_verdict(self.run.id, node, verdict)
        finally:
            lock.release()
        return verdict

    def finish(self) -> Run:
        """Tune and promote the best, and write kernel, certificate and report, as at the end of every search."""
        settings = self._settings()
        engine = Engine(
            self.run.store, self.run.record, settings, POLICIES.get(settings.policy)(), (), self._target,
            self._opened(), self._listeners,
        )  # fmt: skip
        engine.finish()
        write_results(self.run)
        return self.run

    def _settings(self) -> SearchSettings:
        return SearchSettings.model_validate(self.run.record.settings)

    def _shut_in(self) -> Sandbox:
        return session.continued_sandbox(self.run.id, self._settings(), self._sandbox)

    def _turns(self) -> Turns:
        settings = self._settings()
        return Turns(
            self.run.store, self.run.record, settings, POLICIES.get(settings.policy), self._target, self._listeners
        )

    def _opened(self) -> Judge:
        if self._judge is None:
            self._judge = session.open_judge(
                self.run.problem, self._target, self.run.store, self._shut_in(), screen_all_baselines=False
            )
        return self._judge
