"""SearchState: what a search knows, kept in step with the store."""

from __future__ import annotations

from functools import lru_cache

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import read_plan, structure_key
from kernelevolve.errors import InvalidCandidate
from kernelevolve.hashing import digest_json
from kernelevolve.judge.verdict import Verdict
from kernelevolve.operators import Judged
from kernelevolve.search.bandit import Bandit
from kernelevolve.search.evaluation import Outcome
from kernelevolve.search.fitness import fitness, improvement
from kernelevolve.search.graph import SearchGraph
from kernelevolve.search.ledger import Ledger
from kernelevolve.search.node import Node
from kernelevolve.search.policy import Policy
from kernelevolve.search.settings import SearchSettings
from kernelevolve.store import Checkpoint, RunRecord, Store, StoredNode


class SearchState:
    """The graph, the policy, the bandit and the ledger of one run, rebuilt from the store when it is made.

    A run that was never begun and one that was killed are made the same way. Used by the engine's own thread only.
    """

    def __init__(self, store: Store, run: RunRecord, settings: SearchSettings, policy: Policy, bandit: Bandit) -> None:
        self._store, self.run, self.policy, self.bandit = store, run, policy, bandit
        self.graph = SearchGraph()
        self._tried: set[str] = set()
        self._artifacts: dict[str, str] = {}
        for stored in store.nodes(run.id):
            self._learn(stored)
        saved = store.checkpoint(run.id)
        if saved.policy:
            policy.load_state_dict(saved.policy)
        if saved.bandit:
            bandit.load_state_dict(saved.bandit)
        self.issued = saved.issued
        self.ledger = Ledger(settings.budget, saved.ledger)
        self.judged = lru_cache(maxsize=512)(self._load)

    def claim(self, candidate: Candidate) -> bool:
        """True, and the program is taken, if no candidate of this program was judged or is in work."""
        key = program_key(candidate)
        if key in self._tried:
            return False
        self._tried.add(key)
        return True

    def tried(self) -> frozenset[str]:
        """Keys of all programs that were judged or are in work."""
        return frozenset(self._tried)

    def is_duplicate(self, artifact: str) -> bool:
        """True if an earlier node built into this artifact."""
        return artifact in self._artifacts

    def insert(self, outcome: Outcome, parents: tuple[int, ...], operator: str) -> Node:
        """Put a judged candidate into the graph, teach policy and bandit, and write it all down in one transaction."""
        candidate, verdict = outcome.candidate, outcome.verdict
        own = program_key(candidate)
        artifact = verdict.artifact_key if verdict.correct else None
        node = Node(
            id=len(self.graph),
            candidate_id=candidate.id,
            parents=parents,
            operator=operator,
            kind=verdict.kind,
            fitness=fitness(verdict),
            structure=self._artifacts.get(artifact, own) if artifact else own,
            depth=1 + min(self.graph[p].depth for p in parents) if parents else 0,
            niche=niche(candidate),
        )
        stored = StoredNode(node, own, artifact, self.ledger.seconds)
        self._learn(stored)
        self.bandit.update(operator, reward(self.graph, node))
        self._store.append_node(self.run.id, stored, candidate, verdict, outcome.trials, self.checkpoint())
        return node

    def checkpoint(self) -> Checkpoint:
        """What the nodes alone do not tell."""
        return Checkpoint(
            policy=dict(self.policy.state_dict()),
            bandit=dict(self.bandit.state_dict()),
            ledger=self.ledger.state_dict(),
            issued=self.issued,
        )

    def _learn(self, stored: StoredNode) -> None:
        self._tried.add(stored.own_structure)
        if stored.artifact is not None:
            self._artifacts.setdefault(stored.artifact, stored.node.structure)
        self.graph.insert(stored.node)
        self.policy.update(self.graph, stored.node)

    def _load(self, number: int) -> Judged:
        verdict = self._store.verdict(self.run.id, number)
        assert verdict is not None
        candidate = self._store.candidate(self.run.id, number)
        return Judged(number, candidate, verdict, self.graph[number].operator)

    def ranked(self) -> list[Node]:
        """Correct nodes, fittest first."""
        return sorted((n for n in self.graph.nodes() if n.correct), key=lambda n: (-n.fitness, n.id))


def program_key(candidate: Candidate) -> str:
    """What makes two candidates the same program: the syntax tree, without layout and comments."""
    try:
        return structure_key(candidate.source)
    except InvalidCandidate:
        return digest_json(candidate.source)


def niche(candidate: Candidate) -> str:
    """The behaviour descriptor that the candidate's plan records; its language where there is no plan."""
    try:
        recorded = read_plan(candidate.source).get("niche")
    except InvalidCandidate:
        recorded = None
    return f"{candidate.language}|{recorded}" if recorded else candidate.language


def reward(graph: SearchGraph, node: Node) -> float:
    """What the operator that made a node earned: the improvement over the best of its parents."""
    parents = [graph[parent].fitness for parent in node.parents]
    return improvement(max(parents, default=float("-inf")), node.fitness)
