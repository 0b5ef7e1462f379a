"""The live view of a run: a panel that redraws itself on a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kernelevolve.judge.verdict import Effort, Verdict, VerdictKind
from kernelevolve.report.claim import outcome_word
from kernelevolve.report.progress import PHASE_WORDS, Progress
from kernelevolve.report.style import OUTCOME_STYLES, VERDICT_STYLES
from kernelevolve.report.units import duration_text, seconds_text, share_text, speedup_text
from kernelevolve.search.events import (
    BaselineMeasured,
    Event,
    IncumbentChanged,
    JudgeFailed,
    Listener,
    ModelUnavailable,
    OperatorFailed,
    PhaseChanged,
    PromotionJudged,
    RunFinished,
    RunStarted,
)
from kernelevolve.search.node import Node

_REDRAWS_PER_SECOND = 4
_LINE_EVERY_SECONDS = 5.0


class View(Listener, Protocol):
    """A listener with a beginning and an end, between which it owns the terminal."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def live_view(console: Console) -> View:
    """The view that fits the console."""
    return LiveView(console) if console.is_terminal and not console.is_dumb_terminal else LineView(console)


class LiveView:
    """Redraws a panel several times a second, also between events, so that the clock is seen to run."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress()
        self._live = Live(
            ProgressPanel(self.progress), console=console, refresh_per_second=_REDRAWS_PER_SECOND, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._live.stop()

    def on_event(self, event: Event) -> None:
        """Take an event in; the next redraw shows it."""
        self.progress.on_event(event)


class LineView:
    """Prints a line for what matters at once, and one every few seconds for the rest."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.progress = Progress(clock)
        self._console = console
        self._clock = clock
        self._printed_at = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        return None

    def on_event(self, event: Event) -> None:
        """Take an event in, and print a line if there is something to say."""
        self.progress.on_event(event)
        line = self._line(event)
        if line is not None:
            self._printed_at = self._clock()
            self._console.print(line, soft_wrap=True)

    def _line(self, event: Event) -> str | None:
        match event:
            case RunStarted(run, problem, target, policy):
                return f"run {run}: {problem} on {target}, policy {policy}"
            case BaselineMeasured(name, seconds):
                return f"baseline {name}: {'could not run' if seconds is None else seconds_text(seconds)}"
            case PhaseChanged(phase):
                return f"[{duration_text(self.progress.seconds)}] {PHASE_WORDS[phase]}"
            case IncumbentChanged(node, verdict):
                return f"[{duration_text(self.progress.seconds)}] new best: {describe_best(node, verdict)}"
            case PromotionJudged(node, verdict, accepted):
                return f"[{duration_text(self.progress.seconds)}] {describe_promotion(node, verdict, accepted)}"
            case ModelUnavailable(reason):
                return f"going on without a language model: {reason}"
            case OperatorFailed(operator, error):
                return f"{operator} had no answer: {error}"
            case JudgeFailed(reason):
                return f"the judge could not judge a candidate: {reason}"
            case RunFinished(reason=reason, interrupted=interrupted):
                return f"[{duration_text(self.progress.seconds)}] {'interrupted' if interrupted else 'ended'}: {reason}"
        return self._counts() if self._clock() - self._printed_at >= _LINE_EVERY_SECONDS else None

    def _counts(self) -> str:
        progress = self.progress
        counts = ", ".join(f"{n} {kind}" for kind, n in progress.verdicts.most_common())
        left = progress.remaining_seconds
        return (
            f"[{duration_text(progress.seconds)}] {progress.spent.evaluations} evaluations ({counts or 'none yet'}), "
            f"{progress.trials} trials"
            + (f", {money}" if (money := progress.money_words) else "")
            + (f", about {duration_text(left)} left" if left is not None else "")
        )


def describe_best(node: Node, verdict: Verdict) -> str:
    """One line: which node, how fast, against which baselines."""
    against = ", ".join(f"{s.baseline} {speedup_text(s)} {s.clock} time" for s in verdict.speedups.values())
    return (
        f"node {node.id} ({node.operator}) {seconds_text(verdict.seconds)}, "
        f"{share_text(verdict.roofline_fraction)} of the roofline; against {against or 'no baseline'}"
    )


def describe_promotion(node: Node, verdict: Verdict, accepted: bool) -> str:
    """One line: what the strict test said of a finalist."""
    if accepted:
        return f"node {node.id} passed the strict test, faster than every baseline: {describe_best(node, verdict)}"
    if verdict.correct:
        return f"node {node.id} is correct but not faster than every baseline: {describe_best(node, verdict)}"
    return f"node {node.id} failed the strict test: {verdict.kind}, {verdict.reason}"


class ProgressPanel:
    """Draws the present state of a Progress whenever it is rendered."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        progress = self._progress
        parts: list[RenderableType] = [self._budget()]
        if progress.baselines or progress.best:
            parts.append(self._best())
        if progress.verdicts:
            parts.append(self._verdicts())
        if progress.recent:
            # Above the panel's frame and its other lines; a low terminal shows fewer candidates rather than scrolling.
            parts.append(self._recent(max(1, options.max_height - 16)))
        started = progress.started
        title = f"{started.problem} on {started.target}" if started else "starting"
        subtitle = f"run {started.run} · policy {started.policy} · Ctrl-C stops and keeps everything" if started else ""
        yield Panel(Group(*parts), title=Text(title, "bold"), subtitle=Text(subtitle, "dim"), title_align="left",
                    subtitle_align="left", padding=(0, 1))  # fmt: skip

    def _budget(self) -> RenderableType:
        progress = self._progress
        phase = PHASE_WORDS[progress.phase] if progress.phase else "preparing"
        table = Table.grid(padding=(0, 2))
        table.add_row(Text("phase", "dim"), Text(phase, "bold cyan"), "")
        if progress.started is not None:
            budget, spent = progress.started.budget, progress.spent
            flying = f" (+{spent.in_flight} in work)" if spent.in_flight else ""
            table.add_row(
                Text("evaluations", "dim"), ProgressBar(budget.evaluations, spent.evaluations, width=24),
                Text(f"{spent.evaluations} of {budget.evaluations}{flying} · {progress.trials} trials"),
            )  # fmt: skip
            left = progress.remaining_seconds
            table.add_row(
                Text("time", "dim"), ProgressBar(budget.seconds, min(progress.seconds, budget.seconds), width=24),
                Text(
                    f"{duration_text(progress.seconds)} of {duration_text(budget.seconds)}"
                    + (f" · about {duration_text(left)} left" if left is not None else "")
                ),
            )  # fmt: skip
            if money := progress.money_words:
                table.add_row(Text("models", "dim"), self._money_bar(), Text(money))
            if progress.model_failures:
                table.add_row(Text("", "dim"), "", Text(progress.model_failures[-1], "yellow", no_wrap=True))
        return table

    def _money_bar(self) -> RenderableType:
        share = self._progress.money_share
        return Text("no limit", "dim") if share is None else ProgressBar(1.0, min(1.0, share), width=24)

    def _best(self) -> RenderableType:
        progress = self._progress
        table = Table.grid(padding=(0, 2))
        if progress.best is None:
            for name, seconds in progress.baselines.items():
                shown = "could not run" if seconds is None else f"{seconds_text(seconds)} (measured)"
                table.add_row(Text(f"baseline {name}", "dim"), Text(shown))
            if progress.verdicts:
                table.add_row(Text("best", "dim"), Text("nothing correct yet"))
            return table
        node, verdict = progress.best
        stands_on = "strict test" if verdict.effort is Effort.PROMOTION else "short timing, not yet promoted"
        table.add_row(
            Text("best", "dim"),
            Text(
                f"node {node.id} ({node.operator}) · {seconds_text(verdict.seconds)} · "
                f"{share_text(verdict.roofline_fraction)} of the roofline · {stands_on}", "bold",
            ),
        )  # fmt: skip
        for speedup in verdict.speedups.values():
            style = OUTCOME_STYLES.get(outcome_word(speedup, verdict), "yellow")
            table.add_row(
                Text(f"  against {speedup.baseline}", "dim"),
                Text(f"{speedup_text(speedup)} {speedup.clock} time, {speedup.confidence:.0%} interval", style),
            )
        return table

    def _verdicts(self) -> RenderableType:
        counts = Text()
        counts.append("verdicts     ", "dim")
        for kind, count in self._progress.verdicts.most_common():
            counts.append(f"{count} {kind.replace('_', ' ')}  ", VERDICT_STYLES[VerdictKind(kind)])
        for _ in self._progress.judge_failures[:1]:
            counts.append(f"{len(self._progress.judge_failures)} not judged: the judge failed", "magenta")
        return counts

    def _recent(self, rows: int) -> RenderableType:
        table = Table(box=None, padding=(0, 1), header_style="dim", expand=True)
        for name, justify in (("node", "right"), ("operator", "left"), ("verdict", "left"), ("time", "right")):
            table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        table.add_column("what the judge said", ratio=1, no_wrap=True, overflow="ellipsis")
        for node, verdict in list(self._progress.recent)[-rows:]:
            table.add_row(
                str(node.id), node.operator, Text(verdict.kind.replace("_", " "), VERDICT_STYLES[verdict.kind]),
                seconds_text(verdict.seconds), Text(_one_line(verdict)),
            )  # fmt: skip
        return table


def _one_line(verdict: Verdict) -> str:
    if not verdict.correct:
        return " ".join(f"{verdict.stage}: {verdict.reason}".split())
    found = verdict.speedups.values()
    return ", ".join(f"{speedup_text(s)} {s.baseline}" for s in found) or "correct, not timed against a baseline"
