"""The code on the pages: all of it is Python, and what this machine can build does what the page says."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
import torch

from kernelevolve.candidates.structure import read_space
from kernelevolve.knowledge.base import shipped_pages
from kernelevolve.languages import cpp, detect

EXAMPLES = {
    page.id: code
    for page in shipped_pages()
    for code in re.findall(r"^```python\n(.*?)^```", page.body, re.MULTILINE | re.DOTALL)
}


def run(page_id: str, **names: Any) -> dict[str, Any]:
    exec(compile(EXAMPLES[page_id], page_id, "exec"), names)
    return names


@pytest.mark.parametrize("page_id", EXAMPLES)
def test_examples_are_python(page_id: str) -> None:
    ast.parse(EXAMPLES[page_id])


def test_the_skeleton_of_a_candidate_works() -> None:
    code = EXAMPLES["constraints/candidate_contract"]
    assert detect(code) == "cpp"
    x = torch.randn(3, 5)
    assert torch.equal(run("constraints/candidate_contract")["ModelNew"](2.0)(x), 2 * x)


def test_the_first_cpp_kernel_is_an_rms_norm() -> None:
    x, w = torch.randn(5, 37), torch.randn(37)
    y = torch.empty_like(x)
    run("guidance/languages/cpp/basics", cpp=cpp)["MODULE"].rows(x, w, y, 5, 37, 1e-6)
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (37,), w, 1e-6))


def test_the_declared_tunables_can_be_read() -> None:
    space = read_space(EXAMPLES["constraints/tunables"])
    assert space.default == {"BLOCK": 1024, "WARPS": 4}
    assert len(space.starts()) == 2
