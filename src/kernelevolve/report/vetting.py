"""What vetting found, problem by problem: lines while it goes on, a count at the end, one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from kernelevolve.judge.vetting import VettedProblem
from kernelevolve.report.units import seconds_text

_STYLES = {"judged": "green", "judged in part": "yellow", "vacuous": "red", "not run": "red"}


def standing(found: VettedProblem) -> str:
    """In one or three words: can it be judged?"""
    if found.report is None:
        return "not run"
    if found.report.vacuous:
        return "vacuous"
    return "judged" if len(found.report.usable_workloads) == len(found.report.findings) else "judged in part"


class VettingProgress:
    """Prints a problem as soon as it was vetted."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def add(self, found: VettedProblem) -> None:
        """One problem's lines: its standing, what passes as written, why."""
        word = standing(found)
        line = Text.assemble((f"{word:<15}", _STYLES[word]), found.name, f"  {seconds_text(found.seconds)}")
        self._console.print(line)
        for sentence in _sentences(found):
            self._console.print(Text(f"    {sentence}", style="dim"))

    def close(self, vetted: Sequence[VettedProblem]) -> None:
        """The count."""
        counts = {word: sum(standing(found) == word for found in vetted) for word in _STYLES}
        said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        blind = {tol: sum(bool(_passing(found, tol)) for found in vetted) for tol in ("1e-2", "1e-4")}
        total = seconds_text(sum(found.seconds for found in vetted))
        self._console.print(f"{len(vetted)} problems in {total}: {said}")
        self._console.print(
            f"as written, the usual check would take a result without work for {blind['1e-2']} of them at a tolerance "
            f"of 1e-2, for {blind['1e-4']} at 1e-4"
        )


def document_of(vetted: Sequence[VettedProblem], device: str) -> dict[str, Any]:
    """The JSON document of ``kernelevolve vet --json``."""
    return {
        "device": device,
        "problems": [
            {
                "problem": found.name,
                "path": found.place,
                "standing": standing(found),
                "seconds": found.seconds,
                "error": found.error,
                **(
                    {
                        "vacuous_as_written": {t: list(w) for t, w in found.report.vacuous_as_written.items()},
                        "usable_workloads": list(found.report.usable_workloads),
                        "judged_how": found.report.judged_how,
                        "reasons": list(found.report.reasons),
                    }
                    if found.report is not None
                    else {}
                ),
            }
            for found in vetted
        ],
    }


def _passing(found: VettedProblem, tolerance: str) -> tuple[str, ...]:
    return found.report.vacuous_as_written.get(tolerance, ()) if found.report is not None else ()


def _sentences(found: VettedProblem) -> list[str]:
    if found.report is None:
        return [found.error]
    sentences = []
    tolerance = next((t for t in ("1e-4", "1e-2") if _passing(found, t)), None)
    if tolerance is not None:
        sentences.append(f"as written, {', '.join(_passing(found, tolerance))} would pass at {tolerance}")
    if standing(found) != "judged":
        sentences.append(found.report.judged_how)
    return sentences
