"""Ensemble: from the names that a run was given to the operators that it asks, language models among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kernelevolve.errors import InvalidRequest, MissingTarget
from kernelevolve.operators import OPERATORS, Operator
from kernelevolve.operators.llm.model_choice import ModelChoice, OpenModel, open_model, parse_model
from kernelevolve.operators.llm.prices import known_price
from kernelevolve.operators.llm.recorded import Recorded
from kernelevolve.operators.llm.settings import WritingSettings
from kernelevolve.operators.purse import Purse
from kernelevolve.operators.rerun import Rerun
from kernelevolve.prompting import Retriever
from kernelevolve.search.finale import TUNE
from kernelevolve.search.settings import SearchSettings
from kernelevolve.search.workshops import RunLog
from kernelevolve.store import RunRecord, Store
from kernelevolve.workspace import open_run

LLM = "llm"
"""In a list of operators: every model of the run."""
RECORDED = "recorded"
"""In a list of operators: the programs of another run."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Operators and models of a new run, checked."""

    operators: tuple[str, ...]
    writing: WritingSettings | None
    unavailable: tuple[str, ...] = ()
    """Why models that were named are not asked, a sentence each."""
    opened: Mapping[ModelChoice, OpenModel] = field(default_factory=dict)
    """The models, ready to be asked: ``operators_of`` need not open them, and their connections, once more."""


def choose(
    operators: Sequence[str] | None,
    models: Sequence[str] | WritingSettings,
    *,
    dollars: float | None = None,
    fallback: bool = False,
    recording: str | None = None,
) -> Chosen:
    """Check what a run is to be searched with.

    Without ``operators`` these are the built-in ones, and the models if any are named. ``fallback`` allows to go on
    without models that cannot be used here; without it, one is an error. Raises InvalidRequest, MissingTarget.
    """
    writing = models if isinstance(models, WritingSettings) else _as_settings(models)
    named = (
        (RECORDED,) if recording is not None and writing is None else (*OPERATORS.names(), *((LLM,) if writing else ()))
    )
    names = tuple(operators or named)
    for name in names:
        if name not in (LLM, RECORDED):
            OPERATORS.get(name)
    if (RECORDED in names) != (recording is not None):
        raise InvalidRequest(
            "the operator recorded and a recording belong together",
            fix="give both: --operator recorded --recording RUN",
        )
    if LLM in names and writing is None:
        raise InvalidRequest("the operator llm needs a model", fix="name one, such as --model openai:gpt-5")
    if writing is not None and LLM not in names:
        raise InvalidRequest("a model is named, but the operator llm is not", fix="add --operator llm, or leave it out")
    if writing is None:
        return Chosen(names, None)
    opened, unavailable = _opened(writing, dollars, fallback)
    if opened:
        usable = tuple(choice for choice in writing.models if choice in opened)
        return Chosen(names, writing.model_copy(update={"models": usable}), unavailable, opened)
    rest = tuple(name for name in names if name != LLM)
    return Chosen(rest or tuple(OPERATORS.names()), None, unavailable)


def _as_settings(models: Sequence[str]) -> WritingSettings | None:
    return WritingSettings(models=tuple(map(parse_model, models))) if models else None


def _opened(
    writing: WritingSettings, dollars: float | None, fallback: bool
) -> tuple[dict[ModelChoice, OpenModel], tuple[str, ...]]:
    """The models that can be asked here, and why the others cannot."""
    opened: dict[ModelChoice, OpenModel] = {}
    unavailable: list[str] = []
    for choice in writing.models:
        try:
            model = open_model(choice, request_seconds=writing.request_seconds)
        except MissingTarget as error:
            if not fallback:
                raise
            unavailable.append(error.sentence)
        else:
            _check_price(choice, writing, dollars)
            opened[choice] = model
    return opened, tuple(unavailable)


def _check_price(choice: ModelChoice, writing: WritingSettings, dollars: float | None) -> None:
    if dollars is not None and (writing.price or known_price(choice)) is None:
        raise InvalidRequest(
            f"what {choice.label} costs is not known, so {dollars:g} dollars are no limit",
            fix="give its price with --price INPUT,OUTPUT (dollars per million tokens), or limit --tokens",
        )


def operators_of(
    settings: SearchSettings, opened: Mapping[ModelChoice, OpenModel] = MappingProxyType({})
) -> tuple[list[Operator], Retriever | None]:
    """The operators of a run, and who finds pages for the writers among them.

    Models that are not among the ``opened`` ones, such as those of a run that is resumed, are opened here. Raises
    MissingTarget if one cannot be used.
    """
    operators = _free(settings)
    if settings.writing is None:
        return operators, None
    try:
        from kernelevolve.operators.llm.writer import LanguageModel
    except ImportError as error:
        raise MissingTarget(
            f"this run asks language models, and {error.name} is not installed", fix="pip install 'kernelevolve[llm]'"
        ) from None
    from kernelevolve.knowledge import KnowledgeBase

    knowledge = KnowledgeBase()
    writers: list[Operator] = [
        LanguageModel(choice, settings.writing, knowledge, opened.get(choice)) for choice in settings.writing.models
    ]
    return operators + writers, knowledge


def distiller(
    operators: Sequence[Operator], settings: SearchSettings, store: Store, run: str
) -> Callable[[str], str] | None:
    """Who puts into words what a run has learnt: its first model that still answers, from the same purse."""
    if settings.writing is None:
        return None
    from kernelevolve.operators.llm.writer import LanguageModel

    model = next((o for o in operators if isinstance(o, LanguageModel) and not o.exhausted()), None)
    if model is None:
        return None
    purse = Purse(settings.budget.tokens, settings.budget.dollars, store.recordings.money(run))
    return lambda facts: model.distil(facts, purse, RunLog(store, run))


def _free(settings: SearchSettings) -> list[Operator]:
    """The operators that cost nothing."""
    found = [OPERATORS.get(name) for name in settings.operators if name not in (LLM, RECORDED)]
    if settings.recording is not None:
        run = open_run(settings.recording)
        programs = [run.candidate(node.id) for node in run.nodes() if node.operator != TUNE]
        found.append(Rerun(programs))
    return found


def recorded_operators(settings: SearchSettings, store: Store, record: RunRecord) -> list[Operator]:
    """The operators of a run, with its recording in the place of its models."""
    operators = _free(settings)
    if settings.writing is None:
        return operators
    known = store.recordings.conclusions(record.id)
    for choice in settings.writing.models:
        operators.append(Recorded(choice.operator, choice.weight, known))
    return operators
