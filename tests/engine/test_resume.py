"""Stopping and resuming: by a request, by Ctrl-C, and by being killed at any instant."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from doubles import Recorder, ScriptedJudge, engine, new_run, search, settings
from killed_search import search_until_killed

from kernelevolve.judge.verdict import Effort
from kernelevolve.search.engine import INTERRUPTED, Engine
from kernelevolve.search.events import IncumbentChanged, NodeInserted, RunFinished, RunStarted
from kernelevolve.store import RunStatus, Store


class StopAfter:
    """A listener that ends the search from another thread after some nodes."""

    def __init__(self, nodes: int, act: object) -> None:
        self.left = nodes
        self.act = act

    def on_event(self, event: object) -> None:
        if isinstance(event, NodeInserted):
            self.left -= 1
            if self.left == 0:
                assert callable(self.act)
                self.act()


def stopped_after(workspace: Path, nodes: int, how: str, workers: int = 1) -> tuple[Store, str]:
    """A run of 30 evaluations that was stopped after some nodes."""
    store, chosen = Store(workspace), settings(30, workers=workers)
    run = new_run(store, chosen)
    made: list[Engine] = []
    act = {
        "stop": lambda: threading.Thread(target=made[0].stop).start(),
        "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
    }[how]
    listener = Recorder()
    made.append(engine(store, run, chosen, ScriptedJudge(delay=0.01), [StopAfter(nodes, act), listener]))
    made[0].run()
    assert listener.of(RunFinished)[0].interrupted
    return store, run.id


@pytest.mark.parametrize("how", ["stop", "interrupt"])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_stopped_run_keeps_what_was_judged_and_goes_on(tmp_path: Path, how: str, workers: int) -> None:
    before = signal.getsignal(signal.SIGINT)
    store, run = stopped_after(tmp_path, 6, how, workers)
    assert signal.getsignal(signal.SIGINT) is before
    record = store.run(run)
    assert (record.status, record.reason) == (RunStatus.INTERRUPTED, INTERRUPTED)
    kept = [s.node for s in store.nodes(run)]
    assert 6 <= len(kept) < 27
    assert store.promotions(run) == {}

    listener, judge, chosen = Recorder(), ScriptedJudge(), settings(30, workers=workers)
    engine(Store(tmp_path), record, chosen, judge, [listener]).run()
    nodes = [s.node for s in store.nodes(run)]
    assert nodes[: len(kept)] == kept
    assert 27 <= len(nodes) <= 30
    started = listener.events[0]
    assert isinstance(started, RunStarted)
    assert started.spent.evaluations == len(kept)
    assert isinstance(listener.events[1], IncumbentChanged)
    known = {n.candidate_id for n in kept}
    screened = [c.id for c in judge.judged(Effort.SCREEN)]
    finalists = set(store.promotions(run)) | {n.id for n in nodes if len(store.verdicts(run, n.id)) > 1}
    again = known & set(screened)
    assert again <= {nodes[n].candidate_id for n in finalists}  # a second look at a finalist is no repetition
    assert store.run(run).status is RunStatus.FINISHED


def test_with_one_worker_a_resumed_run_makes_the_candidates_of_one_that_was_not_stopped(tmp_path: Path) -> None:
    whole, run, _ = search(tmp_path / "whole", settings(30))
    store, stopped = stopped_after(tmp_path / "stopped", 9, "stop")
    engine(store, store.run(stopped), settings(30), ScriptedJudge()).run()
    expected = [s.node.candidate_id for s in whole.nodes(run.id)]
    assert [s.node.candidate_id for s in store.nodes(stopped)] == expected


def test_time_and_trials_of_all_processes_add_up(tmp_path: Path) -> None:
    store, run = stopped_after(tmp_path, 5, "stop")
    first = store.checkpoint(run)
    assert first is not None
    listener = Recorder()
    engine(store, store.run(run), settings(30), ScriptedJudge(), [listener]).run()
    started, finished = listener.of(RunStarted)[0].spent, listener.of(RunFinished)[0].spent
    assert started.seconds >= first.ledger["seconds"] > 0
    assert finished.seconds > started.seconds
    assert finished.device_seconds > started.device_seconds > 0
    assert finished.evaluations == len(list(store.nodes(run)))


def test_a_larger_budget_continues_a_finished_run(tmp_path: Path) -> None:
    store, run, _ = search(tmp_path, settings(15))
    before = len(list(store.nodes(run.id)))
    engine(store, store.run(run.id), settings(30), ScriptedJudge()).run()
    assert before < len(list(store.nodes(run.id))) <= 30


def test_a_second_interrupt_is_not_swallowed(tmp_path: Path) -> None:
    """The first asks the search to end; if that does not come to pass, the second ends the program as ever."""
    store, chosen = Store(tmp_path), settings(10)
    run = new_run(store, chosen)

    class Twice:
        def on_event(self, event: object) -> None:
            if isinstance(event, NodeInserted):
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        engine(store, run, chosen, ScriptedJudge(), [Twice()]).run()
    assert store.run(run.id).status is RunStatus.INTERRUPTED
    assert len(list(store.nodes(run.id))) == 1


def lines(path: Path) -> list[list[str]]:
    """The complete lines of a log that a killed process may have left in the middle of one."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def test_killing_the_process_twenty_times_loses_no_node_and_judges_none_again(tmp_path: Path) -> None:
    """SIGKILL at random instants, while it proposes, judges, writes, tunes or promotes.

    The child notes every node that the store has acknowledged, and every screen that it begins, in files of its own.
    A kill comes some milliseconds after one to three further notes: instants that do not depend on the machine's speed.
    """
    rng = random.Random(2026)
    chosen = settings(120, workers=2, policy="mcts")
    run = new_run(Store(tmp_path), chosen).id
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["kernelevolve.search.engine", "kernelevolve.tuning.coordinate"])
    kills, grown = 0, set[int]()
    while True:
        ready, begun = processes.Pipe(duplex=False)
        child = processes.Process(target=search_until_killed, args=(tmp_path, run, chosen, begun))
        child.start()
        begun.close()
        assert ready.recv() == "begun"
        if kills == 20:
            child.join()
            break
        due = len(lines(tmp_path / "begun.log")) + rng.randint(1, 3)
        while child.is_alive() and len(lines(tmp_path / "begun.log")) < due:
            time.sleep(0.001)
        child.join(timeout=rng.uniform(0.0, 0.02))
        if child.exitcode is not None:
            break
        child.kill()
        child.join()
        kills += 1
        grown.add(len(lines(tmp_path / "stored.log")))
    assert child.exitcode == 0
    assert kills == 20
    assert len(grown) > 5  # the kills came in the middle of things, not before

    store = Store(tmp_path)
    record = store.run(run)
    assert record.status is RunStatus.FINISHED
    nodes = [s.node for s in store.nodes(run)]
    assert [n.id for n in nodes] == list(range(len(nodes)))
    assert len(nodes) <= 120
    assert all(parent < n.id for n in nodes for parent in n.parents)
    acknowledged = {int(number): candidate for number, candidate in lines(tmp_path / "stored.log")}
    assert acknowledged.items() <= {n.id: n.candidate_id for n in nodes}.items()
    # A program that was in flight at a kill is judged again; one that was stored never.
    stored_programs: set[str] = set()
    for event, program in lines(tmp_path / "begun.log"):
        if event == "stored":
            stored_programs.add(program)
        else:
            assert program not in stored_programs
    assert len(stored_programs) > 20
    for node in nodes:
        candidate = store.candidate(run, node.id)
        assert candidate.id == node.candidate_id
        assert store.verdict(run, node.id).candidate_id == node.candidate_id
    keys = Counter(s.own_structure for s in store.nodes(run) if s.node.operator != "tune")
    assert max(keys.values()) == 1
    assert len(store.promotions(run)) >= 1
