"""Retuning: numbers that somebody wishes for a program that was judged become the start of its numeric search."""

from __future__ import annotations

from kernelevolve.candidates import Config
from kernelevolve.search.evaluation import Request
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.state import SearchState


def retuning(state: SearchState, node: int, wish: Config, settings: SearchSettings) -> Request:
    """How the numeric search of a node goes on, beginning at the wish."""
    judged, earlier = state.judged(node), tuple(state.store.trials(state.run, node))
    trials = len(earlier) + max(1, settings.quick_trials)
    return Request(judged.candidate, (wish,), trials, earlier=earlier, known=judged.verdict)
