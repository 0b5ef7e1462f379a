"""``kernelevolve selftest``: exploits and known-good kernels put to the judge of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kernelevolve.cli.terminal import (
    JsonOption,
    TargetOption,
    console,
    print_json,
)
from kernelevolve.errors import InvalidRequest

if TYPE_CHECKING:
    from kernelevolve.judge.selftest.case import Result

EXIT_FOOLED = 1
_STYLES = {
    "caught": "green", "accepted": "green", "missed": "bold red", "refused": "bold red", "not applicable here": "dim",
}  # fmt: skip


def selftest(
    target: TargetOption = "auto",
    only: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only cases whose name or family contains TEXT.")
    ] = None,
    in_flight: Annotated[
        int, typer.Option(metavar="N", min=1, help="So many judges work side by side; each times alone.")
    ] = 1,
    as_json: JsonOption = False,
) -> int:
    """Put every exploit, fault and known-good kernel of the corpus to the judge, and say which it got right.

    Takes some minutes. Exit code 0: every exploit was caught and every good kernel accepted; 1: not so; 2: bad input.
    """
    import tempfile
    from pathlib import Path

    from rich.text import Text

    from kernelevolve.judge.selftest import corpus, runner
    from kernelevolve.judge.selftest.faults import faults
    from kernelevolve.targets import resolve

    chosen = resolve(target)
    out = console(stderr=as_json)
    wanted = only or ""
    exploits = [case for case in corpus.exploits() if wanted in case.name or wanted == case.family.value]
    good = [case for case in corpus.good_kernels() if wanted in case.name or wanted == "good"]
    injected = [fault for fault in faults() if wanted in fault.name or wanted == "faults"]
    if not exploits and not good and not injected:
        raise InvalidRequest(f"no case has {only!r} in its name", fix="give a part of a name, or a family: clock")
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="kernelevolve-selftest-") as place:
        for result in runner.run(
            chosen, Path(place), exploits=exploits, good=good, faults=injected, in_flight=in_flight
        ):
            results.append(result)
            said = f"  {result.verdict}: " if result.verdict else "  "
            out.print(
                Text.assemble(
                    (f"{result.status.value:<20}", _STYLES[result.status.value]), f"{result.name:<32}",
                    (said + (result.reason or result.tries), "default" if result.failed else "dim"),
                ),
                soft_wrap=True,
            )  # fmt: skip
    counts = runner.summary(results)
    out.print()
    out.print(", ".join(f"{kind}: {count}" for kind, count in counts.items()), soft_wrap=True)
    if as_json:
        print_json(
            {
                "target": chosen.name,
                "counts": counts,
                "results": [result.model_dump(mode="json") for result in results],
            }
        )
    return EXIT_FOOLED if any(result.failed for result in results) else 0
