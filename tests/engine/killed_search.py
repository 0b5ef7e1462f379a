"""A search in a process of its own that is to be killed, with a log of what it did beside the store."""

from __future__ import annotations

import json
import os
from multiprocessing.connection import Connection
from pathlib import Path

from doubles import ScriptedJudge, engine, program

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import program_key
from kernelevolve.judge.verdict import Effort
from kernelevolve.search.events import Event, NodeInserted, Phase, PhaseChanged
from kernelevolve.search.finale import TUNE
from kernelevolve.search.settings import SearchSettings
from kernelevolve.store import Store

DEFAULT_CONFIG = program((0, 0, 0, 0, 0)).config


class Log:
    """Lines that are on the disk whole or not at all, whenever the process ends."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, *values: object) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, (json.dumps(values) + "\n").encode())
        os.close(descriptor)


class Witness:
    """Writes to ``stored.log`` what the store has acknowledged, and to ``begun.log`` what is judged for the first time.

    A numeric search screens a program again at other numbers, and the finale looks at finalists again: neither counts.
    """

    def __init__(self, workspace: Path, store: Store, run: str) -> None:
        self.stored, self.begun = Log(workspace / "stored.log"), Log(workspace / "begun.log")
        self.store, self.run = store, run
        self.searching = True

    def on_event(self, event: Event) -> None:
        if isinstance(event, PhaseChanged):
            self.searching = event.phase in (Phase.BASELINES, Phase.SEARCH)
        elif isinstance(event, NodeInserted):
            self.stored.write(event.node.id, event.node.candidate_id)
            if event.node.operator != TUNE:
                self.begun.write("stored", program_key(self.store.candidate(self.run, event.node.id)))

    def on_call(self, candidate: Candidate, effort: Effort) -> None:
        if self.searching and effort is Effort.SCREEN and candidate.config == DEFAULT_CONFIG:
            self.begun.write("begun", program_key(candidate))


def search_until_killed(workspace: Path, run: str, chosen: SearchSettings, begun: Connection) -> None:
    """Continue the run; says "begun" on the connection when it is about to."""
    store = Store(workspace)
    witness = Witness(workspace, store, run)
    judge = ScriptedJudge(delay=0.001, on_call=witness.on_call)
    begun.send("begun")
    engine(store, store.run(run), chosen, judge, [witness]).run()
