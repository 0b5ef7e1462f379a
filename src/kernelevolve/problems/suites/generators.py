"""Generators of values as ranking models see them: skewed ids, ragged lengths, sorted vocabularies and borders.

Shapes depend on the arguments alone, never on the draws, so that every seed of a workload has the same shapes.
"""

from __future__ import annotations

import torch


def zipf_ids(count: int, vocabulary: int, exponent: float = 1.05) -> torch.Tensor:
    """``count`` ids in [0, vocabulary), int64; the k-th most frequent has probability proportional to k ** -exponent.

    Frequent ids are spread over the vocabulary, as hashing spreads them.
    """
    weights = torch.arange(1, vocabulary + 1, dtype=torch.float64).pow(-exponent).cumsum(0)
    ranks = torch.searchsorted(weights, torch.rand(count, dtype=torch.float64) * weights[-1]).clamp(max=vocabulary - 1)
    return torch.randperm(vocabulary)[ranks]


def ragged_lengths(bags: int, total: int, *, empty: float = 0.1, sigma: float = 1.0) -> torch.Tensor:
    """``bags`` lengths that sum to ``total``, int64: log-normal with ``sigma``, but for a share of ``empty`` bags."""
    weights = (sigma * torch.randn(bags, dtype=torch.float64)).exp()
    weights = weights * (torch.rand(bags) >= empty)
    weights[0] += weights.sum() == 0
    ends = (weights.cumsum(0) / weights.sum() * total).round().long()
    ends[-1] = total
    return ends.diff(prepend=ends.new_zeros(1))


def bag_offsets(lengths: torch.Tensor) -> torch.Tensor:
    """Where each bag begins among the ids, int64: the exclusive cumulative sum of the lengths."""
    return lengths.cumsum(0) - lengths


def sorted_ids(count: int, largest_gap: int = 1000) -> torch.Tensor:
    """``count`` distinct ids in ascending order, int64, with gaps of 1 to ``largest_gap`` between neighbours."""
    return torch.randint(1, largest_gap + 1, (count,)).cumsum(0)
