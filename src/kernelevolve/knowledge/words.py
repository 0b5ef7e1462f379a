"""From a question to the words that are looked up: what says nothing is left out, other names for a thing are added."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_WORDS = 100
"""Words of a question that count, the first ones; a whole diagnosis may be put as a question."""
WORD = re.compile(r"[0-9A-Za-z]+")
_SILENT = frozenset(
    WORD.findall(
        "a an and are as at be by can do does for from has how i if in into is it its my not of on or should than that "
        "the then there this to too was what when which why with you kernel kernels"
    )
)
"""Words that every page has, or that say nothing about the subject."""
_AMERICAN = re.compile(r"iz(e|ed|es|er|ers|ing|ation|ations)$")
_OTHER_NAMES = {
    "attn": "attention", "batchnorm": "batch norm", "bmm": "batched product",
    "cta": "block",     "cumsum": "cumulative sum", "denormal": "subnormal", "denormals": "subnormal",
    "fm": "factorisation machine", "gemm": "product matmul",     "groupnorm": "group norm", "layernorm": "layer norm",
    "ldst": "memory access", "matmul": "product gemm",     "mha": "attention", "mm": "product",
    "reduce": "reduction sum", "rmsnorm": "rms norm", "sdpa": "attention",     "simd": "vectorise",
    "sm": "multiprocessor", "smem": "shared memory", "tbe": "embedding bag",     "transpose": "transposition",
    "warpgroup": "warp group",
}  # fmt: skip
"""What else pages call it."""


def words_of(text: str) -> list[str]:
    """The distinct words of a question, in lower case, with other names and the British spelling of the pages added."""
    return list(dict.fromkeys(_all(text)))[:MOST_WORDS]


def _all(text: str) -> Iterator[str]:
    for word in WORD.findall(text.lower()):
        if word in _SILENT:
            continue
        yield word
        yield from _OTHER_NAMES.get(word, "").split()
        if _AMERICAN.search(word):
            yield _AMERICAN.sub(r"is\1", word)
