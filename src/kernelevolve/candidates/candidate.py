"""Candidate: one program, named by its content."""

from __future__ import annotations

from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field

from kernelevolve.candidates.space import Config
from kernelevolve.hashing import digest_json


class Candidate(BaseModel):
    """One Python source file that defines ``ModelNew``, its language, and one configuration of its tunables.

    ``ModelNew`` has the constructor and ``forward`` of the problem's ``Model``. Weights come by a strict state-dict
    match, or through ``ModelNew.from_reference(skeleton, *init_inputs)`` when they are repacked, where ``skeleton``
    is a bare module that holds the reference's parameters and buffers under their own names and has no ``forward``.
    """

    model_config = ConfigDict(frozen=True)

    source: str
    language: str = Field(description="name of a registered Language, e.g. 'cpp', 'triton', 'cuda'")
    config: Config = Field(default_factory=dict, description="one point of the declared TunableSpace; {} if none")

    @cached_property
    def id(self) -> str:
        """Content hash of source and configuration; the language follows from the source."""
        return digest_json({"source": self.source, "config": self.config})

    @cached_property
    def source_digest(self) -> str:
        """Content hash of the source alone: equal for all configurations of one program."""
        return digest_json({"source": self.source})

    def with_config(self, config: Config) -> Candidate:
        """The same program at another point of its space."""
        return Candidate(source=self.source, language=self.language, config=config)
