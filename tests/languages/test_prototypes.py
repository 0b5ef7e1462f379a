"""Prototypes are read as a C++ compiler would read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelevolve.languages.prototypes import Parameter, read_prototypes

SPELLINGS = {
    "float": "f32", "double": "f64", "bool": "bool", "int": "i32", "unsigned": "u32", "unsigned int": "u32",
    "long": "i64", "long int": "i64", "long long": "i64", "unsigned long long int": "u64", "short": "i16",
    "unsigned short": "u16", "char": "i8", "signed char": "i8", "unsigned char": "u8", "int64_t": "i64",
    "std::int32_t": "i32", "uint8_t": "u8", "size_t": "u64", "std::size_t": "u64", "ptrdiff_t": "i64",
}  # fmt: skip

spellings = st.sampled_from(sorted(SPELLINGS))


@st.composite
def parameters(draw: st.DrawFn) -> tuple[str, Parameter]:
    """The text of a parameter and what it means."""
    spelling, name = draw(spellings), draw(st.sampled_from(["", "x", "long_name", "n2"]))
    stars = draw(st.integers(0, 2))
    const = draw(st.sampled_from(["", "const "]))
    restrict = draw(st.sampled_from(["", " __restrict__", " __restrict"])) if stars else ""
    space = draw(st.sampled_from(["", " ", "\n  "]))
    gap = " " if name and (not stars or restrict) else ""
    return f"{const}{spelling}{space}{'*' * stars}{restrict}{gap}{name}", Parameter(name, SPELLINGS[spelling], stars)


@given(st.lists(parameters(), max_size=5), spellings, st.booleans())
def test_every_spelling(drawn: list[tuple[str, Parameter]], result: str, block: bool) -> None:
    definition = f"{result} f({', '.join(text for text, _ in drawn)}) {{ return 0; }}"
    source = f'extern "C" {{ {definition} }}' if block else f'extern "C" {definition}'
    prototype = read_prototypes(source)["f"]
    assert prototype.parameters == tuple(parameter for _, parameter in drawn)
    assert prototype.result == Parameter("", SPELLINGS[result])


def test_what_is_not_an_entry_point() -> None:
    source = """
    // extern "C" void commented(int x);
    /* extern "C" void commented_too(int x); */
    #define MACRO extern "C" void in_macro(int x)
    const char* text = "extern \\"C\\" void quoted(int x)";
    void mangled(int x) {}
    extern "C" {
      static inline float helper(float x) { struct { int a; } s; return x; }
      void first(const float* x, int64_t n) { if (n) { helper(x[0]); } }
      void second(void);
    }
    void after(int x) { for (;;) {} }
    extern "C" __attribute__((noinline, target("avx2"))) [[gnu::hot]] void third(float x[], int n = 3) {}
    """
    found = read_prototypes(source)
    assert list(found) == ["first", "second", "third"]
    assert found["second"].parameters == ()
    assert found["third"].parameters == (Parameter("x", "f32", 1), Parameter("n", "i32"))


def test_kernels() -> None:
    source = """
    #include <cuda_fp16.h>
    template <int T> __device__ void tile(float* x) {}
    __global__ void mangled(float* x) {}
    extern "C" void host(int n) {}
    extern "C" __global__ void __launch_bounds__(256, 2) a(const __half* __restrict__ x, float s, unsigned n) {}
    extern "C" { __global__ __cluster_dims__(2, 1, 1) void b(long long n) {} }
    """
    found = read_prototypes(source, kernels=True)
    assert list(found) == ["a", "b"]
    assert [p.spelling for p in found["a"].parameters] == ["__half*", "f32", "u32"]
    assert list(read_prototypes(source)) == ["host"]


@pytest.mark.parametrize("bad", ["std::vector<float> x", "float& x", "void (*callback)(int)", "..."])
def test_what_cannot_be_passed_is_named(bad: str) -> None:
    with pytest.raises(ValueError, match=r"^f: the parameter"):
        read_prototypes(f'extern "C" void f(int n, {bad}) {{}}')
