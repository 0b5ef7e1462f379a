"""Which operators and models a run is searched with, and what is refused before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.doubles import Recorder, ScriptedJudge, search, settings
from engine.written import PRICE, Script, Search, begin
from kernelevolve import cli, ensemble
from kernelevolve.agent.trajectories import Format, trajectories
from kernelevolve.candidates.structure import program_key
from kernelevolve.ensemble import choose, distiller, operators_of
from kernelevolve.errors import InvalidRequest, MissingTarget
from kernelevolve.operators import OPERATORS
from kernelevolve.operators.exchange import AFTER_ALL, Purpose
from kernelevolve.operators.llm import writer
from kernelevolve.operators.llm.model_choice import KEYS, ModelChoice, OpenModel, open_model, parse_model, without_keys
from kernelevolve.operators.llm.prices import Price, known_price, parse_price
from kernelevolve.operators.llm.settings import WritingSettings
from kernelevolve.operators.operator import ProposalContext
from kernelevolve.operators.rerun import Rerun
from kernelevolve.run import Run
from scripted import ScriptedServer, message

OWN = "openai:mine@http://127.0.0.1:1/v1"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (name for names in KEYS.values() for name in names):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("openai:gpt-5", ModelChoice(provider="openai", name="gpt-5")),
        ("anthropic:claude-sonnet-4-5=2.5", ModelChoice(provider="anthropic", name="claude-sonnet-4-5", weight=2.5)),
        (OWN, ModelChoice(provider="openai", name="mine", url="http://127.0.0.1:1/v1")),
        ("openai:org/model:free@https://gate.example/v1=0.5",
         ModelChoice(provider="openai", name="org/model:free", url="https://gate.example/v1", weight=0.5)),
    ],
)  # fmt: skip
def test_a_model_is_named_in_one_word(text: str, expected: ModelChoice) -> None:
    assert parse_model(text) == expected


@pytest.mark.parametrize("text", ["gpt-5", "openai:", "azure:gpt", "openai:x=0", "openai:x=1.2.3", "openai:a b", ""])
def test_what_names_no_model(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"names no model|has no weight"):
        parse_model(text)


def test_prices() -> None:
    assert parse_price("1.25,10") == Price(1.25, 10)
    assert Price(2, 8).dollars(500_000, 1_000) == pytest.approx(1.008)
    assert known_price(parse_model(OWN)) == Price(0, 0)
    assert known_price(parse_model("openai:no-such-model")) is None
    known = known_price(parse_model("openai:gpt-4.1"))
    assert known is not None
    assert 0 < known.input < known.output
    for text in ("1", "1,2,3", "a,b", "-1,2"):
        with pytest.raises(InvalidRequest, match="is no price"):
            parse_price(text)


def test_without_a_key_the_run_says_so_and_goes_on_only_if_that_was_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingTarget, match=r"no key for openai:gpt-5.*OPENAI_API_KEY.*--fallback"):
        choose(None, ["openai:gpt-5"])
    chosen = choose(["llm"], ["openai:gpt-5"], fallback=True)
    assert chosen.writing is None
    assert chosen.operators == tuple(OPERATORS.names())
    assert len(chosen.unavailable) == 1
    mixed = choose(None, ["openai:gpt-5", OWN], fallback=True)
    assert mixed.writing is not None
    assert [model.name for model in mixed.writing.models] == ["mine"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    assert choose(["llm"], ["openai:gpt-5"]).unavailable == ()


def test_a_model_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds a client with connections of its own: the one that was checked is the one that is asked."""
    opened: list[ModelChoice] = []

    def counted(choice: ModelChoice, *, request_seconds: float) -> OpenModel:
        opened.append(choice)
        return open_model(choice, request_seconds=request_seconds)

    for module in (ensemble, writer):
        monkeypatch.setattr(module, "open_model", counted)
    other = OWN.replace("mine", "other")
    chosen = choose(["llm"], [OWN, other])
    searching = settings(3).model_copy(update={"operators": chosen.operators, "writing": chosen.writing})
    operators, _ = operators_of(searching, chosen.opened)
    assert [operator.name for operator in operators] == ["llm:openai:mine", "llm:openai:other"]
    assert opened == [parse_model(OWN), parse_model(other)]
    operators_of(searching)
    assert len(opened) == 4, "a run that is resumed opens its own"


def test_operators_and_models_belong_together() -> None:
    assert choose(None, [OWN]).operators == (*OPERATORS.names(), "llm")
    assert choose(["llm"], [OWN]).operators == ("llm",)
    assert choose(None, []).writing is None
    with pytest.raises(InvalidRequest, match="needs a model"):
        choose(["llm"], [])
    with pytest.raises(InvalidRequest, match="the operator llm is not"):
        choose(["mutate"], [OWN])
    with pytest.raises(InvalidRequest, match="no operator named 'nonsense'"):
        choose(["nonsense"], [])
    with pytest.raises(InvalidRequest, match="belong together"):
        choose(["recorded"], [])


def test_dollars_are_no_limit_for_what_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    with pytest.raises(InvalidRequest, match=r"not known.*--price"):
        choose(None, ["openai:no-such-model"], dollars=5)
    priced = WritingSettings(models=(parse_model("openai:no-such-model"),), price=PRICE)
    assert choose(None, priced, dollars=5).writing == priced


def test_keys_are_blotted_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "very-secret")
    said = without_keys("bad key very-secret, or sk-proj-abcdefghij, for https://x/?key=1")
    assert "secret" not in said
    assert "sk-proj" not in said
    assert said.startswith("bad key [key]")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--model", "gpt-5"], "names no model"),
        (["--operator", "llm"], "needs a model"),
        (["--model", OWN, "--tokens", "many"], "is no number"),
        (["--model", OWN, "--price", "1"], "is no price"),
        (["--model", OWN, "--dollars", "0"], "dollars are no limit"),
        (["--model", OWN, "--conversations", "0"], "asks nobody"),
        (["--model", "openai:gpt-5"], "there is no key"),
        (["--resume", "last", "--model", OWN], "cannot be changed"),
    ],
)
def test_the_command_refuses_with_a_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    problem = [] if "--resume" in words else ["ranking/rmsnorm_residual"]
    assert cli.run(["optimize", *problem, "--target", "cpu", "--out", str(tmp_path / "runs"), *words]) == 2
    said = capsys.readouterr().err
    assert sentence in " ".join(said.split())
    assert said.count("error:") == 1


def test_programs_of_a_recording_are_proposed_in_order(tmp_path: Path) -> None:
    store, record, _ = search(tmp_path, settings(8))
    programs = [store.candidate(record.id, s.node.id) for s in store.nodes(record.id) if s.node.operator != "tune"]
    rerun, tried, seen = Rerun(programs), set[str](), []
    while (found := rerun.propose(_context(frozenset(tried)))) is not None:
        seen.append(found)
        tried.add(program_key(found))
    assert seen == programs


def _context(tried: frozenset[str]) -> ProposalContext:
    from engine.doubles import PROBLEM, ScriptedTarget

    target = ScriptedTarget()
    return ProposalContext(PROBLEM, "cpu", target.facts(), target.ceilings(), tried=tried)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Search:
    with ScriptedServer(Script()) as server:
        found = begin(tmp_path_factory.mktemp("written"), server.url, evaluations=6)
        found.go()
    return found


def test_training_data_has_the_words_that_were_said(written: Search) -> None:
    run = Run(written.store, written.record.id)
    lines = list(trajectories(run, Format.SFT))
    first = next(e for e in written.exchanges() if e.proposal == 0)
    assert json.loads(first.request)["messages"][0]["parts"][0]["content"] == lines[0]["prompt"][0]["content"]
    assert lines[0]["completion"][0]["content"].startswith("Here it is.")


def test_a_conversation_can_be_read(written: Search, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--out", str(written.store.workspace)]
    assert cli.run(["show", written.record.id, "--node", "4", "--conversation", *place]) == 0
    said = capsys.readouterr().out
    assert "analyse, request 1" in said
    assert "write, request 2" in said
    assert "Here it is." in said
    assert cli.run(["show", written.record.id, "--node", "4", "--conversation", "--json", *place]) == 0
    assert len(json.loads(capsys.readouterr().out)["exchanges"]) == 2
    assert cli.run(["show", written.record.id, "--conversation", *place]) == 2


def test_the_summary_says_what_was_spent(written: Search) -> None:
    models = Run(written.store, written.record.id).summary().models
    assert models is not None
    assert models.requests == len(list(written.store.recordings.exchanges(written.record.id)))
    assert models.dollars > 0


def test_a_model_puts_what_was_learnt_into_words_from_the_same_purse(tmp_path: Path) -> None:
    with ScriptedServer([message("Fewer passes over memory won.")]) as server:
        found = begin(tmp_path, server.url, dollars=1.0)
        operators, _ = operators_of(found.chosen)
        write = distiller(operators, found.chosen, found.store, found.record.id)
        assert write is not None
        assert write("the facts") == "Fewer passes over memory won."
    (exchange,) = found.exchanges(Purpose.DISTILL)
    assert exchange.proposal == AFTER_ALL
    assert found.store.recordings.money(found.record.id).requests == 1
    assert found.store.recordings.questions(found.record.id) == 0


def test_a_run_without_models_has_nobody_who_puts_it_into_words(tmp_path: Path) -> None:
    chosen = settings(3)
    store, record, _ = search(tmp_path, chosen, ScriptedJudge(), [Recorder()])
    assert distiller([], chosen, store, record.id) is None
    assert Run(store, record.id).summary().models is None
