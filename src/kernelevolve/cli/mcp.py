"""``kernelevolve mcp``: the agent's side over the Model Context Protocol."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelevolve.cli.terminal import DEFAULT_OUT, OutOption, SandboxOption, console
from kernelevolve.errors import InvalidRequest
from kernelevolve.workers.sandbox import Sandbox

LOOPBACK = "127.0.0.1"


def mcp(
    transport: Annotated[str, typer.Option(help="stdio (the client starts this command) or http (on loopback).")] = (
        "stdio"
    ),
    port: Annotated[int, typer.Option(help="Port for http.")] = 8765,
    out: OutOption = DEFAULT_OUT,
    sandbox: SandboxOption = Sandbox.AUTO,
) -> None:
    """Serve start_run, next_prompt, submit_candidate and the rest to coding agents until the client goes away."""
    if transport not in ("stdio", "http"):
        raise InvalidRequest(f"there is no transport {transport!r}", fix="use stdio or http")
    from kernelevolve.agent.server import Tools, make_server
    from kernelevolve.knowledge import KnowledgeBase

    tools = Tools(out, sandbox, KnowledgeBase())
    server = make_server(tools, knowledge=True)
    try:
        if transport == "stdio":
            server.run("stdio")
        else:
            console(stderr=True).print(f"http://{LOOPBACK}:{port}/mcp", soft_wrap=True)
            server.run("streamable-http", host=LOOPBACK, port=port)
    finally:
        tools.close()
