"""Rendering: how texts for models are made from Jinja files."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def text_environment(package: str) -> Environment:
    """The templates of a package: text, not HTML, so nothing is escaped; a name that is missing is an error."""
    return Environment(
        loader=PackageLoader(package), autoescape=False, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
