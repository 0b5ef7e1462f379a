"""Language models in a search: real requests to a server whose answers are scripted, with a scripted judge.

Whatever a provider does, no program that was paid for is lost, and the ledger agrees with the recording to the token.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from engine.written import Script, begin, written
from kernelevolve.operators.llm.failure import FailureKind
from kernelevolve.operators.llm.metered import ATTEMPTS
from kernelevolve.search.events import OperatorFailed
from scripted import (
    Answer,
    Late,
    Received,
    Reset,
    ScriptedServer,
    content_filtered,
    context_too_long,
    empty,
    malformed_arguments,
    message,
    no_json,
    overloaded,
    quota_exhausted,
    rate_limited,
    refusal,
    server_error,
    truncated,
    unauthorized,
    unavailable,
    unknown_model,
    unknown_tool,
    without_usage,
    wrong_shape,
)

PASSING = {
    "rate limit": (rate_limited(retry_after=0), FailureKind.RATE_LIMIT),
    "500": (server_error(), FailureKind.SERVER),
    "503": (unavailable(), FailureKind.OVERLOADED),
    "overloaded": (overloaded(), FailureKind.OVERLOADED),
    "timeout": (Late(), FailureKind.TIMEOUT),
    "reset": (Reset(), FailureKind.CONNECTION),
    "no JSON": (no_json(), FailureKind.SERVER),
    "wrong shape": (wrong_shape(), FailureKind.MALFORMED),
}
USELESS = {
    "refusal": refusal(),
    "content filter": content_filtered(),
    "truncated": truncated("```python\nimport torch\n"),
    "empty": empty(),
    "unknown tool": unknown_tool(),
    "malformed arguments": malformed_arguments("lint"),
    "no program": message("I would rather not."),
    "half an edit": message("<<<<<<< SEARCH\nx\n"),
    "syntax error": message("```python\nclass ModelNew(:\n```"),
}
LASTING = {
    "401": (unauthorized(), FailureKind.KEY),
    "404": (unknown_model(), FailureKind.UNKNOWN_MODEL),
    "quota": (quota_exhausted(), FailureKind.QUOTA),
}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("name", PASSING)
def test_a_failure_that_passes_costs_no_node(tmp_path: Path, name: str, provider: str) -> None:
    failure, kind = PASSING[name]
    with ScriptedServer(Script({1: failure, 2: failure})) as server:
        search = begin(tmp_path, server.url, provider=provider, request_seconds=0.5 if name == "timeout" else 5.0)
        search.go()
    assert search.nodes() == [f"llm:{provider}:scripted"] * 4
    assert [e.failure for e in search.exchanges() if e.failure] == [kind, kind]
    assert sorted(e.attempt for e in search.exchanges()) == [1, 1, 1, 1, 2, 3]
    search.check_ledger()


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("name", USELESS)
def test_an_answer_that_cannot_be_used_is_paid_and_asked_for_again(tmp_path: Path, name: str, provider: str) -> None:
    with ScriptedServer(Script({1: USELESS[name]})) as server:
        search = begin(tmp_path, server.url, provider=provider)
        search.go()
    assert search.nodes() == [f"llm:{provider}:scripted"] * 4
    assert all(e.response is not None for e in search.exchanges())
    search.check_ledger()


@pytest.mark.parametrize("name", LASTING)
def test_a_failure_that_lasts_ends_the_asking_and_keeps_what_there_is(tmp_path: Path, name: str) -> None:
    failure, kind = LASTING[name]
    with ScriptedServer(Script({2: failure})) as server:
        search = begin(tmp_path, server.url, evaluations=9)
        search.go()
    assert search.nodes()[:2] == ["llm:openai:scripted"] * 2
    assert [e.failure for e in search.exchanges()] == ["", "", kind]
    reason = search.store.run(search.record.id).reason
    assert kind in reason
    assert "cannot be used" in reason
    search.check_ledger()


def test_an_outage_ends_after_so_many_lost_conversations(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return server_error()

    with ScriptedServer(script) as server:
        search = begin(tmp_path, server.url)
        search.go()
        assert len(server.requests) == 6 * ATTEMPTS
    assert search.nodes() == []
    assert "6 conversations in a row" in search.store.run(search.record.id).reason
    assert len(search.heard.of(OperatorFailed)) == 6


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with ScriptedServer([]) as server:
        url = server.url
    search = begin(tmp_path, url)
    search.go()
    assert {e.failure for e in search.exchanges()} == {FailureKind.CONNECTION}


def test_a_question_that_is_too_long_is_asked_more_briefly(tmp_path: Path) -> None:
    with ScriptedServer(Script({0: context_too_long()})) as server:
        search = begin(tmp_path, server.url, evaluations=1)
        search.go()
        asked = [json.dumps(request.body) for request in server.requests]
    assert search.nodes() == ["llm:openai:scripted"]
    assert len(asked[1]) <= len(asked[0])


def test_usage_that_is_not_told_is_estimated(tmp_path: Path) -> None:
    with ScriptedServer(Script({0: without_usage(written(0).text)})) as server:
        search = begin(tmp_path, server.url, evaluations=1)
        search.go()
    (exchange,) = search.exchanges()
    assert exchange.input_tokens > 500
    assert exchange.output_tokens > 50


def test_a_provider_that_hangs_does_not_outlast_the_search(tmp_path: Path) -> None:
    with ScriptedServer(Script({0: Late(), 1: Late(), 2: Late(), 3: Late()})) as server:
        search = begin(tmp_path, server.url, request_seconds=60.0)
        budget = search.chosen.budget.model_copy(update={"seconds": 2.0})
        search.chosen = search.chosen.model_copy(update={"budget": budget})
        started = time.monotonic()
        search.go()
    assert time.monotonic() - started < 20  # One request alone was allowed a minute.
    assert [e.failure for e in search.exchanges()] == [FailureKind.TIMEOUT]
    assert search.store.recordings.conclusions(search.record.id)[0].reason
