"""``kernelevolve start``, ``ask``, ``tell`` and ``finish``: a run that somebody else writes the candidates for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelevolve.cli.optimize import DEFAULT_EVALUATIONS, DEFAULT_MINUTES, conclude, parse_setting
from kernelevolve.cli.terminal import (
    DEFAULT_OUT,
    InjectionOption,
    JsonOption,
    NoSkillsOption,
    OutOption,
    ProblemArgument,
    RunSandboxOption,
    SandboxOption,
    ScaleOption,
    SettingsOption,
    TargetOption,
    console,
    print_json,
    skill_options,
)
from kernelevolve.cli.verify import EXIT_NOT_CORRECT
from kernelevolve.errors import InvalidRequest
from kernelevolve.workers.sandbox import Sandbox

if TYPE_CHECKING:
    from kernelevolve.agent import Dialogue
    from kernelevolve.prompting import Retriever

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Its identifier, a clear beginning of it, its directory, or 'last'.")
]
ParentsOption = Annotated[
    list[int] | None,
    typer.Option("--parent", metavar="N", help="Change this node, not the policy's choice; given twice: combine."),
]
DraftOption = Annotated[bool, typer.Option("--draft", help="A new draft instead of the policy's choice.")]


def start(
    problem: ProblemArgument,
    target: TargetOption = "auto",
    evaluations: Annotated[int, typer.Option(help="Candidates to judge at most.")] = DEFAULT_EVALUATIONS,
    minutes: Annotated[float, typer.Option(help="Time of judging at most; time between commands is free.")] = (
        DEFAULT_MINUTES
    ),
    seed: Annotated[int, typer.Option(help="Determines which nodes are asked about.")] = 0,
    policy: Annotated[str | None, typer.Option(help="Selection policy; by default one that suits the budget.")] = None,
    scale: ScaleOption = None,
    settings: SettingsOption = None,
    out: OutOption = DEFAULT_OUT,
    no_skills: NoSkillsOption = False,
    injection: InjectionOption = None,
    sandbox: SandboxOption = Sandbox.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Begin a run that waits for candidates: vet PROBLEM and time its baselines. Then: ask, write, tell, and finish."""
    from kernelevolve import agent
    from kernelevolve.problems.loaders import load_problem

    skills = skill_options(no_skills, injection)
    text = load_problem(problem, overrides=dict(map(parse_setting, settings or ())), scale=scale)
    with (
        console(stderr=True).status("vetting the problem and timing the baselines"),
        agent.start(
            text, target=target, evaluations=evaluations, minutes=minutes, seed=seed, out=out, policy=policy,
            sandbox=sandbox, **skills,
        ) as dialogue,
    ):  # fmt: skip
        run = dialogue.run
    if as_json:
        print_json({"run": run.id, "problem": text.name, "target": run.target, "baselines": run.record.baselines})
    else:
        print(run.id)
    console(stderr=True).print(f"The first prompt:  kernelevolve ask {run.id}", soft_wrap=True)


def ask(
    run: RunArgument = "last",
    parents: ParentsOption = None,
    draft: DraftOption = False,
    memory: Annotated[
        str | None, typer.Option(help="What to tell of earlier work: inherit, siblings, both, clean.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Length of the prompt at most, in estimated tokens.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Replace the run's limit of candidates first.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Replace the run's limit of judging time first.")] = None,
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
) -> None:
    """Print the next prompt of RUN: all that a writer needs for one candidate. Asking again gives the same prompt."""
    from kernelevolve.agent.documents import asked_document
    from kernelevolve.knowledge import KnowledgeBase
    from kernelevolve.prompting import DEFAULT_TOKENS, Memory

    if memory is not None and memory not in set(Memory):
        raise InvalidRequest(f"there is no memory {memory!r}", fix=f"use one of: {', '.join(Memory)}")
    with _dialogue(run, out, retriever=KnowledgeBase()) as dialogue:
        if evaluations is not None or minutes is not None:
            dialogue.raise_limits(evaluations, minutes)
        asked = dialogue.ask(
            _named(parents, draft), memory=None if memory is None else Memory(memory),
            tokens=DEFAULT_TOKENS if tokens is None else tokens,
        )  # fmt: skip
        if as_json:
            print_json(asked_document(dialogue.run.id, asked))
        else:
            sys.stdout.write(asked.prompt.text)


def tell(
    run: RunArgument,
    candidate: Annotated[
        Path, typer.Argument(metavar="FILE", help="candidate.py; or an answer as text: a fenced file or edits.")
    ],
    parents: ParentsOption = None,
    draft: DraftOption = False,
    out: OutOption = DEFAULT_OUT,
    sandbox: RunSandboxOption = None,
    as_json: JsonOption = False,
) -> int:
    """Submit a candidate to RUN, wait for its verdict, and print it.

    A file that ends in .py is a program; any other is an answer whose fenced file or edits are taken.
    Exit code 0: correct; 1: any other verdict; 2: bad input, such as an edit that does not apply.
    """
    from kernelevolve.agent.documents import note_of, told_document
    from kernelevolve.report.summary import print_verdict
    from kernelevolve.session import read_text

    text = read_text(candidate)
    with _dialogue(run, out, sandbox) as dialogue:
        with console(stderr=True).status("judging: build, correctness, timing beside the baselines"):
            told = dialogue.tell(text, _named(parents, draft), answer=candidate.suffix != ".py")
        people = console(stderr=as_json)
        print_verdict(people, told.verdict)
        made = (
            "the best so far" if told.improved else f"made from {', '.join(map(str, told.node.parents)) or 'nothing'}"
        )
        people.print(f"node {told.node.id}, {made}. {note_of(told)}".rstrip(), soft_wrap=True)
        if as_json:
            print_json(told_document(dialogue.run.id, told))
    return 0 if told.verdict.correct else EXIT_NOT_CORRECT


def finish(
    run: RunArgument = "last", out: OutOption = DEFAULT_OUT, sandbox: RunSandboxOption = None,
    as_json: JsonOption = False,
) -> int:  # fmt: skip
    """End RUN as every search ends: tune the best programs, put them to the strict test, write kernel and report.

    Exit codes are those of optimize. More may be told afterwards, as far as the budget goes.
    """
    with _dialogue(run, out, sandbox) as dialogue, console(stderr=True).status("tuning and promoting the best"):
        finished = dialogue.finish()
    return conclude(finished, as_json)


def _dialogue(run: str, out: Path, sandbox: Sandbox | None = None, *, retriever: Retriever | None = None) -> Dialogue:
    """RUN, opened; only who asks needs pages for the prompt."""
    from kernelevolve.agent import Dialogue
    from kernelevolve.workspace import open_run

    return Dialogue(open_run(run, out=out), sandbox=sandbox, retriever=retriever)


def _named(parents: list[int] | None, draft: bool) -> list[int] | None:
    """The parents that were asked for; None: the policy chooses."""
    if draft and parents:
        raise InvalidRequest("a draft has no parents", fix="give --draft or --parent, not both")
    return [] if draft else (parents or None)
