"""CUDA C++: compiled here wherever a compiler is, run only where there is a GPU."""

from __future__ import annotations

import pytest
import torch

from kernelevolve.errors import MissingTarget
from kernelevolve.languages import cuda
from kernelevolve.languages.build_cache import BuildError
from kernelevolve.languages.toolchain import cuda_toolkit, nvrtc
from kernelevolve.languages.toolchain.resources import KernelResources, read_ptxas, shared_limit

HERE = cuda.LANGUAGE.availability().ok
compiles = pytest.mark.skipif(not HERE, reason="neither NVRTC nor nvcc is here")
gpu = pytest.mark.skipif(not (HERE and torch.cuda.is_available()), reason="no NVIDIA GPU with a CUDA compiler")

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void __launch_bounds__(256)
axpy(const float* __restrict__ x, __nv_bfloat16* y, float a, int64_t n) {
  __shared__ float staged[256];
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  staged[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) y[i] = __float2bfloat16(a * staged[threadIdx.x]);
}
extern "C" __global__ void reverse(const int* x, int* y, int n) {
  extern __shared__ int staged_all[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) staged_all[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = staged_all[n - 1 - i];
}
"""


@compiles
def test_compiled_without_a_gpu() -> None:
    module = cuda.build(SOURCE, arch="sm_90a")
    assert module.path.read_bytes()[:4] == b"\x7fELF"
    axpy = module.resources["axpy"]
    assert axpy.arch == "sm_90a" and axpy.shared_bytes == 1024 and 8 <= axpy.registers <= 64
    assert axpy.fits and axpy.spill_store_bytes == axpy.spill_load_bytes == 0
    assert module.resources["reverse"].shared_bytes == 0


@compiles
@pytest.mark.parametrize("before", ["", "#include <cuda_fp16.h>\n", "#define INFINITY 3.0f\n"])
def test_names_of_the_c_library_without_an_include(before: str) -> None:
    """A kernel builds whichever compiler is here; one that brings its own definition keeps it."""
    body = "y[0] = -INFINITY; y[1] = NAN; y[2] = float(int64_t(n));"
    source = f'{before}extern "C" __global__ void f(float* y, int n) {{ {body} }}'
    assert set(cuda.build(source, arch="sm_80").resources) == {"f"}


@compiles
def test_flags_and_spills() -> None:
    body = "".join(f"const float a{i} = x[{i} * blockDim.x + threadIdx.x];" for i in range(64))
    body += "__syncthreads();" + "".join(f"x[{63 - i} * blockDim.x + threadIdx.x] = a{i} * a{i};" for i in range(64))
    source = f'extern "C" __global__ void many(float* x) {{ {body} }}'
    free = cuda.build(source, arch="sm_80").resources["many"]
    squeezed = cuda.build(source, arch="sm_80", flags=["-maxrregcount=32"]).resources["many"]
    assert free.registers > squeezed.registers == 32
    assert squeezed.spill_store_bytes > free.spill_store_bytes == 0


@compiles
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            'extern "C" __global__ void f(float* x) {\n  x[0] = undeclared;\n}',
            r"kernel.cu\(2\): error: identifier .undecl",
        ),
        ("__global__ void f(float* x) {}", 'declare one as extern "C" __global__ void name'),
        ('struct S {}; extern "C" __global__ void f(S s) {}', "f: 'S' cannot be passed by value|'S' cannot be passed"),
    ],
)
def test_what_does_not_compile(source: str, words: str) -> None:
    with pytest.raises(BuildError, match=words):
        cuda.build(source, arch="sm_90a")


@compiles
def test_calls_are_checked_before_the_device_is_asked() -> None:
    module = cuda.build(SOURCE, arch="sm_90a")
    with pytest.raises(KeyError, match="no kernel 'axpi', only axpy, reverse"):
        module.kernel("axpi")
    with pytest.raises(TypeError, match="was called with 2 arguments"):
        module.kernel("reverse").launch(1, 32, (None, None))
    with pytest.raises(
        TypeError, match=r"argument 1 'x' \(i32\*\) takes a int32 tensor on cuda, got a int32 tensor on cpu"
    ):
        module.kernel("reverse").launch(1, 32, (torch.zeros(4, dtype=torch.int32), None, 4))
    if not torch.cuda.is_available():
        with pytest.raises(MissingTarget, match="no NVIDIA GPU"):
            module.kernel("reverse").launch(1, 32, (None, None, 4))


@pytest.mark.skipif(nvrtc.library() is None, reason="no NVRTC")
def test_nvrtc_and_its_words() -> None:
    source = "#include <cstdint>\n#include <mma.h>\n" + SOURCE.replace("int64_t", "std::int64_t")
    cubin, log = nvrtc.compile_cubin(source, "sm_80")
    assert cubin[:4] == b"\x7fELF" and read_ptxas(log)["axpy"].arch == "sm_80"
    with pytest.raises(BuildError, match="identifier"):
        nvrtc.compile_cubin('extern "C" __global__ void f() { int x = y; }', "sm_80")


@pytest.mark.skipif(cuda_toolkit.nvcc() is None, reason="no nvcc")
def test_nvcc_is_used_where_nvrtc_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "version", lambda: None)
    cuda._toolchain.cache_clear()
    try:
        assert "release" in cuda.LANGUAGE.availability().version
        assert set(cuda.build("// by nvcc\n" + SOURCE, arch="sm_80").resources) == {"axpy", "reverse"}
    finally:
        cuda._toolchain.cache_clear()


def test_without_any_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "version", lambda: None)
    monkeypatch.setattr(cuda_toolkit, "nvcc", lambda: None)
    cuda._toolchain.cache_clear()
    try:
        state = cuda.LANGUAGE.availability()
        assert not state.ok and "nvidia-cuda-nvrtc" in state.fix
    finally:
        cuda._toolchain.cache_clear()


def test_ptxas_words() -> None:
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90a'
ptxas info    : Function properties for first
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 2 barriers, 1024 bytes smem, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'second' for 'sm_90a'
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""
    assert read_ptxas(log) == {
        "first": KernelResources(
            kernel="first", arch="sm_90a", registers=40, shared_bytes=1024, stack_bytes=16, spill_store_bytes=8,
            spill_load_bytes=12, barriers=2,
        ),
        "second": KernelResources(kernel="second", arch="sm_90a", registers=8),
    }  # fmt: skip
    assert read_ptxas("") == {}


def test_shared_memory_limits() -> None:
    assert shared_limit("sm_90a") == shared_limit("sm_100a") == 232_448
    assert shared_limit("sm_80") == 166_912 and shared_limit("sm_89") == 101_376
    assert shared_limit("sm_7000") == 48 << 10
    assert not KernelResources(kernel="k", arch="sm_90a", registers=8, shared_bytes=327_680).fits


@pytest.mark.nvidia
@gpu
def test_launched_on_the_stream_of_torch() -> None:
    module = cuda.build(SOURCE)
    x, y = torch.randn(100_003, device="cuda"), torch.empty(100_003, device="cuda", dtype=torch.bfloat16)
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        doubled = x * 2
        module.kernel("axpy").launch((100_003 + 255) // 256, 256, (doubled, y, 0.5, 100_003))
    stream.synchronize()
    torch.testing.assert_close(y, x.bfloat16(), rtol=0, atol=0)


@pytest.mark.nvidia
@gpu
def test_captured_in_a_graph_and_from_a_fresh_thread() -> None:
    import threading

    kernel = cuda.build(SOURCE).kernel("reverse")
    x, y = torch.arange(64, device="cuda", dtype=torch.int32), torch.zeros(64, device="cuda", dtype=torch.int32)
    thread = threading.Thread(target=lambda: kernel.launch(1, 32, (x, y, 64), shared=256))
    thread.start()
    thread.join()
    assert y.tolist() == list(range(63, -1, -1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.launch(1, 32, (x, y, 64), shared=256)
    y.zero_()
    graph.replay()
    assert y.tolist() == list(range(63, -1, -1))


@pytest.mark.nvidia
@gpu
def test_much_shared_memory_and_refused_launches() -> None:
    kernel = cuda.build(SOURCE).kernel("reverse")
    n = 20_000  # 80 kB: more than is allowed without asking
    x, y = torch.arange(n, device="cuda", dtype=torch.int32), torch.zeros(n, device="cuda", dtype=torch.int32)
    kernel.launch(1, 1024, (x, y, n), shared=4 * n)
    assert torch.equal(y, x.flip(0))
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        kernel.launch(1, 1025, (x, y, 1))
    with pytest.raises(RuntimeError, match="dynamic shared memory"):
        kernel.launch(1, 32, (x, y, 1), shared=1 << 20)
