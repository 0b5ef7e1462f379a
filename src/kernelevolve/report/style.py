"""One colour a verdict or outcome, the same in the terminal and in the report."""

from __future__ import annotations

from kernelevolve.judge.verdict import VerdictKind

VERDICT_STYLES = {
    VerdictKind.CORRECT: "green",
    VerdictKind.WRONG: "red",
    VerdictKind.BUILD_ERROR: "yellow",
    VerdictKind.RUNTIME_ERROR: "bright_red",
    VerdictKind.TIMEOUT: "bright_yellow",
    VerdictKind.OUT_OF_MEMORY: "bright_magenta",
    VerdictKind.CHEAT: "bold magenta",
    VerdictKind.INFRASTRUCTURE: "dim",
}
"""Styles for rich."""

OUTCOME_STYLES = {"faster": "green", "slower": "red"}
"""The same for the words of ``claim.outcome_word``; yellow for the third."""

VERDICT_COLORS = {
    VerdictKind.CORRECT: ("#2f8f5b", "#57c389"),
    VerdictKind.WRONG: ("#c8453b", "#ef7a70"),
    VerdictKind.BUILD_ERROR: ("#b9822a", "#dfae5c"),
    VerdictKind.RUNTIME_ERROR: ("#d06a1f", "#f0995a"),
    VerdictKind.TIMEOUT: ("#8a7a1f", "#c9b95a"),
    VerdictKind.OUT_OF_MEMORY: ("#8a4fb0", "#bd8be0"),
    VerdictKind.CHEAT: ("#b0307d", "#e573b5"),
    VerdictKind.INFRASTRUCTURE: ("#7b828c", "#949ba6"),
}
"""CSS colours on a light and on a dark ground."""
