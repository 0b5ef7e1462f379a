"""SearchState: what a search knows, kept in step with the store."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import program_key, read_plan
from kernelevolve.errors import InvalidCandidate
from kernelevolve.operators import Judged
from kernelevolve.search.bandit import Bandit
from kernelevolve.search.evaluation import Outcome
from kernelevolve.search.fitness import fitness, improvement
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.ledger import Budget, Ledger
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Policy
from kernelevolve.store import Checkpoint, Store, StoredNode

_JUDGED_AT_HAND = 512


class SearchState:
    """The graph, the policy, the bandit and the ledger of one run, rebuilt from the store when it is made.

    A run that was never begun and one that was killed are made the same way. Used by the engine's own thread only,
    but for ``is_duplicate``.
    """

    def __init__(self, store: Store, run: str, budget: Budget, policy: Policy) -> None:
        self.store, self.run, self.policy = store, run, policy
        self.bandit = Bandit()
        self.graph = SearchGraph()
        self.issued = 0
        """Questions put to operators so far."""
        self._programs: set[str] = set()
        self._given_back: set[str] = set()
        self._artifacts: dict[str, str] = {}
        with _collector_paused():
            for stored in store.nodes(run):
                self._learn(stored)
        self._saved = store.checkpoint(run)
        if self._saved is not None:
            policy.load_state_dict(self._saved.policy)
            self.bandit.load_state_dict(self._saved.bandit)
            self.issued = self._saved.issued
        # Questions that a killed process had put to models have numbers, too.
        self.issued = max(self.issued, store.recordings.questions(run))
        earlier = self._saved.ledger if self._saved is not None else {}
        # The nodes are what was spent; the checkpoint may be of an instant at which more was promised.
        self.ledger = Ledger(budget, {**earlier, "evaluations": len(self.graph)}, money=store.recordings.money(run))
        self.judged = lru_cache(maxsize=_JUDGED_AT_HAND)(self._load)

    def claim(self, candidate: Candidate) -> bool:
        """True, and the program is taken, if no candidate of this program was judged or is in work."""
        key = program_key(candidate)
        if key in self._programs:
            return False
        self._programs.add(key)
        return True

    def give_back(self, candidate: Candidate) -> None:
        """A claimed program was not judged, through no fault of its own: it may be claimed once more.

        Only once, so that a program on which the judge fails each time does not keep the others from being tried.
        """
        key = program_key(candidate)
        if key not in self._given_back:
            self._given_back.add(key)
            self._programs.discard(key)

    def tried(self) -> frozenset[str]:
        """Keys of all programs that were judged or are in work."""
        return frozenset(self._programs)

    def is_duplicate(self, artifact: str) -> bool:
        """True if an earlier program built into this artifact. Any thread may ask."""
        return artifact in self._artifacts

    def insert(self, outcome: Outcome, parents: tuple[int, ...], operator: str, proposal: int | None = None) -> Node:
        """Put a judged candidate into the graph, teach policy and bandit, and write it all down in one transaction.

        A program that built into the artifact of an earlier one gets the earlier one's structure: policies then see
        the same program again, not another. ``proposal`` is the number of the question that it answers.
        """
        candidate, verdict = outcome.candidate, outcome.verdict
        own = program_key(candidate)
        node = Node(
            id=len(self.graph),
            candidate_id=candidate.id,
            parents=parents,
            operator=operator,
            kind=verdict.kind,
            fitness=fitness(verdict),
            structure=own if outcome.artifact is None else self._artifacts.get(outcome.artifact, own),
            depth=1 + min(self.graph[parent].depth for parent in parents) if parents else 0,
            niche=niche(candidate),
        )
        best_parent = max((self.graph[parent].fitness for parent in parents), default=float("-inf"))
        self.bandit.update(operator, improvement(best_parent, node.fitness), self._cost(proposal))
        stored = StoredNode(node, own, outcome.artifact, self.ledger.seconds, proposal)
        self._learn(stored)
        checkpoint = self._checkpoint()
        self.store.append_node(self.run, stored, candidate, verdict, outcome.trials, checkpoint)
        self._saved = checkpoint
        return node

    def lost(self, operator: str, proposal: int) -> None:
        """A question to a writer came to nothing, and has cost what it has cost."""
        self.bandit.update(operator, 0.0, self._cost(proposal))

    def _cost(self, proposal: int | None) -> float:
        conclusion = None if proposal is None else self.store.recordings.conclusion(self.run, proposal)
        return 1.0 if conclusion is None else self.ledger.budget.cost(conclusion.tokens, conclusion.dollars)

    def closing_checkpoint(self) -> Checkpoint:
        """The last checkpoint with what was spent since: the promises and questions in flight end with the process."""
        saved = self._saved or self._checkpoint()
        return saved.model_copy(update={"ledger": self.ledger.state_dict()})

    def correct(self) -> Sequence[Node]:
        """Correct nodes, fittest first, the older of equals first."""
        return sorted((n for n in self.graph.nodes() if n.correct), key=lambda n: (-n.fitness, n.id))

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(
            policy=dict(self.policy.state_dict()),
            bandit=self.bandit.state_dict(),
            ledger=self.ledger.state_dict(),
            issued=self.issued,
        )

    def _learn(self, stored: StoredNode) -> None:
        self._programs.add(stored.own_structure)
        if stored.artifact is not None:
            self._artifacts.setdefault(stored.artifact, stored.node.structure)
        self.graph.insert(stored.node)
        self.policy.update(self.graph, stored.node)

    def _load(self, number: int) -> Judged:
        candidate, verdict = self.store.candidate(self.run, number), self.store.verdict(self.run, number)
        return Judged(number, candidate, verdict, self.graph[number].operator)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without cycle collection: all that a restore makes is kept; walking it again and again takes half the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def niche(candidate: Candidate) -> str:
    """The behaviour descriptor: the language, and what the candidate's plan records under 'niche'."""
    try:
        recorded = read_plan(candidate.source).get("niche")
    except InvalidCandidate:
        recorded = None
    return f"{candidate.language}|{recorded}" if recorded else candidate.language
