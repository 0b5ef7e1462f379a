"""ke_math.h: every function vectorises, and its largest error is the one that the header states."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from kernelevolve.languages import cpp
from kernelevolve.languages.build_cache import build_log

Function = Callable[[torch.Tensor], torch.Tensor]

_SQRT_HALF = math.sqrt(0.5)


def _softplus(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) + torch.log1p(torch.exp(-x.abs()))


def _gelu(x: torch.Tensor) -> torch.Tensor:
    tail: torch.Tensor = torch.special.erfc(-x * _SQRT_HALF)
    return 0.5 * x * tail


def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


# Name, function in float64, limit in ulp, smallest x for which it holds, and whether an ulp is that of the result or of
# the larger of the result and x / 8.
FUNCTIONS: list[tuple[str, Function, float, float, bool]] = [
    ("exp", torch.exp, 1.1, -math.inf, False),
    ("expm1", torch.expm1, 1.5, -math.inf, False),
    ("log", torch.log, 1.0, -math.inf, False),
    ("log1p", torch.log1p, 2.0, -math.inf, False),
    ("rsqrt", torch.rsqrt, 1.5, -math.inf, False),
    ("tanh", torch.tanh, 2.5, -math.inf, False),
    ("sigmoid", torch.sigmoid, 2.5, -math.inf, False),
    ("silu", lambda x: x * torch.sigmoid(x), 3.5, -87.0, False),
    ("softplus", _softplus, 2.0, -math.inf, False),
    ("mish", lambda x: x * torch.tanh(_softplus(x)), 4.0, -86.0, False),
    ("erf", torch.erf, 1.1, -math.inf, False),
    ("gelu", _gelu, 3.0, -math.inf, True),
    ("gelu_tanh", _gelu_tanh, 9.0, -math.inf, True),
]
NAMES = [name for name, *_ in FUNCTIONS]
CONVERSIONS = ("load_bf16", "store_bf16", "load_f16", "store_f16")


def _loop(name: str, source: str, target: str) -> str:
    return (
        f"void {name}(const {source}* __restrict x, {target}* __restrict y, int64_t n) {{\n"
        f"#pragma omp simd\nfor (int64_t i = 0; i < n; i++) y[i] = ke::{name}(x[i]);\n}}\n"
    )


SOURCE = '#include "ke_math.h"\nextern "C" {\n' + "".join(
    [
        *(_loop(name, "float", "float") for name in NAMES),
        *(_loop(f"load_{kind}", f"ke::{kind}", "float") for kind in ("bf16", "f16")),
        *(_loop(f"store_{kind}", "float", f"ke::{kind}") for kind in ("bf16", "f16")),
        "}\n",
    ]
)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> cpp.CppModule:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELEVOLVE_BUILD_DIR", str(tmp_path_factory.mktemp("math")))
        flags = ["-fopt-info-vec-optimized"] if "g++" in str(cpp.compiler()) else []
        return cpp.build(SOURCE, flags=flags)


@pytest.fixture(scope="module")
def floats() -> torch.Tensor:
    """Two million floats from all over: every 4093rd bit pattern, and densely where functions bend."""
    everywhere = torch.arange(-(2**31), 2**31, 4093).to(torch.int32).view(torch.float32)
    dense = [torch.linspace(-limit, limit, 200_001) for limit in (1.0, 4.5, 20.0, 110.0)]
    edges = torch.tensor(
        [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0**-126, -(2.0**-126), 2.0**-149, -(2.0**-149), 88.7228,
         88.7229, -87.3365, -87.3366, -103.97, -104.0, 3.4028235e38, -3.4028235e38, 0.99999994, 1.0000001, -0.99999994]
    )  # fmt: skip
    return torch.cat([everywhere, *dense, edges])


def _apply(module: cpp.CppModule, name: str, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=dtype)
    getattr(module, name)(x, y, x.numel())
    return y


def _ulp(x: torch.Tensor) -> torch.Tensor:
    """The distance of float32 numbers near x (float64), that of subnormal numbers below 2^-126."""
    exponent = torch.frexp(x.abs().clamp(2.0**-126, 3.4e38)).exponent - 1
    return torch.ldexp(torch.ones_like(x), exponent - 23)


@pytest.mark.parametrize(("name", "function", "limit", "lowest", "relative_to_x"), FUNCTIONS, ids=NAMES)
def test_error(
    module: cpp.CppModule, floats: torch.Tensor, name: str, function: Function, limit: float, lowest: float,
    relative_to_x: bool,
) -> None:  # fmt: skip
    x = floats[~(floats < lowest)]
    got = _apply(module, name, x, torch.float32)
    exact = function(x.double())
    rounded = exact.float()
    assert torch.equal(got.isnan(), exact.isnan()), "NaN where and only where the exact function has it"
    finite = rounded.isfinite() & got.isfinite()
    # Next to the largest float a result of the stated error may round to infinity, or the other way round.
    border = exact.abs() > 3.40282e38
    assert torch.equal(got[~finite & ~border & ~exact.isnan()], rounded[~finite & ~border & ~exact.isnan()])
    exact, got, x = exact[finite], got[finite].double(), x[finite].double()
    unit = torch.maximum(_ulp(exact), _ulp(x) / 8) if relative_to_x else _ulp(exact)
    error = (got - exact).abs() / unit
    worst = int(error.argmax())
    assert error[worst] <= limit, f"{name}({x[worst].item()!r}): {error[worst].item():.3f} ulp"


@pytest.mark.parametrize("name", ["expm1", "log1p", "tanh", "erf", "silu", "gelu"])
def test_signed_zero(module: cpp.CppModule, name: str) -> None:
    got = _apply(module, name, torch.tensor([0.0, -0.0]), torch.float32)
    assert got.tolist() == [0.0, 0.0]
    assert got.signbit().tolist() == [False, True]


@pytest.mark.parametrize(("kind", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_every_sixteen_bit_float(module: cpp.CppModule, kind: str, dtype: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    loaded = _apply(module, f"load_{kind}", every, torch.float32)
    assert torch.equal(loaded.isnan(), every.isnan())
    known = ~every.isnan()
    assert torch.equal(loaded[known].view(torch.int32), every.float()[known].view(torch.int32))
    stored = _apply(module, f"store_{kind}", every.float(), dtype)
    assert torch.equal(stored[known].view(torch.int16), every[known].view(torch.int16))


@pytest.mark.parametrize(("kind", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_rounding_to_sixteen_bits(module: cpp.CppModule, floats: torch.Tensor, kind: str, dtype: torch.dtype) -> None:
    every = torch.arange(2**15 - 1).to(torch.int16).view(dtype).float()
    halves = (every[1:].double() + every[:-1].double()) / 2  # exact ties
    ties = halves[halves.isfinite()].float()
    around = [torch.nextafter(ties, torch.full_like(ties, limit)) for limit in (math.inf, -math.inf)]
    x = torch.cat([floats, ties, -ties, *around])
    got, expected = _apply(module, f"store_{kind}", x, dtype), x.to(dtype)
    assert torch.equal(got.isnan(), x.isnan())
    assert torch.equal(got[~x.isnan()].view(torch.int16), expected[~x.isnan()].view(torch.int16))


def test_every_loop_is_vectorised(module: cpp.CppModule) -> None:
    if "g++" not in str(cpp.compiler()):
        pytest.skip("only GCC reports it in this form")
    vectorised = {line.split(":")[1] for line in build_log(module.__file__).splitlines() if "loop vectorized" in line}
    loops = {str(n) for n, line in enumerate(SOURCE.splitlines(), 1) if line.startswith("for")}
    assert loops <= vectorised
    assert len(loops) == len(NAMES) + len(CONVERSIONS)
