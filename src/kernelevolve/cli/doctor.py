"""``kernelevolve doctor``: what this machine can do, what is missing, and the fix."""

from __future__ import annotations

from itertools import groupby

from kernelevolve.cli.terminal import JsonOption, console, print_json

EXIT_NO_TARGET = 1
_STYLES = {"ok": "green", "limited": "yellow", "missing": "red"}


def doctor(as_json: JsonOption = False) -> int:
    """Say what this machine can compile, run, profile and sandbox, and how to mend what is missing.

    Exit code 0: there is a target that kernels can be searched for; 1: there is none.
    """
    from kernelevolve.doctor import examine

    findings, targets = examine(), usable_targets()
    if as_json:
        print_json({"findings": [finding.model_dump(mode="json") for finding in findings], "targets": targets})
        return 0 if any(targets.values()) else EXIT_NO_TARGET
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for no_wrap in (True, True, False):
        table.add_column(no_wrap=no_wrap)
    for area, members in groupby(findings, key=lambda finding: finding.area):
        table.add_row(Text(area, "bold"))
        for finding in members:
            state = Text(finding.state, _STYLES[finding.state])
            table.add_row(f"  {finding.name}", state, Text(finding.detail))
            if finding.fix and finding.state != "ok":
                table.add_row("", "", Text(f"→ {finding.fix}", "cyan"))
    out = console()
    out.print(table)
    out.print()
    for name, languages in targets.items():
        said = f"candidates can be judged in {', '.join(languages)}" if languages else "not on this machine"
        out.print(Text.assemble((f"target {name}: ", "bold"), (said, "green" if languages else "yellow")))
    return 0 if any(targets.values()) else EXIT_NO_TARGET


def usable_targets() -> dict[str, list[str]]:
    """Each target with the languages that this machine can build, run and time for it; none if it lacks the target.

    A language that has a limit on a target (an interpreter, whose times mean nothing) is not named.
    """
    from kernelevolve.languages import LANGUAGES
    from kernelevolve.targets import TARGETS

    languages = [language for language in map(LANGUAGES.get, LANGUAGES) if language.availability().ok]
    return {
        name: [each.name for each in languages if name in each.targets and name not in each.limits]
        if TARGETS.get(name).availability().ok
        else []
        for name in TARGETS
    }
