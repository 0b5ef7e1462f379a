"""Replay: a stored run searched again from its recording. Nothing is judged; everything that decides is decided again.

Policy, bandit, operators, dedup and graph run as they did; verdicts and timings come from the store. What a writer told
is taken from the store too, and so are the numbers that the numeric search found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import program_key
from kernelevolve.errors import InvalidRequest
from kernelevolve.operators import Operator, ProposalLost, Retune, Writer
from kernelevolve.search.evaluation import Outcome
from kernelevolve.search.finale import TUNE
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Policy
from kernelevolve.search.proposals import Proposal, Proposals
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.state import SearchState
from kernelevolve.search.turns import AGENT, next_expansion
from kernelevolve.skills.recall import past_kernels
from kernelevolve.store import RunRecord, Store, StoredNode
from kernelevolve.targets import Target


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of a replay."""

    nodes: int
    """Nodes that came out the same."""
    difference: str = ""
    """One sentence about the first one that did not; '' if the graph is the same."""


def replay(
    store: Store,
    record: RunRecord,
    settings: SearchSettings,
    policy: Callable[[], Policy],
    operators: Sequence[Operator],
    target: Target,
) -> Replayed:
    """Search a run again by its recording, up to the first difference.

    Raises InvalidRequest for a run whose operators worked side by side, with several workers or conversations: the
    order in which they ended was chance, decided what was asked next, and is not in the recording.
    """
    if any(stored.node.operator not in (AGENT, TUNE) for stored in store.nodes(record.id)):
        _refuse_side_by_side(record.id, settings)
    with TemporaryDirectory(prefix="kernelevolve-replay-") as directory:
        scratch = Store(Path(directory))
        try:
            return _Replay(store, record, settings, policy(), operators, target, scratch).run()
        finally:
            scratch.close()


def _refuse_side_by_side(run: str, settings: SearchSettings) -> None:
    if settings.workers > 1:
        raise InvalidRequest(
            f"run {run} was searched by {settings.workers} workers at once, whose order is not repeated",
            fix="replay a run of one worker, such as one on a CPU",
        )
    if settings.conversations > 1:
        # Nodes and conclusions are recorded, but not which of them a question knew of when it was put.
        raise InvalidRequest(
            f"run {run} held {settings.conversations} conversations at once, and the order in which their answers "
            "came is not recorded",
            fix="replay a run that was made with --conversations 1",
        )


class _Replay:
    def __init__(
        self,
        store: Store,
        record: RunRecord,
        settings: SearchSettings,
        policy: Policy,
        operators: Sequence[Operator],
        target: Target,
        scratch: Store,
    ) -> None:
        self._store, self._record, self._settings = store, record, settings
        copy = scratch.create_run(record.problem, record.target, device=record.device)
        self._state = SearchState(scratch, copy.id, settings.budget, policy)
        for conclusion in store.recordings.conclusions(record.id).values():
            scratch.recordings.conclude(copy.id, conclusion)
        past = past_kernels(store.blobs, settings.transfers)
        self._proposals = Proposals(self._state, operators, record.problem, target, settings.seed, past)

    def run(self) -> Replayed:
        """Node by node."""
        for recorded in self._store.nodes(self._record.id):
            number = recorded.node.id
            difference = self._decide(recorded) or self._insert(recorded)
            if difference:
                return Replayed(number, f"node {number}: {difference}")
        return Replayed(len(self._state.graph))

    def _decide(self, recorded: StoredNode) -> str:
        """Decide what comes next; what is different from the recording."""
        node, state = recorded.node, self._state
        candidate = self._store.candidate(self._record.id, node.id)
        if node.operator == TUNE and recorded.proposal is None:
            return ""  # The numeric search decided by timings, not the policy.
        if node.operator == AGENT:
            expansion = next_expansion(state, self._settings.seed)
            if expansion.parents != node.parents:
                state.policy.withdraw(expansion, spent=False)  # The writer named other parents.
            state.issued += 1
            return "" if state.claim(candidate) else "the told program was judged before"
        return self._propose(node, candidate, recorded.proposal)

    def _propose(self, node: Node, candidate: Candidate, question: int | None) -> str:
        proposal = self._proposals.next()
        proposed: Candidate | Retune | None = None
        while proposal is not None:
            if isinstance(proposal.operator, Writer):
                proposed = self._written(proposal, question)
                if proposed is not None:
                    break
                proposal = self._proposals.next()
                continue
            proposed = proposal.operator.propose(proposal.context)
            if isinstance(proposed, Candidate) and self._state.claim(proposed):
                break
            proposal = self._proposals.instead(proposal) or self._proposals.next()
        if proposal is None or proposed is None:
            return f"the operators have nothing new, the recording has one by {node.operator}"
        if isinstance(proposed, Retune):
            same = node.operator == TUNE and node.parents == (proposed.node,)
            return "" if same else f"numbers for node {proposed.node}, the recording has {node.operator}"
        if (proposal.operator.name, proposal.expansion.parents) != (node.operator, node.parents):
            return (
                f"{proposal.operator.name} of {list(proposal.expansion.parents)}, "
                f"the recording has {node.operator} of {list(node.parents)}"
            )
        if program_key(proposed) != program_key(candidate):
            return f"{node.operator} proposed another program than the recorded one"
        return ""

    def _written(self, proposal: Proposal, question: int | None) -> Candidate | Retune | None:
        """What a writer gave to a question that led to the node in hand; None if the question led to none."""
        number, expansion = proposal.context.number, proposal.expansion
        found: Candidate | Retune | None = None
        with suppress(ProposalLost):
            found = proposal.operator.propose(proposal.context)
        if isinstance(found, Candidate) and not self._state.claim(found):
            found = None
        if found is None:
            self._state.policy.withdraw(expansion, spent=False)
            if self._state.store.recordings.conclusion(self._state.run, number) is not None:
                self._state.lost(proposal.operator.name, number)
        elif isinstance(found, Retune) and number != question:
            self._state.policy.withdraw(expansion, spent=False)  # It led to no better numbers.
            return None
        return found

    def _insert(self, recorded: StoredNode) -> str:
        run, number = self._record.id, recorded.node.id
        candidate, verdict = self._store.candidate(run, number), self._store.verdict(run, number)
        trials = tuple(self._store.trials(run, number))
        outcome = Outcome(candidate, verdict, trials, recorded.artifact)
        self._state.ledger.evaluations.spent = number + 1
        made = self._state.insert(outcome, recorded.node.parents, recorded.node.operator, recorded.proposal)
        for field in fields(Node):
            ours, theirs = getattr(made, field.name), getattr(recorded.node, field.name)
            if ours != theirs:
                return f"its {field.name} is {ours!r}, the recording has {theirs!r}"
        return ""
