"""Lines of C++ with indentation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Text:
    """A growing list of lines."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth

    def line(self, text: str = "") -> None:
        """Add one line at the present depth; a preprocessor line is indented like any other."""
        self.lines.append("  " * self.depth + text if text else "")

    def extend(self, other: Text) -> None:
        """Add the lines of a text that was begun at its own depth."""
        self.lines.extend(other.lines)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head {`` … ``}``."""
        self.line(f"{head} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def __str__(self) -> str:
        return "\n".join(self.lines)
