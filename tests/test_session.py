"""What a stored run remembers of how it was begun."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kernelevolve import agent, session
from kernelevolve.cli.optimize import resume_command
from kernelevolve.errors import InvalidRequest
from kernelevolve.run import Run
from kernelevolve.workers.sandbox import Sandbox

PROBLEM = (
    "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.tanh(x) * 2.0\n"
    "def get_inputs():\n    return [torch.randn(64, 64)]\ndef get_init_inputs():\n    return []\n"
)


@dataclass
class Bench:
    """Opens judges that judge nothing, and remembers how they were to shut candidates in."""

    place: Path
    opened: list[Sandbox] = field(default_factory=list)

    def open_judge(self, problem: object, target: object, store: object, sandbox: Sandbox, **_: object) -> Bench:
        self.opened.append(sandbox)
        return self

    def baselines(self) -> dict[str, float | None]:
        return {"eager": 1e-3}

    def close(self) -> None:
        pass

    def begun(self, **chosen: Any) -> Run:
        (self.place / "problem.py").write_text(PROBLEM)
        with agent.start(self.place / "problem.py", target="cpu", out=self.place / "runs", **chosen) as dialogue:
            return dialogue.run

    def resumed(self, run: Run, **chosen: Any) -> None:
        session.resume(run.id, out=run.store.workspace, **chosen)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path)
    monkeypatch.setattr(session, "open_judge", made.open_judge)
    monkeypatch.setattr(session, "refuse_vacuous", lambda problem, device: None)
    monkeypatch.setattr(session, "_search", lambda *_: None)
    return made


@pytest.mark.parametrize("level", ["auto", "strict"])
def test_a_run_is_resumed_in_the_sandbox_that_it_began_in(bench: Bench, level: str) -> None:
    run = bench.begun(sandbox=level)
    bench.resumed(run)
    assert bench.opened == [Sandbox(level)] * 2


def test_another_sandbox_is_taken_if_it_is_named_and_remembered(bench: Bench) -> None:
    run = bench.begun()
    bench.resumed(run, sandbox="strict")
    bench.resumed(run)
    assert bench.opened == [Sandbox.AUTO, Sandbox.STRICT, Sandbox.STRICT]
    with pytest.raises(InvalidRequest, match="there is no sandbox 'loose'"):
        bench.resumed(run, sandbox="loose")


def test_none_is_said_each_time(bench: Bench) -> None:
    run = bench.begun(sandbox="none")
    with pytest.raises(InvalidRequest, match="was begun with --sandbox none, and nothing is run unsandboxed"):
        bench.resumed(run)
    bench.resumed(run, sandbox="none")
    assert bench.opened == [Sandbox.NONE] * 2
    assert resume_command(run).endswith(" --sandbox none")
    bench.resumed(run, sandbox="auto")
    bench.resumed(run)
    assert bench.opened[2:] == [Sandbox.AUTO] * 2
    assert "--sandbox" not in resume_command(run)


def test_candidates_are_told_to_the_sandbox_of_the_run(bench: Bench) -> None:
    program = "class ModelNew: pass"
    for level in ("strict", "none"):
        run = bench.begun(sandbox=level)
        bench.opened.clear()
        with agent.Dialogue(run) as dialogue:
            assert dialogue.ask().prompt.text, "a question runs nothing and needs no sandbox"
            if level == "none":
                with pytest.raises(InvalidRequest, match="--sandbox none again"):
                    dialogue.tell(program)
                assert bench.opened == [] and list(run.nodes()) == []
            else:
                with pytest.raises(AttributeError, match="evaluate"):
                    dialogue.tell(program)
                assert bench.opened == [Sandbox.STRICT]


def test_a_run_of_an_earlier_version_has_the_default(bench: Bench) -> None:
    run = bench.begun()
    settings = {name: value for name, value in run.record.settings.items() if name != "sandbox"}
    run.store.set_settings(run.id, settings)
    bench.resumed(run)
    assert bench.opened == [Sandbox.AUTO] * 2
