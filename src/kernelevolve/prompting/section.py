"""Section: a part of a prompt that knows what it can do without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelevolve.errors import InvalidRequest

BYTES_PER_TOKEN = 3.5
"""Of UTF-8, for code and English: an estimate on the careful side, since no tokenizer is known here."""


def estimated_tokens(text: str) -> int:
    """How many tokens a text has, estimated."""
    return -int(-len(text.encode()) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Version:
    """One length of a section."""

    text: str
    """'' if nothing of it is left."""
    left_out: str = ""
    """What the full section has and this has not, in a few words."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a prompt in one or more lengths, the full one first."""

    name: str
    importance: int
    """Sections of little importance are cut first; of equals the one that stands later in the prompt."""
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """Something that was left out."""

    section: str
    what: str


def fit(sections: Sequence[Section], budget: int) -> tuple[list[str], tuple[Cut, ...]]:
    """The sections' texts, cut down until their estimated tokens stay within ``budget``, and what that cost.

    Raises InvalidRequest if even the shortest versions together are too long.
    """
    chosen = [0] * len(sections)
    tokens = [estimated_tokens(section.versions[0].text) for section in sections]
    while sum(tokens) > budget:
        shrinkable = [i for i, section in enumerate(sections) if chosen[i] + 1 < len(section.versions)]
        if not shrinkable:
            raise InvalidRequest(
                f"a prompt of {budget} tokens has no room for what every prompt must say ({sum(tokens)}, estimated)",
                fix=f"allow at least {sum(tokens)}",
            )
        i = min(shrinkable, key=lambda i: (sections[i].importance, -i))
        chosen[i] += 1
        tokens[i] = estimated_tokens(sections[i].versions[chosen[i]].text)
    picked = [(section, section.versions[i]) for section, i in zip(sections, chosen, strict=True)]
    cuts = tuple(Cut(section.name, version.left_out) for section, version in picked if version.left_out)
    return [version.text for _, version in picked if version.text], cuts
