"""What language models are told besides the prompt, as Jinja files."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


def rendered(name: str, **values: object) -> str:
    """The text of ``<name>.md.j2``."""
    return _environment().get_template(f"{name}.md.j2").render(**values).strip()


@cache
def _environment() -> Environment:
    """Text, not HTML: nothing is escaped."""
    return Environment(
        loader=PackageLoader("kernelevolve.operators.llm"), autoescape=False, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
