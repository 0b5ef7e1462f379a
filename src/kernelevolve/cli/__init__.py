"""The terminal front door. Command modules import what they need when they run, so that ``--help`` is quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from kernelevolve.cli.agent import ask, finish, start, tell
from kernelevolve.cli.boundary import guarded
from kernelevolve.cli.doctor import doctor
from kernelevolve.cli.knowledge import knowledge
from kernelevolve.cli.mcp import mcp
from kernelevolve.cli.optimize import optimize
from kernelevolve.cli.profile import profile
from kernelevolve.cli.recording import export, replay
from kernelevolve.cli.runs import list_runs
from kernelevolve.cli.selftest import selftest
from kernelevolve.cli.show import show
from kernelevolve.cli.verify import verify
from kernelevolve.cli.vet import vet
from kernelevolve.version import __version__

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Search for a fast, verified kernel for a PyTorch operator, and prove how fast it is.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"kernelevolve {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and end.")
    ] = False,
) -> None:
    pass


app.command(short_help="Search for a faster kernel.")(optimize)
app.command(short_help="Judge one file that somebody wrote.")(verify)
app.command(short_help="Say what holds one file back, and by what evidence.")(profile)
app.command(short_help="Say which problems can tell a right kernel from a wrong one.")(vet)
app.command(short_help="Show what a run found, why it is fast, and what failed.")(show)
app.command(short_help="Begin a run that a coding agent, or you, write the candidates for.")(start)
app.command(short_help="Print the next prompt of a run.")(ask)
app.command(short_help="Submit a candidate to a run and print its verdict.")(tell)
app.command(short_help="Tune and promote the best of a run.")(finish)
app.command(short_help="Serve the same to coding agents over the Model Context Protocol.")(mcp)
app.command(short_help="Make the decisions of a run again from its recording, and compare.")(replay)
app.command(short_help="Write a run as training data.")(export)
app.command("list", short_help="List the runs.")(list_runs)
app.command(short_help="Say what this machine can do, and what is missing.")(doctor)
app.command(short_help="Try to fool the judge of this machine.")(selftest)
app.add_typer(knowledge, name="knowledge", short_help="Ask and extend what a writer of kernels should know.")


def run(words: Sequence[str]) -> int:
    """Run one command line, without the program's name, and return its exit code."""
    return guarded(_dispatch, list(words) or ["--help"])


def main() -> None:
    """The ``kernelevolve`` program."""
    sys.exit(run(sys.argv[1:]))


def _dispatch(words: Sequence[str]) -> Any:
    return get_command(app).main(args=list(words), prog_name="kernelevolve", standalone_mode=False)
