"""Money in words: what language models cost so far, what is promised, and what the run will have cost at its end."""

from __future__ import annotations

from kernelevolve.run import ModelsSummary
from kernelevolve.search.ledger import Budget, Spent


def share(spent: Spent, budget: Budget) -> float | None:
    """How much of the tighter limit is used or promised; None without one."""
    parts = []
    if budget.tokens:
        parts.append((spent.money.tokens + spent.tokens_in_flight) / budget.tokens)
    if budget.dollars:
        parts.append((spent.money.dollars + spent.dollars_in_flight) / budget.dollars)
    return max(parts, default=None)


def forecast_dollars(spent: Spent, budget: Budget) -> float | None:
    """Dollars at the end if every further evaluation costs as much as those so far; None before the first."""
    if not spent.evaluations:
        return None
    expected = spent.money.dollars * budget.evaluations / spent.evaluations
    return expected if budget.dollars is None else min(expected, budget.dollars)


def words(spent: Spent, budget: Budget) -> str:
    """One line; '' if no model was asked and none is being asked."""
    money = spent.money
    if not money.requests and not spent.tokens_in_flight:
        return ""
    flying = f" (+{_thousands(spent.tokens_in_flight)} promised)" if spent.tokens_in_flight else ""
    limit = f" of {_thousands(budget.tokens)}" if budget.tokens else ""
    parts = [f"{_thousands(money.tokens)}{flying}{limit} tokens"]
    if money.dollars or budget.dollars:
        limit = f" of {budget.dollars:.2f}" if budget.dollars else ""
        expected = forecast_dollars(spent, budget)
        at_end = f", about {expected:.2f} at the end" if expected is not None else ""
        parts.append(f"{money.dollars:.2f}{limit} dollars{at_end}")
    return " · ".join(parts)


def summary_words(models: ModelsSummary) -> str:
    """One line about a run that has ended."""
    tokens = f"{_thousands(models.input_tokens)} tokens in, {_thousands(models.output_tokens)} out"
    dollars = f", {models.dollars:.2f} dollars" if models.dollars else ""
    return f"{models.requests} answers, {tokens}{dollars}"


def _thousands(tokens: int) -> str:
    return f"{tokens / 1e6:.3g}M" if tokens >= 1e6 else f"{tokens / 1e3:.3g}k" if tokens >= 1e3 else str(tokens)
