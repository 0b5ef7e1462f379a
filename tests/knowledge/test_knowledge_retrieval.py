"""Questions as writers of kernels put them find the page that answers; what does not apply stays away."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelevolve.errors import InvalidRequest
from kernelevolve.knowledge import Found, KnowledgeBase
from kernelevolve.knowledge.vocabulary import Phase

NVIDIA, AMD, CPU = {"target": "nvidia"}, {"target": "amd"}, {"target": "cpu"}
QUESTIONS: list[tuple[str, dict[str, str], str]] = [
    ("fused softmax over long rows with a mask", {}, "guidance/operators/softmax"),
    ("LayerNorm(x) over huge rows", {}, "guidance/operators/layer_norm"),
    ("rms norm backward dweight column sums", {}, "guidance/operators/rms_norm"),
    ("embedding bag pooled lookup of many tables", {}, "guidance/operators/embedding_bag"),
    ("jagged to padded, offsets", {}, "guidance/operators/jagged"),
    ("Optimized FM interaction, association of bmm", {}, "guidance/operators/fm_interaction"),
    ("causal attention with online softmax tiles", {}, "guidance/operators/attention"),
    ("HSTU silu attention", {}, "guidance/operators/hstu_attention"),
    ("conv1d channels last", {}, "guidance/operators/conv1d"),
    ("transposed convolution, then a mean", {}, "guidance/operators/transposed_and_pooled_convolutions"),
    ("bucketize with few borders or binary search", {}, "guidance/operators/search_and_bucketize"),
    ("quantization of rows to fp8", {}, "guidance/operators/quantisation"),
    ("top-k selection of scores", {}, "guidance/operators/topk_and_sort"),
    ("adam step over many small parameters", {}, "guidance/operators/optimizers"),
    ("split K, few output tiles", {}, "guidance/numerics/split_k"),
    ("vectorise a loop with tanh and exp", CPU, "guidance/numerics/transcendental"),
    ("denormal numbers are slow", CPU, "hardware/cpu/denormals"),
    ("AMX bf16 tiles", CPU, "hardware/cpu/amx"),
    ("page faults of fresh output memory", CPU, "hardware/cpu/memory"),
    ("OpenMP schedule, threads, small work", CPU, "guidance/languages/cpp/threads"),
    ("wgmma descriptor swizzle", NVIDIA, "hardware/nvidia/hopper_wgmma"),
    ("tensor memory accelerator, mbarrier", NVIDIA, "hardware/nvidia/hopper_tma"),
    ("distributed shared memory of a thread block cluster", NVIDIA, "hardware/nvidia/hopper_clusters"),
    ("order of tiles for the L2", NVIDIA, "hardware/nvidia/l2_and_tile_order"),
    ("shared memory bank conflicts", {**NVIDIA, "language": "cuda"}, "guidance/languages/cuda/memory_access"),
    ("the interpreter is wrong in bfloat16", {"language": "triton"}, "guidance/languages/triton/pitfalls"),
    ("VGPR occupancy of a wavefront", AMD, "hardware/amd/wavefront"),
    ("layout of fragments", {"language": "cute_dsl"}, "guidance/languages/cute_dsl/layouts"),
    ("many small launches, CUDA graph", {"bottleneck": "launch"}, "guidance/bottlenecks/launch"),
    ("wrong output, different from call to call", {}, "constraints/verdicts"),
    ("how much error is allowed, TF32", {}, "constraints/precision_and_tolerance"),
    ("declare block sizes as tunables", {}, "constraints/tunables"),
    ("repacked weights, from_reference", {}, "constraints/weights"),
]  # fmt: skip


@pytest.fixture(scope="module")
def base() -> KnowledgeBase:
    from kernelevolve.knowledge.base import shipped_pages

    return KnowledgeBase(shipped_pages())


@pytest.mark.parametrize(("text", "asked", "page"), QUESTIONS, ids=[question[0] for question in QUESTIONS])
def test_a_question_finds_its_page(base: KnowledgeBase, text: str, asked: dict[str, str], page: str) -> None:
    found = [each.page_id for each in base.retrieve(text, limit=3, **asked)]
    assert page == found[0] or (page in found and page.rpartition("/")[0] != "guidance/operators"), found


def test_an_answer_says_what_and_by_what_source(base: KnowledgeBase) -> None:
    first = base.retrieve("attention", limit=1)[0]
    page = base.page(first.page_id)
    assert isinstance(first, Found)
    assert (first.title, first.text) == ("Attention", page.body)
    assert first.citation.startswith("guidance/operators/attention: [1] Dao et al., FlashAttention, https://arxiv.org/")
    assert first.score > 0 and "attention" in first.snippet.lower()


def test_only_what_applies_is_found(base: KnowledgeBase) -> None:
    asked = {"target": "cpu", "language": "cpp", "bottleneck": "memory"}
    found = base.retrieve("memory bandwidth cache reduction", limit=100, **asked)
    assert len(found) > 5
    for each in found:
        front = base.page(each.page_id).front
        assert {"cpu", "any"} & set(front.targets)
        assert {"cpp", "any"} & set(front.languages)
        assert {"memory", "any"} & set(front.bottlenecks)
    assert {base.page(f.page_id).front.phase for f in base.retrieve("product", phase="expert", limit=99)} == {"expert"}


@pytest.mark.parametrize("nothing", [None, "any", "unknown", "auto", ""])
def test_what_is_not_known_restricts_nothing(base: KnowledgeBase, nothing: str | None) -> None:
    assert base.retrieve("reduction", bottleneck=nothing, target=nothing, language=nothing) == base.retrieve(
        "reduction"
    )


def test_names_of_registries_are_understood(base: KnowledgeBase) -> None:
    for name in ("cute", "cute-dsl", "cute_dsl"):
        assert base.retrieve("layouts", language=name)[0].page_id == "guidance/languages/cute_dsl/layouts"


@pytest.mark.parametrize("asked", [{"target": "tpu"}, {"language": "cobol"}, {"bottleneck": "luck"}, {"phase": "late"}])
def test_an_unknown_word_gets_a_sentence(base: KnowledgeBase, asked: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match=f"no {next(iter(asked))} '{next(iter(asked.values()))}'; choose one of "):
        base.retrieve("softmax", **asked)


def test_basics_come_first_and_experts_late(base: KnowledgeBase) -> None:
    def phases(depth: int | None) -> list[Phase]:
        found = base.retrieve("product on tensor cores, pipeline of tiles", target="nvidia", depth=depth, limit=40)
        return [base.page(each.page_id).front.phase for each in found]

    order = list(Phase)
    for depth in (0, 1):
        assert phases(depth) == sorted(phases(depth), key=order.index)
        assert set(phases(depth)) == {Phase.BASICS, Phase.ADVANCED}
    assert set(phases(2)) == set(phases(3)) == {Phase.BASICS, Phase.ADVANCED}
    assert phases(3) != sorted(phases(3), key=order.index)
    assert set(phases(4)) == set(Phase)
    assert phases(4) == phases(None)


@pytest.mark.parametrize("text", ["", "the of and", "  \n"])
def test_a_question_without_words_gets_all_that_applies(base: KnowledgeBase, text: str) -> None:
    found = base.retrieve(text, target="mtia", language="mtia_cpp", limit=1000)
    assert "hardware/mtia/overview" in [each.page_id for each in found]
    assert [each.score for each in found] == [0] * len(found)
    assert "index" not in [each.page_id for each in found]


@pytest.mark.parametrize(
    "text", ['"', "a AND (b", "NEAR(", "x:y*", "^", "title:softmax", "softmax; DROP TABLE pages", "é ß 漢"]
)
def test_no_text_is_a_syntax_error(base: KnowledgeBase, text: str) -> None:
    base.retrieve(text)
    assert base.retrieve("softmax", limit=1)[0].page_id == "guidance/operators/softmax"


def test_a_whole_diagnosis_can_be_a_question(base: KnowledgeBase) -> None:
    assert base.retrieve("softmax " + " ".join(f"word{n}" for n in range(10_000)))[0].page_id.endswith("softmax")


def test_equal_questions_get_equal_answers_from_any_thread(base: KnowledgeBase) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: base.retrieve("reduction of rows", limit=8), range(16)))
    assert all(answer == answers[0] for answer in answers)
    assert KnowledgeBase(reversed(base.pages())).retrieve("reduction of rows", limit=8) == answers[0]


def test_a_page_that_is_not_there_has_neighbours_named(base: KnowledgeBase) -> None:
    assert base.page("constraints/verdicts.md") == base.page("constraints/verdicts")
    with pytest.raises(InvalidRequest, match="no page 'softmax'; did you mean guidance/operators/softmax"):
        base.page("softmax")
