"""What is written down when a run ends: the kernel, its certificate, the report, and the skill."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kernelevolve.candidates.structure import materialise
from kernelevolve.run import BEST_DIRECTORY, KERNEL_FILE, Run
from kernelevolve.skills.library import write_skill
from kernelevolve.targets import TARGETS


def write_results(run: Run, writer: Callable[[str], str] | None = None) -> None:
    """``<out>/<run>/best/``: the kernel file, its certificate; beside it ``report.html``; ``<out>/skills/<run>.md``.

    ``writer`` puts the facts of the skill into words.
    """
    from kernelevolve.judge.certificate import write_certificate
    from kernelevolve.report.html import write_report

    best = run.best
    if best is not None:
        place = run.directory / BEST_DIRECTORY
        place.mkdir(parents=True, exist_ok=True)
        (place / KERNEL_FILE).write_text(materialise(best.candidate))
        write_certificate(run.problem, best.candidate, best.verdict, place / "certificate.json")
    write_report(run, run.directory / "report.html")
    try:
        write_skill(run.store, run.id, TARGETS.get(run.target), writer)
    except Exception as error:  # what a run found is not lost for what could not be learnt from it
        logging.getLogger(__name__).warning("no skill was written for run %s: %s", run.id, error)
