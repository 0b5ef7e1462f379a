"""What agents are told, as JSON documents: the same from the terminal and over the Model Context Protocol."""

from __future__ import annotations

from typing import Any

from kernelevolve.agent.dialogue import Asked
from kernelevolve.judge.verdict import Verdict
from kernelevolve.prompting import Change
from kernelevolve.run import Run
from kernelevolve.search.turns import Told

_NOTES = {
    Change.NUMBERS: "It differs from its parent in constants only: declare them as TUNABLES, and the numeric search "
    "finds the best ones.",
    Change.TUNABLES: "It differs from its parent in the declaration of its tunables only: the same program with "
    "another numeric freedom.",
}


def asked_document(run: str, asked: Asked) -> dict[str, Any]:
    """A prompt and what it is about."""
    question, prompt = asked.question, asked.prompt
    return {
        "run": run, "question": question.number, "parents": list(question.parents), "repair": question.repair,
        "memory": asked.memory.value, "prompt": prompt.text, "tokens_estimated": prompt.tokens,
        "cut": [{"section": cut.section, "what": cut.what} for cut in prompt.cut],
        "budget": {"evaluations": question.budget.evaluations, "seconds": question.budget.seconds},
    }  # fmt: skip


def told_document(run: str, told: Told) -> dict[str, Any]:
    """What came of a candidate."""
    return {
        "run": run, "node": told.node.id, "parents": list(told.node.parents), "known": told.known,
        "improved": told.improved, "change": told.change.value, "note": note_of(told), **verdict_document(told.verdict),
    }  # fmt: skip


def note_of(told: Told) -> str:
    """A sentence about the candidate that is no verdict; '' if there is nothing to say."""
    if told.known:
        return f"This program was judged before, as node {told.node.id}; nothing was spent."
    return _NOTES.get(told.change, "")


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """A verdict with what a writer needs of it."""
    first = next((error for error in verdict.errors if not error.passed), None)
    return {
        "verdict": verdict.kind.value, "stage": verdict.stage.value, "effort": verdict.effort.value,
        "reason": verdict.reason, "detail": verdict.detail, "seconds": verdict.seconds,
        "roofline_fraction": verdict.roofline_fraction, "faster": verdict.wins,
        "speedup": {
            s.baseline: s.model_dump(mode="json", exclude={"baseline", "confidence"}) for s in verdict.speedups.values()
        },
        "first_error": None if first is None else first.model_dump(mode="json"),
        "notes": list(verdict.notes),
    }  # fmt: skip


def best_document(run: Run) -> dict[str, Any]:
    """The best kernel with its source; nulls if nothing is correct."""
    from kernelevolve.candidates.structure import materialise

    best = run.best
    if best is None:
        return {"run": run.id, "best": None, "source": None}
    return {"run": run.id, "best": best.summary().model_dump(mode="json"), "source": materialise(best.candidate)}
