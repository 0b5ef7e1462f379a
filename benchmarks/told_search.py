"""A search whose candidates are files in a directory, told one after the other; an interrupted one goes on.

    python benchmarks/told_search.py ranking/pffn candidates/pffn --target nvidia --out runs --minutes 6

Files are told in the order of their names. A line ``# parent: NAME`` (twice: combine) at the top of one names the file
whose program it was made from; without one it is a draft. A program that was judged before costs nothing. Printed are
the verdicts as they come, with what holds each correct one back, and at the end the run's identifier. ``--finish``
tunes and promotes the best as every search does, ``--verify`` puts other programs to the same strict test, and
``--profile`` says what the profilers find in the best.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from kernelevolve.agent import Dialogue, start
from kernelevolve.errors import KernelEvolveError
from kernelevolve.judge.diagnosis import diagnose
from kernelevolve.judge.verdict import Verdict
from kernelevolve.knowledge import KnowledgeBase
from kernelevolve.workspace import open_run

_PARENT = re.compile(r"^# parent: (\S+)$", re.MULTILINE)


def main() -> int:
    given = _arguments()
    files = sorted(given.directory.glob("*.py"))
    knowledge = KnowledgeBase()
    if given.run:
        dialogue = Dialogue(open_run(given.run, out=given.out), retriever=knowledge)
        dialogue.raise_limits(given.evaluations, given.minutes)
    else:
        dialogue = start(
            given.problem, target=given.target, evaluations=given.evaluations, minutes=given.minutes, out=given.out,
            retriever=knowledge,
        )  # fmt: skip
        print(
            dialogue.run.id,
            {k: v and f"{v * 1e6:.1f} us" for k, v in dialogue.run.record.baselines.items()},
            flush=True,
        )
    nodes: dict[str, int] = {}
    with dialogue:
        for file in files:
            text = file.read_text()
            parents = [nodes[name] for name in _PARENT.findall(text) if name in nodes]
            try:
                told = dialogue.tell(text, parents)
            except KernelEvolveError as error:
                print(f"{file.stem:34} not judged: {error.sentence}", flush=True)
                break
            nodes[file.stem] = told.node.id
            print(_line(file.stem, told.node.id, told.verdict), flush=True)
        if given.finish:
            best = dialogue.finish().best
            if best is not None:
                print(_line("best", best.node.id, best.verdict), flush=True)
        for name in given.verify:
            node = nodes.get(name, int(name) if name.isdecimal() else None)
            if node is not None:  # A file that was not judged has none.
                print(_line(f"strict test of {name}", node, dialogue.verify(node)), flush=True)
        best_node = dialogue.run.best.node.id if dialogue.run.best else None
        if given.profile and best_node is not None:
            print(dialogue.profile(best_node).model_dump_json(indent=1), flush=True)
    print(dialogue.run.id)
    return 0


def _line(name: str, node: int, verdict: Verdict) -> str:
    if not verdict.correct:
        return f"{name:34} {node:3} {verdict.kind}: {' '.join(verdict.reason.split())[:160]}"
    fastest = min(verdict.speedups.values(), key=lambda s: s.value, default=None)
    over = f"{fastest.value:.2f}x [{fastest.low:.2f}, {fastest.high:.2f}] over {fastest.baseline}" if fastest else ""
    held = diagnose(verdict).bottleneck
    return (
        f"{name:34} {node:3} {(verdict.seconds or 0) * 1e6:8.1f} us "
        f"{100 * (verdict.roofline_fraction or 0):5.1f} % of the roofline, {over}; held back by {held}"
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--target", default="auto")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--run", help="continue this run")
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--finish", action="store_true")
    parser.add_argument(
        "--verify", nargs="*", default=[], metavar="NAME", help="a file's name without .py, or a node's number"
    )
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KernelEvolveError as error:
        sys.exit(error.sentence)
