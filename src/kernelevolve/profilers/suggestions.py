"""What an operator can do, derived by rule from the evidence. Each suggestion carries the facts it follows from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kernelevolve.profilers.diagnosis import IN_ORDER, Bottleneck, Evidence, Metric, Place, Suggestion
from kernelevolve.profilers.naming import BUSY, NEAR, Facts, on_gpu

HOT_LOOP = 0.1
"""Share of the instructions on the candidate's own lines from which a loop is worth a word."""
_HOT_CALLS = 0.2
"""Share of the instructions in a library's functions that is worth one."""
_MANY_FAULTS = 64
"""Page faults a call; a page has 4 KiB or more, so that this is fresh memory of a quarter of a MiB at least."""
_LOW_OCCUPANCY = 0.4
_EXCESS = 1.5
"""Times the unavoidable bytes."""
_MOST_RULES = 3
_STALLS = {
    "long_scoreboard": "waits for global memory: load earlier, more bytes a thread, or have more warps",
    "short_scoreboard": "waits for shared memory or special functions: fewer bank conflicts, fewer exp and sqrt",
    "barrier": "waits at barriers: smaller blocks, or fewer synchronisations",
    "math_pipe_throttle": "waits for an arithmetic unit: use tensor cores, or fewer instructions of that kind",
    "mio_throttle": "waits for the shared memory and special function queue: wider shared memory accesses",
    "lg_throttle": "waits for the queue to global memory: fewer and wider accesses",
    "wait": "waits for fixed latencies: more independent instructions a thread",
    "no_instruction": "waits for instructions: a shorter unrolled loop",
    "drain": "waits for stores at its end: wider stores",
}
"""Stall reason -> what it says (Nsight Compute, Kernel Profiling Guide, "Warp Stall Reasons")."""


def suggest(facts: Facts, bottleneck: Bottleneck, evidence: Sequence[Evidence]) -> tuple[Suggestion, ...]:
    """All suggestions; those about the bottleneck first."""
    found = [(bottleneck not in aims, s) for aims, rule in _RULES for s in rule(facts, evidence)]
    return tuple(suggestion for _, suggestion in sorted(found, key=lambda entry: entry[0]))


def _of(evidence: Iterable[Evidence], metric: Metric) -> list[Evidence]:
    return [item for item in evidence if item.metric is metric]


def _near_ceiling(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    for item in _of(evidence, Metric.ROOFLINE_SHARE):
        if item.value >= NEAR and facts.floor_bound in ("memory", "compute"):
            text = f"at most {1 / item.value:.2g}× is left to gain without other work: the ceiling is near"
            yield Suggestion(text=text, evidence=(item,))


def _launches(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    for item in _of(evidence, Metric.KERNEL_LAUNCHES):
        if item.value >= 2:
            yield Suggestion(text=f"{item.value:g} launches a call: fuse them into one", evidence=(item,))
    for item in _of(evidence, Metric.HOST_SHARE):
        if item.value > BUSY:
            yield Suggestion(text="do less in forward: prepare in the constructor, call one function", evidence=(item,))


def _library_operations(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    if on_gpu(evidence):
        return
    shares = [item for item in _of(evidence, Metric.OPERATION_SHARE) if item.detail.startswith("operation")]
    if len(shares) >= 2 and sum(item.value for item in shares) > BUSY:
        names = ", ".join(item.subject for item in shares[:4])
        yield Suggestion(text=f"fuse the operations {names}: each passes over memory on its own", evidence=(*shares,))
    elif shares and shares[0].value > BUSY:
        text = f"{shares[0].subject} takes most of the time and is the library's: replace it, or change its layout"
        yield Suggestion(text=text, evidence=(shares[0],))


def _loops(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    lines = [item for item in _of(evidence, Metric.INSTRUCTION_SHARE) if item.place is not None]
    own = sum(item.value for item in lines)
    ranked = []
    for loop in evidence:
        if loop.metric not in (Metric.LOOP_VECTORISED, Metric.LOOP_NOT_VECTORISED) or loop.place is None:
            continue
        inside = [item for item in lines if _within(item.place, loop.place)]
        share = sum(item.value for item in inside)
        if own and share < HOT_LOOP * own:
            continue
        weight = f" ({100 * share:.0f} % of the instructions)" if own else ""
        if loop.metric is Metric.LOOP_NOT_VECTORISED:
            text = f"the loop at {loop.place}{weight} is not vectorised: {loop.detail}"
        elif loop.detail == IN_ORDER:
            text = f"the loop at {loop.place}{weight} sums element by element: allow omp simd reduction"
        else:
            continue
        ranked.append((-share, Suggestion(text=text, evidence=(loop, *inside))))
    yield from (suggestion for _, suggestion in sorted(ranked, key=lambda entry: entry[0]))


def _within(line: Place | None, loop: Place) -> bool:
    return line is not None and line.file == loop.file and loop.line <= line.line <= (loop.last or loop.line)


def _library_calls(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    functions = [item for item in _of(evidence, Metric.INSTRUCTION_SHARE) if "in libm" in item.detail]
    share = sum(item.value for item in functions)
    if share >= _HOT_CALLS:
        names = ", ".join(item.subject for item in functions)
        text = f"{names} of the C library execute {100 * share:.0f} % of the instructions, one number at a time: "
        yield Suggestion(text=f"{text}take the functions of ke_math.h, which vectorise", evidence=(*functions,))


def _hot_lines(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    lines = [item for item in _of(evidence, Metric.INSTRUCTION_SHARE) if item.place is not None and item.value >= BUSY]
    for item in lines:
        text = f"{item.place} executes {100 * item.value:.0f} % of the instructions: {item.place and item.place.text}"
        yield Suggestion(text=text, evidence=(item,))


def _memory(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    for item in evidence:
        moved = item.metric in (Metric.LAST_LEVEL_MISS_BYTES, Metric.CACHE_LINE_BYTES)
        if moved and facts.bytes and item.value > _EXCESS * facts.bytes:
            where = "the last cache" if item.metric is Metric.LAST_LEVEL_MISS_BYTES else "the first-level cache"
            text = f"{where} fetches {item.value / facts.bytes:.2g}× the unavoidable bytes: read each value once"
            yield Suggestion(text=text, evidence=(item,))
    traffic = _of(evidence, Metric.DRAM_BYTES)
    total = sum(item.value for item in traffic)
    if traffic and facts.bytes and total > _EXCESS * facts.bytes:
        text = f"the kernels move {total / facts.bytes:.2g}× the unavoidable bytes: fuse, or keep more on the chip"
        yield Suggestion(text=text, evidence=(*traffic,))
    for item in _of(evidence, Metric.PAGE_FAULTS):
        if item.value >= _MANY_FAULTS:
            text = f"{item.value:.0f} page faults a call: it takes fresh memory every time; keep a buffer and reuse it"
            yield Suggestion(text=text, evidence=(item,))


def _processors(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    for item in _of(evidence, Metric.PROCESSORS_USED):
        if facts.threads > 1 and item.value < NEAR * facts.threads:
            busy = f"it keeps {item.value:.2g} of {facts.threads} processors busy"
            text = f"{busy}: share the work out more evenly, or ask again when the machine is idle"
            yield Suggestion(text=text, evidence=(item,))


def _occupancy(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    limits = {item.subject: item for item in _of(evidence, Metric.OCCUPANCY_LIMIT)}
    for item in _of(evidence, Metric.ACHIEVED_OCCUPANCY):
        if item.value >= _LOW_OCCUPANCY:
            continue
        limit = limits.get(item.subject)
        why = f"; {limit.detail} allow {limit.value:g} blocks on a multiprocessor" if limit is not None else ""
        text = f"{item.subject} fills {100 * item.value:.0f} % of the warp slots{why}"
        yield Suggestion(text=text, evidence=(item, *([limit] if limit is not None else [])))


def _spills(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    for item in _of(evidence, Metric.SPILL_BYTES):
        if item.value > 0:
            text = f"{item.subject} spills {item.value:.0f} bytes a thread: smaller tiles, or more warps for the same"
            yield Suggestion(text=text, evidence=(item,))


def _stalls(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    seen: set[str] = set()
    for item in _of(evidence, Metric.STALL_SHARE):
        if item.subject not in seen and item.value >= 1 / 3 and item.detail in _STALLS:
            seen.add(item.subject)
            text = f"{item.subject} mostly {_STALLS[item.detail]}"
            yield Suggestion(text=text, evidence=(item,))


def _tool_rules(facts: Facts, evidence: Sequence[Evidence]) -> Iterator[Suggestion]:
    rules = sorted(_of(evidence, Metric.RULE), key=lambda item: -item.value)
    for item in rules[:_MOST_RULES]:
        yield Suggestion(text=f"{item.subject}: {item.detail}", evidence=(item,))


Rule = Callable[[Facts, Sequence[Evidence]], Iterator[Suggestion]]
_MEMORY, _COMPUTE, _LATENCY, _LAUNCH = Bottleneck.MEMORY, Bottleneck.COMPUTE, Bottleneck.LATENCY, Bottleneck.LAUNCH
_RULES: tuple[tuple[frozenset[Bottleneck], Rule], ...] = (
    (frozenset({_MEMORY, _COMPUTE}), _near_ceiling),
    (frozenset({_LAUNCH}), _launches),
    (frozenset({_MEMORY, _LAUNCH}), _library_operations),
    (frozenset({_COMPUTE, _LATENCY}), _library_calls),
    (frozenset({_COMPUTE, _LATENCY}), _loops),
    (frozenset({_MEMORY}), _memory),
    (frozenset({_LATENCY, _COMPUTE}), _spills),
    (frozenset({_LATENCY}), _stalls),
    (frozenset({_LATENCY}), _occupancy),
    (frozenset({_COMPUTE, _LATENCY}), _processors),
    (frozenset({_COMPUTE}), _hot_lines),
    (frozenset({_MEMORY, _COMPUTE, _LATENCY}), _tool_rules),
)
"""Which bottlenecks a rule is about, and the rule."""
