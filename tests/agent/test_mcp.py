"""The tools over the Model Context Protocol, asked by the official client over both transports."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp", reason="the package mcp is not installed")

PROBLEM = (
    "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.tanh(x) * 2.0\n"
    "def get_inputs():\n    return [torch.randn(64, 64)]\ndef get_init_inputs():\n    return []\n"
)
TOOLS = {
    "start_run", "next_prompt", "submit_candidate", "verify", "profile", "search_knowledge", "run_status", "best", "stop",
}  # fmt: skip


def command(workspace: Path, *words: str) -> list[str]:
    return ["-m", "kernelevolve.cli", "mcp", "--out", str(workspace), *words]


def document(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = json.loads(result.content[0].text)
    return found


async def talk(server: Any, workspace: Path) -> None:
    """What an agent does first, without the minutes that judging takes: a stored run is asked and told again."""
    async with mcp.Client(server) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        status = document(await client.call_tool("run_status", {}))
        assert status["evaluations"] == 1
        asked = document(await client.call_tool("next_prompt", {"parents": [0]}))
        assert asked["parents"] == [0] and "ModelNew" in asked["prompt"]
        source = document(await client.call_tool("best", {}))["source"]
        told = document(await client.call_tool("submit_candidate", {"answer": source}))
        assert told["known"] and told["verdict"] == "correct"
        pages = document(await client.call_tool("search_knowledge", {"question": "vectorise a reduction"}))["pages"]
        assert pages and pages[0]["citation"]
        refused = await client.call_tool("next_prompt", {"run": "nothing-like-it"})
        assert refused.is_error and "there is no run" in refused.content[0].text
        refused = await client.call_tool("submit_candidate", {"answer": "```\nno program\n", "parents": [7]})
        assert refused.is_error and "there is no node 7" in refused.content[0].text


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A run of one node, told by the scripted judge."""
    from told_runs import told_run

    told_run(tmp_path / "runs")
    return tmp_path / "runs"


def test_over_stdio(workspace: Path) -> None:
    server = mcp.StdioServerParameters(command=sys.executable, args=command(workspace), env=dict(os.environ))
    asyncio.run(asyncio.wait_for(talk(server, workspace), 120))


def test_over_http(workspace: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, *command(workspace, "--transport", "http", "--port", str(port))]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        asyncio.run(asyncio.wait_for(talk(f"http://127.0.0.1:{port}/mcp", workspace), 120))
    finally:
        process.terminate()
        process.wait()


def test_a_run_is_started_with_the_options_of_the_terminal(tmp_path: Path) -> None:
    """The schema says each of them and its default; those that cannot be used are refused before anything is timed."""
    from kernelevolve.cli.agent import start

    (tmp_path / "problem.py").write_text(PROBLEM)
    server = mcp.StdioServerParameters(
        command=sys.executable, args=command(tmp_path / "runs", "--sandbox", "strict"), env=dict(os.environ)
    )

    async def ask() -> None:
        async with mcp.Client(server) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            offered = tools["start_run"].input_schema["properties"]
            assert all(option["description"] for option in offered.values())
            options = inspect.signature(start).parameters
            same = {"problem", "target", "evaluations", "minutes", "seed", "policy", "scale", "settings", "sandbox"}
            assert set(offered) == same | {"skills", "injection"} <= set(options) | {"skills"}
            for name in same - {"problem", "sandbox"}:
                assert offered[name]["default"] == options[name].default, name
            assert (offered["skills"]["default"], offered["injection"]["default"]) == (True, 0.75)
            for wrong, sentence in (
                ({"sandbox": "auto"}, "sandbox 'auto' is less than this server's, which is 'strict'"),
                ({"sandbox": "loose"}, "there is no sandbox 'loose'"),
                ({"injection": 2}, "an injection rate of 2 is no share of the nodes"),
                ({"policy": "guess"}, "guess"),
                ({"settings": {"rows": 3}}, "rows"),
                ({"scale": 0.5}, "batch"),
                ({"evaluations": 0}, "0 evaluations are not enough"),
            ):
                given = {"problem": str(tmp_path / "problem.py"), "target": "cpu", **wrong}
                refused = await client.call_tool("start_run", given)
                assert refused.is_error and sentence in refused.content[0].text, (wrong, refused.content)

    asyncio.run(asyncio.wait_for(ask(), 120))
    assert not (tmp_path / "runs" / "judge").exists()


@pytest.mark.parametrize("wished", [None, "strict"])
def test_what_a_client_chooses_reaches_the_run(
    wished: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, so that no judge need be opened."""
    from told_runs import StandIn

    from kernelevolve import session
    from kernelevolve.agent.server import Tools, make_server
    from kernelevolve.workers.sandbox import Sandbox
    from kernelevolve.workspace import open_run

    opened: list[Sandbox] = []

    def open_judge(problem: object, target: object, store: object, sandbox: Sandbox, **_: object) -> StandIn:
        opened.append(sandbox)
        return StandIn()

    monkeypatch.setattr(session, "open_judge", open_judge)
    monkeypatch.setattr(session, "refuse_vacuous", lambda problem, device: None)
    (tmp_path / "problem.py").write_text("ROWS = 64\n" + PROBLEM.replace("randn(64,", "randn(ROWS,"))
    given = {
        "problem": str(tmp_path / "problem.py"), "target": "cpu", "evaluations": 7, "minutes": 3, "seed": 5,
        "policy": "beam", "settings": {"ROWS": 16}, "skills": False, "sandbox": wished,
    }  # fmt: skip

    async def begin() -> None:
        async with mcp.Client(make_server(Tools(tmp_path, Sandbox.AUTO, None), knowledge=False)) as client:
            document(await client.call_tool("start_run", given))

    asyncio.run(begin())
    record = open_run("last", out=tmp_path).record
    assert record.problem.overrides == {"ROWS": 16}
    chosen = record.settings
    assert (chosen["seed"], chosen["policy"], chosen["injection"]) == (5, "beam", 0.0)
    assert chosen["budget"]["evaluations"] == 7 and chosen["budget"]["seconds"] == 180
    assert opened == [Sandbox(wished or "auto")] and chosen["sandbox"] == opened[0]


@pytest.mark.slow
def test_a_whole_run(tmp_path: Path) -> None:
    """Start, ask, submit, stop: judged for real."""
    (tmp_path / "problem.py").write_text(PROBLEM)
    answer = (
        "```python\nimport torch\nfrom kernelevolve.languages import cpp\nM = cpp.build(r'''\n#include \"ke_math.h\"\n"
        'extern "C" void run(const float* __restrict x, float* __restrict y, int64_t n) {\n'
        "  #pragma omp simd\n  for (int64_t i = 0; i < n; i++) y[i] = 2.0f * ke::tanh(x[i]);\n}\n''')\n"
        "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        x = x.contiguous()\n"
        "        y = torch.empty_like(x)\n        M.run(x, y, x.numel())\n        return y\n```\n"
    )
    server = mcp.StdioServerParameters(command=sys.executable, args=command(tmp_path / "runs"), env=dict(os.environ))

    async def whole() -> None:
        async with mcp.Client(server) as client:
            started = document(await client.call_tool("start_run", {
                "problem": str(tmp_path / "problem.py"), "target": "cpu", "evaluations": 3, "minutes": 5,
            }))  # fmt: skip
            assert document(await client.call_tool("next_prompt", {}))["parents"] == []
            told = document(await client.call_tool("submit_candidate", {"answer": answer}))
            assert (told["verdict"], told["node"], told["run"]) == ("correct", 0, started["run"])
            ended = document(await client.call_tool("stop", {}))
            assert ended["status"] == "finished" and ended["best"]["promoted"]

    asyncio.run(whole())
    assert list((tmp_path / "runs").glob("*/best/kernel.py"))
