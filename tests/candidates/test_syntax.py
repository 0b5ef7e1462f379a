"""Candidates are read by several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from kernelevolve.candidates.structure import parse

SOURCE = "\n".join(f"x{i} = [{{{i}: ({i}, -{i}, f(a=[1, (2, 3)]))}} for y in z if y]" for i in range(60))


def test_threads_do_not_disturb_each_other_in_the_parser() -> None:
    with ThreadPoolExecutor(8) as pool:
        lengths = set(pool.map(lambda _: len(parse(SOURCE).body), range(200)))
    assert lengths == {60}
