"""Coverage: for every entry of the fault catalogue the cases that cover it, why it does not apply, or that it is open.

``docs/selftest.md`` is written by ``table``; a test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelevolve.judge.selftest import corpus
from kernelevolve.judge.selftest.case import CATALOGUE
from kernelevolve.judge.selftest.faults import faults

SUBJECTS: Mapping[int, str] = {
    1: "side stream", 2: "thread works later", 3: "child process works later", 4: "lazy tensor",
    5: "patched clock", 6: "swapped events", 7: "timer values overwritten", 8: "detoured clock functions",
    9: "patched statistics", 10: "replaced code objects", 11: "frames and gc walked for state",
    12: "lazy after the warm-up", 13: "slow warm-up", 14: "one call computes all", 15: "computed at construction",
    16: "stale CUDA graph", 17: "still running at the end", 18: "copy that is not awaited", 19: "warm cache",
    20: "flush too small", 21: "persisting cache lines", 22: "clocks and heat", 23: "governor, neighbours",
    24: "launch overhead", 25: "harness time scored", 26: "slower in a trace", 27: "methods mixed",
    28: "no wait round the timer", 29: "tail leaks into the next", 30: "baseline slowed", 31: "process-wide flags",
    32: "build time in one arm", 33: "warm only", 34: "negative or no time", 35: "faster than physics",
    36: "best of many", 37: "picked samples", 38: "failures dropped", 39: "mean of ratios", 40: "collector noise",
    41: "freed memory", 42: "memory scanned for the answer", 43: "collector asked for the answer",
    44: "expectation overwritten", 45: "error counter reset", 46: "zeros pass", 47: "constant passes",
    48: "default weights", 49: "input ignored", 50: "input returned", 51: "cheap reduction", 52: "input changed",
    53: "output buffer reused", 54: "failed launch", 55: "partial writes", 56: "out of bounds", 57: "race",
    58: "cached by address", 59: "cached by content", 60: "cached by a sample", 61: "replay", 62: "results on disk",
    63: "packed once", 64: "known seed", 65: "one shape", 66: "structure of the fixture", 67: "terms left out",
    68: "less precision inside", 69: "TF32 inside", 70: "other dtype, strides, device", 71: "one of several outputs",
    72: "only sums compared", 73: "words compared", 74: "nothing compared", 75: "loose tolerance",
    76: "a share may be garbage", 77: "not-a-numbers equal", 78: "reference fails its own test",
    79: "transcription errors", 80: "layouts and edges", 81: "gradients", 82: "state after the call",
    83: "another kernel measured", 84: "edited file not loaded", 85: "checked path is not the timed one",
    86: "torch as the kernel", 87: "library from C++", 88: "fallback", 89: "inherits the reference",
    90: "imports the reference", 91: "decoy, not launched", 92: "decoy on one element",
    93: "imports another package", 94: "installs at run time", 95: "work on another device", 96: "obfuscation",
    97: "asks a model", 98: "near-clones", 99: "trivial change", 100: "algebra makes it constant",
    101: "prints PASS", 102: "forged results", 103: "leaves early", 104: "stdio structures",
    105: "other processes' memory", 106: "stolen key", 107: "replaced torch",
    108: "edits the harness", 109: "kills the judge",
    110: "notices that it is judged", 111: "patched comparison", 112: "smaller inputs", 113: "leaked answers",
    114: "reports its own speed-up", 115: "a model picks the winner", 116: "winner is not what was measured",
    117: "lost sources", 118: "poisoned caches", 119: "one crash harms the next", 120: "out of memory read as wrong",
    121: "timeout read as wrong", 122: "baseline lost", 123: "prompt injection", 124: "honest kernels refused",
    125: "outlives its budget", 126: "copy for a LayerNorm", 127: "lenient weights", 128: "returns nothing",
    129: "graph of the reference's kernels", 130: "forbidden words", 131: "several GPUs", 132: "extreme values",
    133: "contended GPU",
}  # fmt: skip
"""What each entry is about, in a few words."""

_CLOCK = (
    "of short calls a worker may still say up to 30 % less than the truth; a win needs the judge's own clock as well"
)
_NO_WIN = "a library call is no offence: it is right, and no win unless it beats every baseline, the library included"
ELSEWHERE: Mapping[int, str] = {
    20: "the buffer is twice the last-level cache of the specification or the device",
    23: "cores are not pinned; delays are read from outside and disturbed calls taken again (`test_timing.py`)",
    26: "no trace is ever compared with a time of another method: each sample names its method",
    32: "building and the first calls are outside of all timing, for baselines too",
    86: _NO_WIN,
    4: "a tenth of the work may be left for the handing over",
    5: _CLOCK,
    9: _CLOCK,
    53: "a series keeps 5 to 256 outputs; who has as many buffers as a series has calls is not seen",
    87: _NO_WIN,
    88: _NO_WIN,
    91: _NO_WIN,
    92: _NO_WIN,
    93: "what is installed may be imported: it is judged by what it does; " + _NO_WIN,
    117: "belongs to the store: a node, its verdict and the ledger are one transaction (`tests/store`)",
    122: "`tests/judge/test_local.py`: a dead baseline is started again",
    124: "every file in `corpus/good`",
    129: _NO_WIN,
}
"""What else is to be said of an entry, or which other tests cover it."""

NOT_APPLICABLE: Mapping[int, str] = {
    131: "the judge times one device; nothing is judged across several",
}

OPEN: Mapping[int, str] = {
    56: "red zones and a sanitizer are missing: a small write past the end is seen only if it crashes",
}
"""Entries of which at least one known trick is not caught, and what is missing."""


def covering() -> dict[int, list[str]]:
    """Entry -> names of the cases that cover it."""
    found: dict[int, list[str]] = {number: [] for number in CATALOGUE}
    for name, numbers in (
        *((case.name, case.header.numbers) for case in corpus.exploits()),
        *((fault.name, fault.numbers) for fault in faults()),
    ):
        for number in numbers:
            found[number].append(name)
    return found


def table() -> str:
    """The table of all entries in Markdown."""
    rows = ["| # | entry | state | covered by |", "|---|---|---|---|"]
    for number, names in covering().items():
        state, words = _state(number, names)
        cases = ", ".join(f"`{name}`" for name in names)
        rows.append(f"| {number} | {SUBJECTS.get(number, '')} | {state} | {'; '.join(filter(None, (cases, words)))} |")
    return "\n".join(rows) + "\n"


def _state(number: int, names: list[str]) -> tuple[str, str]:
    words = ELSEWHERE.get(number, "")
    if number in OPEN:
        return "**open**", OPEN[number]
    if number in NOT_APPLICABLE:
        return "does not apply", NOT_APPLICABLE[number]
    if not names:
        return ("elsewhere", words) if words else ("**open**", "no case yet")
    on_gpu = {case.name for case in corpus.exploits() if case.header.targets == {"nvidia"}}
    return "GPU only" if on_gpu.issuperset(names) else "covered", words
