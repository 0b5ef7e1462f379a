"""The static stage: what can be settled from a candidate's text alone."""

from __future__ import annotations

import ast

from kernelevolve.candidates import Candidate
from kernelevolve.candidates.structure import assigned, defines_model_new, materialise, parse, read_space
from kernelevolve.errors import InvalidCandidate
from kernelevolve.judge.rejection import Rejected
from kernelevolve.judge.verdict import Stage, VerdictKind

NOTES_NAME = "NOTES"


def check_text(candidate: Candidate) -> str:
    """The text to load, with the configuration under test written into it.

    Raises Rejected with ``build_error`` if it is not Python, defines no ``ModelNew``, or its configuration lies
    outside the space that it declares.
    """
    try:
        if not defines_model_new(candidate.source):
            raise InvalidCandidate("the candidate defines no ModelNew", fix="define class ModelNew(torch.nn.Module)")
        if candidate.config and not read_space(candidate.source).allows(candidate.config):
            raise InvalidCandidate(
                f"the configuration {candidate.config} is outside the candidate's TUNABLES",
                fix="use a point of the declared space",
            )
        return materialise(candidate)
    except InvalidCandidate as error:
        raise Rejected(VerdictKind.BUILD_ERROR, Stage.STATIC, error.sentence) from None


def read_notes(source: str) -> tuple[str, ...]:
    """What a candidate says of itself in ``NOTES = ["…"]``; () if there is nothing to read."""
    value = assigned(parse(source), NOTES_NAME)
    if value is None:
        return ()
    try:
        notes = ast.literal_eval(value)
    except ValueError:
        return ()
    return tuple(str(note) for note in notes) if isinstance(notes, (list, tuple)) else ()
