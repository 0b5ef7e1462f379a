"""Instructions: what language models are told besides the prompt, as Jinja files."""

from __future__ import annotations

from functools import cache

from kernelevolve.prompting.rendering import text_environment

_environment = cache(text_environment)


def rendered(name: str, **values: object) -> str:
    """The text of ``templates/<name>.md.j2``."""
    template = _environment("kernelevolve.operators.llm").get_template(f"{name}.md.j2")
    return template.render(**values).strip()
