"""The tools over the Model Context Protocol, asked by the official client over both transports."""

from __future__ import annotations

import asyncio
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
