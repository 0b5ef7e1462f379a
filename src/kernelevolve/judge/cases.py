"""CaseBook: the inputs on which programs are called. Secret, and never the same content twice for one worker.

Two kinds. A *case* comes with its golden, is made once per workload and is used to compare outputs. A *variation* has
no golden: it is a case whose floating inputs are rotated by a random distance, which keeps the distribution, costs a
copy, and gives every position a new value, so that a program which remembers results by content has to compute.
"""

from __future__ import annotations

import random
import secrets
import threading
from dataclasses import replace
from typing import Any

import torch

from kernelevolve.hashing import digest_bytes, digest_json
from kernelevolve.judge.oracle import Case, Oracle
from kernelevolve.judge.settings import JudgeSettings
from kernelevolve.problems import Role, Workload
from kernelevolve.problems.instance import Instance
from kernelevolve.problems.outputs import flatten_outputs
from kernelevolve.workers.layout import leaves, map_leaves
from kernelevolve.workers.program import adopt_weights

_SETTLING_SETS = 2
SEED, SEED_COMMITMENT = "input_seed", "input_seed_commitment"
"""Names under which a promotion's environment holds the seed of its book, and the hash taken before it began."""


def derived_seed(seed: int, workload: Workload, purpose: str) -> int:
    """The seed of a workload's weights (``"weights"``) or of its i-th input set (``"inputs <i>"``) in a book."""
    return int(digest_json([seed, workload.name, purpose])[:15], 16)


def seed_commitment(seed: str) -> str:
    """Hash of a secret seed: it can be told beforehand without giving the seed away."""
    return digest_bytes(seed.encode())


class CaseBook:
    """Cases and variations of one problem. Thread-safe.

    Candidates of one search share a book, because each is judged in a new worker that cannot know what another saw;
    a promotion gets a book of its own. ``reference_lock`` is held while the reference runs, by all books of a judge.

    The cases of a book follow from its ``seed``, which a certificate tells once the candidate can no longer use it:
    with ``derived_seed`` anyone can make the same cases again. Variations follow from nothing.
    """

    def __init__(
        self, oracle: Oracle, instance: Instance, settings: JudgeSettings, reference_lock: threading.Lock
    ) -> None:
        self._oracle = oracle
        self._instance = instance
        self._settings = settings
        seed = settings.seed
        self.seed = secrets.randbits(128) if seed is None else seed
        self.commitment = seed_commitment(str(self.seed))
        """Hash of the seed, known before any program is called."""
        self._rng: random.Random = random.Random(seed) if seed is not None else secrets.SystemRandom()
        self._lock = reference_lock
        self._cases: dict[str, tuple[Case, ...]] = {}
        self._rigid: dict[str, bool] = {}

    def cases(self, workload: Workload) -> tuple[Case, ...]:
        """The input sets of a workload that have a golden. All have the same weights."""
        with self._lock:
            if workload.name not in self._cases:
                weights_seed = derived_seed(self.seed, workload, "weights")
                first = self._oracle.case(workload, derived_seed(self.seed, workload, "inputs 0"), weights_seed)
                seeds = [derived_seed(self.seed, workload, f"inputs {i}") for i in range(1, self._sets(first))]
                others = (self._oracle.case(workload, seed, weights_seed) for seed in seeds)
                self._cases[workload.name] = (first, *(replace(case, weights=first.weights) for case in others))
            return self._cases[workload.name]

    def _sets(self, first: Case) -> int:
        """How many sets: two settle whether a program is right; a timed one must still meet some that it never saw."""
        if first.workload.role is Role.STRESS:
            return _SETTLING_SETS
        return max(_SETTLING_SETS + 1, min(self._settings.sets, self._settings.case_bytes // max(1, _bytes(first))))

    def case_of(self, workload: Workload, inputs: tuple[Any, ...]) -> Case:
        """What must come out for a variation, found afterwards."""
        known = self.cases(workload)[0]
        weights_seed = derived_seed(self.seed, workload, "weights")
        with self._lock:
            return self._oracle.case_of(workload, inputs, known.inputs, known.seed, weights_seed)

    def forget(self, workload: Workload) -> None:
        """Free the memory of a workload's cases; they are made again, and alike, if they are asked for."""
        with self._lock:
            self._cases.pop(workload.name, None)

    def variation(self, workload: Workload) -> tuple[Any, ...]:
        """Inputs that no program has seen."""
        case = self._rng.choice(self.cases(workload))
        with self._lock:
            if workload.name not in self._rigid:
                self._rigid[workload.name] = self._is_rigid(case)
        if self._rigid[workload.name]:
            drawn: tuple[Any, ...] = self._instance.make_inputs(workload, self._secret())
            return drawn
        return self._rotated(case.inputs)

    def _secret(self) -> int:
        return self._rng.getrandbits(62)

    def _rotated(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        def rotate(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point() or leaf.numel() < 2:
                return leaf
            moved = torch.empty_strided(leaf.shape, leaf.stride(), dtype=leaf.dtype, device=leaf.device)
            moved.copy_(leaf.detach().roll(self._rng.randrange(1, leaf.numel())))
            return moved.requires_grad_(leaf.requires_grad)

        rotated = map_leaves(inputs, rotate)
        assert isinstance(rotated, tuple)
        return rotated

    def _is_rigid(self, case: Case) -> bool:
        """True if rotated inputs are not inputs of this problem: nothing to rotate, or the reference cannot take them.

        A factorisation needs a positive definite matrix, say; such a problem gets newly drawn inputs every time.
        """
        tensors = [leaf for _, leaf in leaves(case.inputs) if isinstance(leaf, torch.Tensor)]
        if not any(leaf.is_floating_point() and leaf.numel() > 1 for leaf in tensors):
            return True
        model = self._instance.make_model(0)
        adopt_weights(model, case.weights, self._instance.device)
        try:
            with torch.no_grad():
                result = model(*self._rotated(case.inputs))
        except Exception:
            return True
        expected_finite = all(bool(torch.isfinite(e.golden).all()) for e in case.expected)
        return expected_finite and not all(bool(torch.isfinite(leaf).all()) for _, leaf in flatten_outputs(result))


def _bytes(case: Case) -> int:
    """Memory that a further case of a workload takes."""
    inputs = [leaf for _, leaf in leaves(case.inputs) if isinstance(leaf, torch.Tensor)]
    outputs = [t for e in case.expected for t in (e.golden, e.special) if t is not None]
    return sum(tensor.numel() * tensor.element_size() for tensor in (*inputs, *outputs))
