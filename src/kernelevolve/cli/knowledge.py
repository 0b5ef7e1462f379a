"""``kernelevolve knowledge``: what a writer of kernels should know, asked, shown, added to and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelevolve.cli.terminal import DEFAULT_OUT, JsonOption, OutOption, console, print_json

EXIT_NOTHING = 1
_LIMIT = 5

knowledge = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Ask the knowledge base, show its pages and what runs learnt, add documents of your own, check pages.",
)

TargetOption = Annotated[str | None, typer.Option(help="Only what applies to: nvidia, amd, mtia, cpu.")]
LanguageOption = Annotated[
    str | None, typer.Option(help="Only what applies to: triton, cuda, cpp, cute_dsl, hip, flydsl, mtia_cpp, pytorch.")
]


@knowledge.command(short_help="Find pages.")
def search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY…", help="Words, in any order.")],
    target: TargetOption = None,
    language: LanguageOption = None,
    bottleneck: Annotated[
        str | None, typer.Option(help="Only what helps against: memory, compute, latency, launch.")
    ] = None,
    phase: Annotated[str | None, typer.Option(help="Only pages of: basics, advanced, expert.")] = None,
    depth: Annotated[
        int | None, typer.Option(help="Rank as a search at this depth is answered: basics first, then more.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Pages at most.")] = _LIMIT,
    as_json: JsonOption = False,
) -> int:
    """Find the pages that answer, best first. Exit code 0: there are some; 1: there are none."""
    from rich.text import Text

    from kernelevolve.knowledge import KnowledgeBase

    found = KnowledgeBase().retrieve(
        " ".join(query), target=target, language=language, bottleneck=bottleneck, phase=phase, depth=depth, limit=limit
    )
    if as_json:
        print_json({"found": [page.model_dump(exclude={"text"}) for page in found]})
        return 0 if found else EXIT_NOTHING
    out = console()
    for page in found:
        out.print(Text.assemble((page.page_id, "bold cyan"), f"  {page.title}  ", (f"{page.score:.1f}", "dim")))
        if page.snippet:
            out.print(Text(f"  {page.snippet}", "dim"))
    if not found:
        out.print("no page answers this; try other words, or fewer restrictions")
    return 0 if found else EXIT_NOTHING


@knowledge.command(short_help="Show one page and its sources.")
def show(
    page_id: Annotated[
        str, typer.Argument(metavar="ID", help="A page, such as guidance/operators/softmax; or a skill.")
    ] = "index",
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
) -> None:
    """Show one page with its sources, or what a run in OUT learnt; without an identifier the index of all pages."""
    from rich.text import Text

    from kernelevolve.knowledge import KnowledgeBase
    from kernelevolve.skills.library import load_skills

    wanted = page_id.removeprefix("skills/").removesuffix(".md")
    skill = next((found for found in load_skills(out).pages if found.skill.run == wanted), None)
    page = skill.page if skill is not None else KnowledgeBase().page(page_id)
    if as_json:
        print_json(page.model_dump(mode="json"))
        return
    front = page.front
    filed = (("targets", front.targets), ("languages", front.languages), ("bottlenecks", front.bottlenecks))
    paper = console()
    paper.print(Text(page.title, "bold"))
    said = [f"{name}: {', '.join(words)}" for name, words in filed]
    paper.print(Text("; ".join([*said, f"phase: {front.phase.value}"]), "dim"))
    paper.print()
    paper.print(Text(page.body), soft_wrap=True)
    paper.print()
    if page.origin == "user":
        paper.print(Text(page.citation, "dim"), soft_wrap=True)
    for number, source in enumerate(front.sources if page.origin == "shipped" else (), 1):
        paper.print(Text(f"[{number}] {source}", "dim"), soft_wrap=True)


@knowledge.command(short_help="List what runs learnt.")
def skills(out: OutOption = DEFAULT_OUT, as_json: JsonOption = False) -> int:
    """List the skills that the runs in OUT earned: problem, target, speed-up. Exit code 0: there are some; 1: none."""
    from rich.text import Text

    from kernelevolve.skills.library import load_skills

    loaded = load_skills(out)
    if as_json:
        listed = [found.skill.model_dump(mode="json", exclude={"problem_class"}) for found in loaded.pages]
        print_json({"skills": listed, "unread": list(loaded.unread)})
    people = console(stderr=as_json)
    for skill in (found.skill for found in loaded.pages):
        standing = "promoted" if skill.promoted else "as the search measured it"
        speedup = "not timed" if skill.speedup is None else f"{skill.speedup:.3g}x ({standing})"
        line = f"  {skill.problem} on {skill.target}, {skill.language}, {speedup}, node {skill.node}"
        people.print(Text.assemble((skill.run, "bold cyan"), line), soft_wrap=True)
    for reason in loaded.unread:
        people.print(Text(f"not read: {reason}"), soft_wrap=True)
    if not loaded.pages:
        people.print(f"no run in {str(out)!r} has earned a skill; one is written when a run ends with a correct kernel")
    return 0 if loaded.pages else EXIT_NOTHING


@knowledge.command(short_help="Add a folder of Markdown or PDF files.")
def add(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Markdown and PDF files, in folders or not.")],
    target: Annotated[list[str] | None, typer.Option(help="What they apply to; may be given several times.")] = None,
    language: Annotated[list[str] | None, typer.Option(help="The same for languages.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Add documents of your own: they are cut into passages, found like pages, and cited by file and line or page.

    A folder that was added before is read again. Exit code 0: passages were added; 1: no file holds text.
    """
    from kernelevolve.knowledge import user

    added = user.add(folder, targets=target or (), languages=language or ())
    if as_json:
        print_json({**added.model_dump(mode="json", exclude={"pages"}), "passages": len(added.pages)})
    out = console(stderr=as_json)
    out.print(f"{len(added.pages)} passages of {added.files - len(added.unread)} files are in the knowledge base")
    for reason in added.unread:
        out.print(f"not read: {reason}", soft_wrap=True)
    return 0 if added.pages else EXIT_NOTHING


@knowledge.command(short_help="Check pages against their rules.")
def lint(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="Pages to check; the shipped ones if left out.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check front matter, sources, markers, links, sizes and titles. Exit code 0: all keep the rules; 1: not so."""
    from kernelevolve.knowledge.base import PAGES
    from kernelevolve.knowledge.lint import lint as check

    count, complaints = check(folder or PAGES)
    if as_json:
        print_json({"pages": count, "complaints": [complaint.model_dump() for complaint in complaints]})
    out = console(stderr=as_json)
    for complaint in complaints:
        out.print(str(complaint), soft_wrap=True)
    out.print(f"{count} pages, {len(complaints)} complaints")
    return EXIT_NOTHING if complaints else 0
