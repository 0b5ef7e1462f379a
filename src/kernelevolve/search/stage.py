"""Stage: where work is done in slots, heard of on one thread, written to the store and told to listeners."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kernelevolve.search.evaluation import Outcome
from kernelevolve.search.events import Event, IncumbentChanged, Listener, NodeInserted, TrialMeasured
from kernelevolve.search.node import Node
from kernelevolve.search.slots import Done, Raised, Slots
from kernelevolve.search.state import SearchState
from kernelevolve.store import Timing

T = TypeVar("T")

_POLL_SECONDS = 0.2


class Stopped(Exception):
    """The search was asked to stop; what is in flight is abandoned."""


@dataclass(frozen=True, slots=True)
class _Trial:
    """A message from a slot: a configuration was timed."""

    timing: Timing


class Stage:
    """Shared by the parts of a run. Everything but ``post_trial`` and ``expired`` is for the engine's thread."""

    def __init__(self, state: SearchState, slots: int, listeners: Sequence[Listener], stop: threading.Event) -> None:
        self.state = state
        self._slots = Slots(slots)
        self._listeners = listeners
        self._stop = stop
        self._until = 0.0

    def tell(self, event: Event) -> None:
        """Tell the listeners."""
        for listener in self._listeners:
            listener.on_event(event)

    def allow_trials_until(self, seconds: float) -> None:
        """Set the run's age in seconds after which no evaluation begins a further trial."""
        self._until = seconds

    def expired(self) -> bool:
        """True when no further trial may begin; asked by evaluations in their slots."""
        return self._stop.is_set() or self.state.ledger.seconds >= self._until

    def post_trial(self, timing: Timing) -> None:
        """An evaluation timed a configuration; called in its slot."""
        self._slots.post(_Trial(timing))

    @property
    def free(self) -> int:
        """Slots without work."""
        return self._slots.free

    def start(self, work: Callable[[], Any]) -> int:
        """Begin work in a slot; ``wait`` brings its end under the returned key."""
        return self._slots.start(work)

    def wait(self, on_trial: Callable[[Timing], None] = lambda timing: None) -> Done | Raised:
        """Until a piece of work ends, counting and telling trials on the way. Raises Stopped if that is wished."""
        while not self._stop.is_set():
            message = self._slots.wait(_POLL_SECONDS)
            if isinstance(message, _Trial):
                ledger = self.state.ledger
                ledger.count_trial()
                on_trial(message.timing)
                self.tell(TrialMeasured(message.timing[1], ledger.trials))
            elif isinstance(message, (Done, Raised)) and not self._stop.is_set():
                return message
        raise Stopped

    def call(self, work: Callable[[], T], on_trial: Callable[[Timing], None] = lambda timing: None) -> T:
        """Do one piece of work in a slot, with nothing else in flight, and return what it returns or raises."""
        key = self.start(work)
        ended = self.wait(on_trial)
        assert ended.key == key
        if isinstance(ended, Raised):
            raise ended.error
        result: T = ended.result
        return result

    def insert(self, outcome: Outcome, parents: tuple[int, ...], operator: str, proposal: int | None = None) -> Node:
        """Store a judged candidate, then tell of it."""
        before = self.state.graph.best
        node = self.state.insert(outcome, parents, operator, proposal)
        self.tell(NodeInserted(node, outcome.verdict, self.state.ledger.reading()))
        if node.correct and (before is None or node.fitness > before.fitness):
            self.tell(IncumbentChanged(node, outcome.verdict))
        return node
