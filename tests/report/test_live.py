"""The live view: what the events say is what is shown, on a terminal and in a log file."""

from __future__ import annotations

import io
import unicodedata

import pytest
from rich.console import Console

from kernelevolve.judge.verdict import Clock, Effort, Measurement, Samples, Speedup, Stage, Verdict, VerdictKind
from kernelevolve.report.console import PlainConsole
from kernelevolve.report.live import LineView, LiveView, ProgressPanel, live_view
from kernelevolve.report.progress import Progress
from kernelevolve.search.events import (
    BaselineMeasured,
    Event,
    IncumbentChanged,
    JudgeFailed,
    NodeInserted,
    Phase,
    PhaseChanged,
    PromotionJudged,
    RunFinished,
    RunStarted,
    TrialMeasured,
)
from kernelevolve.search.ledger import Budget, Spent
from kernelevolve.search.node import Node
from stored_runs import HOSTILE


class Clockwork:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def node(number: int, kind: VerdictKind = VerdictKind.CORRECT) -> Node:
    return Node(number, f"c{number}", (), "synthesize", kind, 0.4, f"s{number}", 0)


def verdict(kind: VerdictKind = VerdictKind.CORRECT, effort: Effort = Effort.SCREEN, reason: str = "") -> Verdict:
    measurement = Measurement(
        samples=(Samples(program="candidate", workload="w", clock=Clock.WALL, method="m", blocks=((412e-6,),)),),
        speedups=(
            Speedup(baseline="eager", clock=Clock.WALL, value=2.0, low=1.9, high=2.1),
            Speedup(baseline="compile", clock=Clock.WALL, value=0.9, low=0.85, high=0.95),
        ),
    )
    return Verdict(
        candidate_id="c", kind=kind, stage=Stage.TIMING, effort=effort, reason=reason,
        measurement=measurement if kind is VerdictKind.CORRECT else None,
    )  # fmt: skip


STARTED = RunStarted("20261202-x-0001", "rmsnorm", "cpu", "greedy", Budget(evaluations=40, seconds=600), Spent())
EVENTS: tuple[Event, ...] = (
    STARTED,
    PhaseChanged(Phase.BASELINES),
    BaselineMeasured("eager", 824e-6),
    BaselineMeasured("max-autotune", None),
    PhaseChanged(Phase.SEARCH),
    NodeInserted(node(0), verdict(), Spent(1, 2, 0, 5.0, 1.0)),
    IncumbentChanged(node(0), verdict()),
    TrialMeasured(400e-6, 7),
    NodeInserted(
        node(1, VerdictKind.WRONG), verdict(VerdictKind.WRONG, reason="off by one"), Spent(2, 1, 7, 10.0, 2.0)
    ),
    JudgeFailed("the worker could not be forked"),
)


def drawn(events: tuple[Event, ...], *, width: int = 110, height: int = 40) -> str:
    progress = Progress(Clockwork())
    for event in events:
        progress.on_event(event)
    console = PlainConsole(file=io.StringIO(), width=width, height=height)
    console.print(ProgressPanel(progress))
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def lines(events: tuple[Event, ...], clock: Clockwork | None = None) -> list[str]:
    file = io.StringIO()
    with LineView(PlainConsole(file=file, width=80), clock or Clockwork()) as view:
        for event in events:
            view.on_event(event)
    return file.getvalue().splitlines()


def test_the_panel_shows_best_intervals_verdicts_budget_and_eta() -> None:
    text = drawn(EVENTS)
    assert "rmsnorm on cpu" in text
    assert "node 0 (synthesize) · 412 µs" in text
    assert "2.00× [1.90, 2.10] wall time" in text
    assert "0.90× [0.85, 0.95]" in text  # a baseline that is faster is shown as such, not left out
    assert "1 correct" in text
    assert "1 wrong" in text
    assert "2 of 40 (+1 in work) · 7 trials" in text
    assert "left" in text
    assert "off by one" in text
    assert "1 not judged" in text
    assert "not yet promoted" in text


def test_before_the_first_candidate_the_panel_shows_the_baselines() -> None:
    text = drawn(EVENTS[:4])
    assert "824 µs (measured)" in text
    assert "could not run" in text


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (200, 60)])
def test_the_panel_fits_the_terminal(size: tuple[int, int]) -> None:
    width, height = size
    text = drawn(EVENTS, width=width, height=height)
    assert all(len(line) <= width for line in text.splitlines())


@pytest.mark.parametrize("text", (*HOSTILE, "[bold red]x[/]", "\x1b[2J\x1b]0;title\x07"))
def test_a_reason_can_neither_style_nor_steer_the_terminal(text: str) -> None:
    events = (*EVENTS, NodeInserted(node(2, VerdictKind.CHEAT), verdict(VerdictKind.CHEAT, reason=text), Spent(3)))
    for shown in (drawn(events), "\n".join(lines((*events, JudgeFailed(text))))):
        assert not [c for c in shown if unicodedata.category(c) == "Cc" and c != "\n"]
        assert "\u202e" not in shown


def test_lines_say_what_matters_at_once() -> None:
    promoted = PromotionJudged(node(0), verdict(effort=Effort.PROMOTION), accepted=False)
    finished = RunFinished("20261202-x-0001", "all evaluations are spent", False, 0, Spent(40, 0, 90, 60.0))
    text = "\n".join(lines((*EVENTS, PhaseChanged(Phase.PROMOTION), promoted, finished)))
    assert "run 20261202-x-0001: rmsnorm on cpu, policy greedy" in text
    assert "baseline max-autotune: could not run" in text
    assert "new best: node 0" in text
    assert "compile 0.90× [0.85, 0.95] wall time" in text
    assert "correct but not faster than every baseline" in text
    assert "the judge could not judge a candidate: the worker could not be forked" in text
    assert "ended: all evaluations are spent" in text


def test_counts_come_every_few_seconds_and_not_for_every_event() -> None:
    clock = Clockwork()
    file = io.StringIO()
    view = LineView(PlainConsole(file=file, width=80), clock)
    view.on_event(STARTED)
    for number in range(100):
        clock.now += 0.25
        view.on_event(NodeInserted(node(number), verdict(), Spent(number + 1, seconds=clock.now)))
    counts = [line for line in file.getvalue().splitlines() if "evaluations" in line]
    assert len(counts) == 5
    assert all("correct" in line and "left" in line for line in counts)


def test_the_eta_follows_the_pace_and_never_passes_the_budget_of_time() -> None:
    clock = Clockwork()
    progress = Progress(clock)
    progress.on_event(STARTED)
    progress.on_event(PhaseChanged(Phase.SEARCH))
    for number in range(10):
        clock.now += 2.0
        progress.on_event(NodeInserted(node(number), verdict(), Spent(number + 1, seconds=clock.now)))
    left = progress.remaining_seconds
    assert left is not None
    assert 30 * 2.0 <= left <= 30 * 2.0 * 2  # thirty evaluations of two seconds, and what follows the search
    for number in range(10, 20):
        clock.now += 55.0
        progress.on_event(NodeInserted(node(number), verdict(), Spent(number + 1, seconds=clock.now)))
    left = progress.remaining_seconds
    assert left is not None
    assert left <= 600 - clock.now


def test_a_continued_run_starts_from_what_was_spent() -> None:
    progress = Progress(Clockwork())
    progress.on_event(RunStarted("r", "p", "cpu", "beam", Budget(evaluations=40, seconds=600), Spent(12, 0, 33, 100.0)))
    assert progress.seconds == 100.0
    assert (progress.spent.evaluations, progress.trials) == (12, 33)


def test_the_view_is_chosen_by_what_it_writes_to() -> None:
    assert isinstance(live_view(Console(file=io.StringIO())), LineView)
    assert isinstance(live_view(Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})), LiveView)
    assert isinstance(live_view(Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})), LineView)
