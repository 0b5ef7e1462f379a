"""``kernelevolve optimize``: the main job."""

from __future__ import annotations

import ast
import shlex
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from kernelevolve.cli.boundary import EXIT_INTERRUPTED
from kernelevolve.cli.terminal import (
    DEFAULT_OUT,
    InjectionOption,
    JsonOption,
    NoSkillsOption,
    OutOption,
    ScaleOption,
    SettingsOption,
    TargetOption,
    console,
    print_json,
    skill_options,
)
from kernelevolve.errors import InvalidRequest
from kernelevolve.workers.sandbox import Sandbox

if TYPE_CHECKING:
    from kernelevolve.operators.llm.settings import WritingSettings
    from kernelevolve.report.live import View
    from kernelevolve.run import Run

DEFAULT_EVALUATIONS, DEFAULT_MINUTES = 60, 10.0
EXIT_NOTHING_CORRECT = 1


def optimize(
    problem: Annotated[
        str | None,
        typer.Argument(
            metavar="PROBLEM",
            help="A problem file in the KernelBench format, or a shipped one: ranking/rmsnorm_residual.",
        ),
    ] = None,
    target: TargetOption = "auto",
    evaluations: Annotated[
        int | None, typer.Option(help=f"Candidates to judge at most.  [default: {DEFAULT_EVALUATIONS}]")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help=f"Wall time at most.  [default: {DEFAULT_MINUTES:g}]")] = None,
    seed: Annotated[int, typer.Option(help="Determines what is proposed.")] = 0,
    out: OutOption = DEFAULT_OUT,
    policy: Annotated[
        str | None, typer.Option(help="Selection policy; by default one that suits the number of evaluations.")
    ] = None,
    scale: ScaleOption = None,
    settings: SettingsOption = None,
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Continue a run: its identifier, a beginning of it, or 'last'.")
    ] = None,
    target_roofline: Annotated[
        float | None, typer.Option(help="End the search at this fraction of the roofline, e.g. 0.9.")
    ] = None,
    operators: Annotated[
        list[str] | None,
        typer.Option(
            "--operator",
            help="Who proposes candidates; again for more. By default all built-in ones, and with --model llm.",
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="PROVIDER:NAME",
            help="A language model that writes candidates: openai:…, anthropic:…, google:…, or openai:NAME@URL for a "
            "server of your own; =WEIGHT after it says how readily it is tried. Again for more.",
        ),
    ] = None,
    dollars: Annotated[float | None, typer.Option(help="To be spent on models at most.")] = None,
    tokens: Annotated[str | None, typer.Option(help="To be spent on models at most, such as 500k or 2M.")] = None,
    price: Annotated[
        str | None,
        typer.Option(metavar="INPUT,OUTPUT", help="Of the models, in dollars per million tokens, if it is not known."),
    ] = None,
    conversations: Annotated[int, typer.Option(help="Operators that are asked at once.")] = 1,
    recording: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="With --operator recorded: the run, or its directory, whose programs are judged again."
        ),
    ] = None,
    fallback: Annotated[
        bool,
        typer.Option("--fallback", help="Go on with the others if a model cannot be used, such as for want of a key."),
    ] = False,
    no_skills: NoSkillsOption = False,
    injection: InjectionOption = None,
    sandbox: Annotated[
        Sandbox | None,
        typer.Option(
            help="How candidates are shut in: as well as this machine can, refused unless fully, or not at all.  "
            "[default: auto; with --resume as the run began]",
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> int:
    """Search for a faster kernel for PROBLEM, verify it, and write it to OUT with its certificate and report.

    Exit code 0: a correct kernel was found; 1: none was; 2: bad input; 130: interrupted, and can be resumed.
    """
    _check(problem, resume, evaluations, minutes, seed, target_roofline, conversations, continued=_continued_options(
        target=target != "auto", seed=seed != 0, policy=policy is not None, scale=scale is not None,
        set=bool(settings), operator=bool(operators), model=bool(models), price=price is not None,
        recording=recording is not None, conversations=conversations != 1, fallback=fallback,
        injection=injection is not None,
        **{"target-roofline": target_roofline is not None, "no-skills": no_skills},
    ))  # fmt: skip
    skills = skill_options(no_skills, injection)
    from kernelevolve import session
    from kernelevolve.problems.loaders import load_problem
    from kernelevolve.report.live import live_view

    overrides = dict(map(parse_setting, settings or ()))
    view: View | None = None if quiet else live_view(console(stderr=True))
    listeners = () if view is None else (view,)
    if resume is not None:
        with view or nullcontext():
            run = session.resume(
                resume, out=out, evaluations=evaluations, minutes=minutes, tokens=_tokens(tokens), dollars=dollars,
                sandbox=sandbox, listeners=listeners,
            )  # fmt: skip
    else:
        assert problem is not None
        text = load_problem(problem, overrides=overrides, scale=scale)
        with view or nullcontext():
            run = session.optimize(
                text,
                target=target,
                evaluations=DEFAULT_EVALUATIONS if evaluations is None else evaluations,
                minutes=DEFAULT_MINUTES if minutes is None else minutes,
                seed=seed,
                out=out,
                policy=policy,
                operators=operators,
                models=_writing(models, price),
                tokens=_tokens(tokens),
                dollars=dollars,
                fallback=fallback,
                conversations=conversations,
                recording=recording,
                roofline_target=target_roofline,
                sandbox=Sandbox.AUTO if sandbox is None else sandbox,
                listeners=listeners,
                **skills,
            )
    return conclude(run, as_json)


def _writing(models: list[str] | None, price: str | None) -> WritingSettings | tuple[()]:
    """The models as they were named; nothing if none were."""
    from kernelevolve.operators.llm.model_choice import parse_model
    from kernelevolve.operators.llm.prices import parse_price
    from kernelevolve.operators.llm.settings import WritingSettings

    if not models:
        return ()
    return WritingSettings(models=tuple(map(parse_model, models)), price=None if price is None else parse_price(price))


def _tokens(text: str | None) -> int | None:
    """A number of tokens; k and M stand for a thousand and a million. Raises InvalidRequest."""
    if text is None:
        return None
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    try:
        return int(float(text[:-1] if scale > 1 else text) * scale)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"--tokens {text!r} is no number", fix="write for example 500k or 2M") from None


def parse_setting(text: str) -> tuple[str, int | float | str | bool]:
    """``NAME=VALUE`` taken apart; a value that is no Python number or truth value is a string."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InvalidRequest(
            f"--set {text!r} is not of the form NAME=VALUE", fix="write for example --set batch_size=16"
        )
    try:
        literal = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
    return name, literal if isinstance(literal, (bool, int, float, str)) else value


def resume_command(run: Run) -> str:
    """What to type to continue a run as it was begun."""
    out = run.store.workspace
    place = "" if out == DEFAULT_OUT else f" --out {shlex.quote(str(out))}"
    walls = " --sandbox none" if run.record.settings.get("sandbox") == Sandbox.NONE else ""
    return f"kernelevolve optimize --resume {run.id}{place}{walls}"


def _continued_options(**given: bool) -> list[str]:
    return [f"--{name}" for name, present in given.items() if present]


def _check(
    problem: str | None,
    resume: str | None,
    evaluations: int | None,
    minutes: float | None,
    seed: int,
    target_roofline: float | None,
    conversations: int,
    continued: list[str],
) -> None:
    """What can be refused before anything heavy is imported."""
    if (problem is None) == (resume is None):
        fix = "give one of them: kernelevolve optimize problem.py, or kernelevolve optimize --resume RUN"
        raise InvalidRequest("a search needs either a problem or a run to resume", fix=fix)
    if resume is not None and continued:
        raise InvalidRequest(
            f"{', '.join(continued)} cannot be changed when a run is resumed",
            fix="leave it out (--evaluations, --minutes, --tokens and --dollars may be raised), or start a new run",
        )
    if evaluations is not None and evaluations < 1:
        raise InvalidRequest(f"--evaluations {evaluations} leaves nothing to judge", fix="allow at least 1")
    if minutes is not None and not 0 < minutes < float("inf"):
        raise InvalidRequest(f"--minutes {minutes:g} is no length of time", fix="give a number above 0")
    if conversations < 1:
        raise InvalidRequest(f"--conversations {conversations} asks nobody", fix="allow at least 1")
    if seed < 0:
        raise InvalidRequest(f"--seed {seed} is negative", fix="give 0 or a larger number")
    if target_roofline is not None and not 0 < target_roofline <= 1:
        raise InvalidRequest(
            f"--target-roofline {target_roofline:g} is no fraction", fix="give a number above 0 and at most 1"
        )


def conclude(run: Run, as_json: bool) -> int:
    """Say what was found; the summary goes to stdout unless the JSON document does."""
    from kernelevolve.report.contents import collect
    from kernelevolve.report.summary import print_summary

    contents = collect(run)
    print_summary(console(stderr=as_json), contents, run.directory)
    if as_json:
        print_json(contents.summary.model_dump(mode="json"))
    if run.interrupted:
        command = resume_command(run)
        console(stderr=True).print(f"Interrupted; nothing is lost. Continue with:\n  {command}", soft_wrap=True)
        return EXIT_INTERRUPTED
    return 0 if contents.best is not None else EXIT_NOTHING_CORRECT
