"""One event loop for all requests, on a thread of its own: HTTP clients belong to the loop that they were used in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    # A daemon: a provider that never answers cannot keep the interpreter from exiting.
    threading.Thread(target=loop.run_forever, name="kernelevolve-models", daemon=True).start()
    return loop


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do a piece of asynchronous work and return or raise what it does. Any thread but the loop's own may call it."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()
