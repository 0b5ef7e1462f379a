"""What is read of a source without running it, and when two sources are the same program."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.candidates import Candidate, Choice, Config, PowerOfTwo
from kernelevolve.candidates.structure import (
    defines_model_new,
    materialise,
    parse,
    read_plan,
    read_space,
    split_config,
    structure_key,
)
from kernelevolve.errors import InvalidCandidate

SOURCE = '''\
"""A doubled copy."""
from kernelevolve.candidates.space import Choice, PowerOfTwo, TunableSpace

TUNABLES = TunableSpace(
    {"BLOCK": PowerOfTwo(64, 4096, 1024), "ORDER": Choice("ij", "ji")},
    constraints=("BLOCK <= 2048 or ORDER == 'ij'",),
    seeds=({"BLOCK": 2048},),
)
CONFIG = TUNABLES.default
PLAN = {"fuse": True}
KERNEL = """
void f(float* x) { for (int i = 0; i < 1024; i += 8) x[i] *= 2.0f; }
"""


class ModelNew:
    def forward(self, x):
        # a comment
        return x * 2
'''

configs = st.fixed_dictionaries(
    {"BLOCK": st.sampled_from([64 << i for i in range(6)]), "ORDER": st.sampled_from(["ij", "ji"])}
)


def test_declarations_are_read_without_running_the_source() -> None:
    space = read_space("raise SystemExit\n" + SOURCE)
    assert space.tunables == {"BLOCK": PowerOfTwo(64, 4096, 1024), "ORDER": Choice("ij", "ji")}
    assert space.seeds == ({"BLOCK": 2048},)
    assert read_plan(SOURCE) == {"fuse": True}
    assert defines_model_new(SOURCE)
    assert not defines_model_new("class Model: ...\n")
    assert read_space("x = 1\n").tunables == {}
    assert read_plan("PLAN = {[]: 1}\n") == {}


@given(configs)
def test_the_text_for_a_configuration_says_it_and_is_the_same_program(config: Config) -> None:
    text = materialise(Candidate(source=SOURCE, language="cpp", config=config))
    space = read_space(text)
    assert space == read_space(SOURCE)
    assert split_config(text)[1] == (config if space.allows(config) else space.default)
    assert structure_key(text) == structure_key(SOURCE)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("odd", ["\x0c", "\u2028", "\x1c", "é€𝄞"])
def test_only_the_assignment_is_replaced(ending: str, odd: str) -> None:
    before, after = f"A = '{odd}'{ending}# {odd}{ending}", f"; B = '{odd}'{ending}C = 3{ending}"
    source = f"{before}é = 1; CONFIG = (dict({ending}  A=1)){after}"
    text = materialise(Candidate(source=source, language="cpp", config={"A": 2}))
    assert text == f"{before}é = 1; CONFIG = ({{'A': 2}}){after}"


def test_a_configuration_without_a_place_for_it_is_refused() -> None:
    with pytest.raises(InvalidCandidate, match="no module-level CONFIG"):
        materialise(Candidate(source="x = 1\n", language="cpp", config={"A": 1}))


@given(st.integers(0, 3), st.text(alphabet="ab é#'\"", max_size=12), st.sampled_from(["  ", "    ", "\t"]))
def test_comments_layout_and_docstrings_do_not_change_a_program(blank: int, comment: str, indent: str) -> None:
    other = SOURCE.replace("# a comment", f"# {comment}").replace("    def", indent + "def")
    other = (
        other.replace("        ", indent * 2).replace("\n\n\n", "\n" * (1 + blank)).replace("A doubled copy", "Twice")
    )
    assert structure_key(other) == structure_key(SOURCE)


@pytest.mark.parametrize(
    ("old", "new", "retune"),
    [
        ("x * 2", "x * 3", True),
        ("i += 8", "i += 16", True),
        ("2.0f", "0x10u", True),
        ("x * 2", "x + 2", False),
        ("x[i] *=", "x[i] +=", False),
        ("float* x", "float* x1", False),
        ('"fuse": True', '"fuse": False', False),
    ],
)
def test_an_edit_makes_another_program_and_a_number_a_retune(old: str, new: str, retune: bool) -> None:
    other = SOURCE.replace(old, new)
    assert other != SOURCE
    assert structure_key(other) != structure_key(SOURCE)
    same = structure_key(other, ignore_numbers=True) == structure_key(SOURCE, ignore_numbers=True)
    assert same is retune


def test_a_variable_called_config_counts_where_no_space_is_declared() -> None:
    assert structure_key("CONFIG = {'a': 1}\n") != structure_key("CONFIG = {'a': 2}\n")


def test_a_long_generated_expression_has_a_key() -> None:
    source = "x = " + " + ".join(f"a{i}" for i in range(900)) + "\n"
    assert structure_key(source) != structure_key(source.replace("a899", "a0"))


@given(
    st.sampled_from(
        ["x = f(1, [2], (3,))", "def f(a, *, b=1):\n    return a if b else [a]", "x = [[1], []]", "x = [[], [1]]"]
    )
)
def test_keys_tell_apart_what_the_parser_tells_apart(source: str) -> None:
    others = ["x = f(1, [2, (3,)])", "def f(a, b=1):\n    return a if b else [a]", "x = [[1, []]]", "x = [[], [], 1]"]
    for other in others:
        assert ast.dump(ast.parse(other)) != ast.dump(ast.parse(source))
        assert structure_key(other) != structure_key(source)


@pytest.mark.parametrize(
    ("source", "complaint", "line"),
    [
        ("x = (\n", "not valid Python", 1),
        ("\x00", "not valid Python", None),
        ("x = " + "-" * 100_000 + "1", "nested too deeply", None),
    ],
)
def test_what_the_parser_refuses_is_an_invalid_candidate(source: str, complaint: str, line: int | None) -> None:
    with pytest.raises(InvalidCandidate, match=complaint) as caught:
        parse(source)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("declaration", "complaint"),
    [
        ("TunableSpace({'B': PowerOfTwo(3, 8)})", "3 is not a power of two"),
        ("TunableSpace({'B': Range(3, 8)})", "unknown tunable kind 'Range'"),
        ("TunableSpace({'B': Int(low(), 8)})", "unknown tunable kind 'low'"),
        ("TunableSpace({'B': Int(x, 8)})", "malformed"),
        ("TunableSpace({'B': Int(1, 8, stpe=2)})", "Extra inputs"),
        ("TunableSpace({'B': Int(1, 8)}, ['B > 4'])", "breaks the constraint"),
        ("TunableSpace({'B': 3})", "TUNABLES cannot be read"),
        ("[1, 2]", "not a TunableSpace"),
    ],
)
def test_a_bad_space_names_its_line_and_cause(declaration: str, complaint: str) -> None:
    with pytest.raises(InvalidCandidate, match=complaint) as caught:
        read_space(f"\nTUNABLES = {declaration}\n")
    assert caught.value.line == 2


def test_an_id_is_the_content() -> None:
    one = Candidate(source=SOURCE, language="cpp", config={"BLOCK": 64, "ORDER": "ij"})
    same = Candidate(source=SOURCE, language="cpp", config={"ORDER": "ij", "BLOCK": 64})
    other = one.with_config({"BLOCK": 128, "ORDER": "ij"})
    assert one.id == same.id
    assert one.id != other.id
    assert one.source_digest == other.source_digest


def test_a_key_outlives_the_version_of_python() -> None:
    """Python 3.12 added a field to functions and classes; the number is what 3.10 to 3.13 give."""
    source = (
        "import os\nclass A(B, metaclass=C):\n    def f(self, *a, b=1, **c) -> int:\n        return {**c, 'x': f'{a!r:>{b}}'}\n"
        "async def g():\n    return [x async for x in h() if x], lambda: (yield)\n"
    )
    assert structure_key(source)[:16] == "d5af7fd348190ebd"
