"""C++: what is built, how it is called, and what a wrong call says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelevolve.languages import cpp
from kernelevolve.languages.build_cache import BuildError

SOURCE = r"""
#include "ke_math.h"
extern "C" {
void scale(const float* __restrict x, float* __restrict y, float factor, int64_t n) {
  #pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) y[i] = factor * x[i];
}
double sum(const double* x, int n) {
  double total = 0;
  for (int i = 0; i < n; i++) total += x[i];
  return total;
}
int64_t widest(int64_t a, unsigned char b, bool c) { return a + b + c; }
void to_half(const ke::bf16* x, ke::f16* y, int n) {
  for (int i = 0; i < n; i++) y[i] = ke::store_f16(ke::load_bf16(x[i]));
}
void gather(const float** tables, const uint8_t* mask, float* out, int n) {
  for (int i = 0; i < n; i++) out[i] = mask[i] ? tables[i][0] : -1.0f;
}
bool is_null(const void* x) { return x == nullptr; }
}
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> cpp.CppModule:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELEVOLVE_BUILD_DIR", str(tmp_path_factory.mktemp("cpp")))
        return cpp.build(SOURCE)


def test_tensors_numbers_and_results(module: cpp.CppModule) -> None:
    x = torch.randn(1003)
    y = torch.empty_like(x)
    assert module.scale(x, y, 3, 1003) is None
    torch.testing.assert_close(y, 3 * x)
    assert module.sum(x.double(), 1003) == pytest.approx(x.double().sum().item())
    assert module.widest(2**62, 255, True) == 2**62 + 256


def test_sixteen_bit_floats_addresses_and_null(module: cpp.CppModule) -> None:
    x = torch.tensor([1.0, -0.5, 3.25], dtype=torch.bfloat16)
    y = torch.empty(3, dtype=torch.float16)
    module.to_half(x, y, 3)
    assert y.tolist() == [1.0, -0.5, 3.25]
    tables = [torch.full((2,), float(i)) for i in range(3)]
    addresses = torch.tensor([t.data_ptr() for t in tables])
    out = torch.empty(3)
    module.gather(addresses, torch.tensor([True, False, True]), out, 3)
    assert out.tolist() == [0.0, -1.0, 2.0]
    assert module.is_null(None) is True
    assert module.is_null(x) is False


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, x: m.scale(x, x, 1.0), r"scale\(f32\* x, f32\* y, f32 factor, i64 n\) was called with 3 arguments"),
        (
            lambda m, x: m.scale(x.double(), x, 1.0, 4),
            r"argument 1 'x' \(f32\*\) takes a float32 tensor on cpu, got a fl",
        ),
        (lambda m, x: m.scale(4, x, 1.0, x), r"argument 1 'x' \(f32\*\) takes a float32 tensor on cpu, got int 4"),
        (
            lambda m, x: m.scale(x, x, x[0], 4),
            r"argument 3 'factor' \(f32\) takes an int or float, got a float32 tensor",
        ),
        (lambda m, x: m.scale(x, x, 1.0, 4.0), r"argument 4 'n' \(i64\) takes an int, got float 4.0"),
        (lambda m, x: m.sum(x.double(), 2**31), r"argument 2 'n' \(i32\) takes an int from -2147483648 to 2147483647"),
        (lambda m, x: m.widest(1, -1, False), r"argument 2 'b' \(u8\) takes an int from 0 to 255, got int -1"),
        (lambda m, x: m.to_half(x.half(), x.half(), 4), r"argument 1 'x' \(ke::bf16\*\) takes a bfloat16 tensor"),
        (lambda m, x: m.scale(x.to("meta"), x, 1.0, 4), r"takes a float32 tensor on cpu, got a float32 tensor on meta"),
    ],
)
def test_what_does_not_fit_is_named(module: cpp.CppModule, call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(TypeError, match=words):
        call(module, torch.ones(4))


def test_a_function_may_have_any_name() -> None:
    module = cpp.build('extern "C" int path() { return 1; } extern "C" int log() { return 2; }')
    assert (module.path(), module.log()) == (1, 2)


def test_a_function_that_is_not_there(module: cpp.CppModule) -> None:
    with pytest.raises(AttributeError, match=r"no function 'scael', only gather, is_null, .*extern \"C\" void scael"):
        module.scael()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('extern "C" void f() { undeclared = 1; }', r"kernel.cpp:1:23: error: .undeclared. was not declared"),
        ("void f() {}", 'declare one as extern "C" void name'),
        ('extern "C" void f(std::vector<float> x) {}', "f: the parameter 'std::vector<float> x' cannot be passed"),
        ('struct S {}; extern "C" void f(S s) {}', "f: 'S' cannot be passed by value"),
        ('struct S {}; extern "C" S f() {}', "f: 'S' cannot be passed by value"),
    ],
)
def test_what_does_not_compile(source: str, words: str) -> None:
    with pytest.raises(BuildError, match=words):
        cpp.build(source)


@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast"])
def test_flags_that_change_the_whole_process_are_refused(flag: str) -> None:
    with pytest.raises(BuildError, match="flush subnormal numbers"):
        cpp.build(SOURCE, flags=[flag])


def test_equal_programs_become_equal_files() -> None:
    commented = cpp.build("// another text\n" + SOURCE).__file__
    plain = cpp.build(SOURCE).__file__
    optimised = cpp.build(SOURCE, flags=["-O1"]).__file__
    assert commented != plain
    assert commented.read_bytes() == plain.read_bytes() != optimised.read_bytes()


def test_one_openmp_runtime_and_threads_as_torch_has_them() -> None:
    program = (
        "import torch\n"
        "from kernelevolve.languages import cpp\n"
        "m = cpp.build('#include <omp.h>\\nextern \"C\" int threads() { return omp_get_max_threads(); }')\n"
        "torch.set_num_threads(3)\n"
        "from pathlib import Path\n"
        "maps = Path('/proc/self/maps').read_text().split()\n"
        "print(m.threads(), len({p for p in maps if 'libgomp' in p or 'libomp' in p}))\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["3", "1"], "two OpenMP runtimes would fight for the cores"


def test_nothing_is_imported_before_it_is_needed() -> None:
    program = (
        "import sys, kernelevolve.languages.cpp, kernelevolve.languages.cuda, kernelevolve.languages.triton\n"
        "print('torch' in sys.modules, 'triton' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    cpp.compiler.cache_clear()
    try:
        state = cpp.LANGUAGE.availability()
        assert not state.ok and "g++" in state.fix
        with pytest.raises(Exception, match="there is no C\\+\\+ compiler"):
            cpp.build('extern "C" void only_here() {}')
    finally:
        monkeypatch.undo()
        cpp.compiler.cache_clear()
