"""The registry of languages, and how a text is recognised."""

from __future__ import annotations

import pytest

from kernelevolve.errors import InvalidCandidate
from kernelevolve.languages import LANGUAGES, detect
from kernelevolve.targets import TARGETS


def test_every_language_keeps_the_contract() -> None:
    assert LANGUAGES.names() == ["cpp", "cuda", "pytorch", "triton"]
    for name in LANGUAGES:
        language = LANGUAGES.get(name)
        state = language.availability()
        assert language.name == name
        assert language.targets and language.targets <= set(TARGETS.names())
        assert set(language.limits) <= language.targets
        assert bool(state.version) == state.ok and bool(state.fix) != state.ok


@pytest.mark.parametrize(
    ("source", "language"),
    [
        ("from kernelevolve.languages import cpp\nm = cpp.build('')", "cpp"),
        ("import kernelevolve.languages.cpp as c", "cpp"),
        ("def f():\n    from kernelevolve.languages.cuda import build", "cuda"),
        ("import triton.language as tl", "triton"),
        ("from triton import jit", "triton"),
        ("from torch.utils.cpp_extension import load_inline\nload_inline('k', cpp_sources='int f();')", "cpp"),
        ("import torch.utils.cpp_extension as e\ne.load_inline(name='k', cpp_sources='', cuda_sources=SRC)", "cuda"),
        ("from torch.utils.cpp_extension import load_inline\nload_inline('k', cpp_sources=S, cuda_sources='')", "cpp"),
        ("import torch\nclass ModelNew(torch.nn.Module): pass", "pytorch"),
        ("# import triton\nTEXT = 'from kernelevolve.languages import cpp'", "pytorch"),
        ("import tritonclient", "pytorch"),
    ],
)
def test_detection(source: str, language: str) -> None:
    assert detect(source) == language
    assert [name for name in LANGUAGES if LANGUAGES.get(name).matches(source)] == [language]


def test_what_is_not_python_is_no_candidate() -> None:
    with pytest.raises(InvalidCandidate, match=r"candidate.py:1: the candidate is not valid Python"):
        detect("int main() {}")
