"""A whole search in a PostgreSQL database: KERNELEVOLVE_TEST_DATABASE_URL names an empty one, e.g.
postgresql+psycopg://user@localhost/scratch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from doubles import ScriptedJudge, engine, new_run, settings

from kernelevolve.errors import KernelEvolveError
from kernelevolve.run import Run
from kernelevolve.store import Store

URL = os.environ.get("KERNELEVOLVE_TEST_DATABASE_URL", "")


@pytest.mark.skipif(not URL, reason="KERNELEVOLVE_TEST_DATABASE_URL is not set")
def test_a_search_is_stored_and_continued_in_postgresql(tmp_path: Path) -> None:
    store, chosen = Store(tmp_path, URL), settings(20, policy="mcts", workers=3)
    run = new_run(store, chosen)
    engine(store, run, chosen, ScriptedJudge()).run()
    before = list(store.nodes(run.id))
    assert 18 <= len(before) <= 20
    assert store.promotions(run.id)

    other = Store(tmp_path, URL)
    engine(other, other.run(run.id), settings(30, policy="mcts"), ScriptedJudge()).run()
    after = list(other.nodes(run.id))
    assert after[: len(before)] == before
    assert 27 <= len(after) <= 30
    summary = Run(other, run.id).summary()
    assert summary.best is not None
    assert summary.trials == other.count_trials(run.id)
    with pytest.raises(KernelEvolveError, match="already has a node 0"):
        other.append_node(run.id, after[0], other.candidate(run.id, 0), other.verdict(run.id, 0))


@pytest.mark.skipif(not URL, reason="KERNELEVOLVE_TEST_DATABASE_URL is not set")
def test_a_server_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(KernelEvolveError, match="cannot be opened") as error:
        Store(tmp_path, "postgresql+psycopg://somebody:secret@localhost:1/nothing")
    assert "secret" not in str(error.value)
