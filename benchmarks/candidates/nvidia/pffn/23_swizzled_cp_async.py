# Idea: the swizzled operand layouts of 20 without tensor maps: producer warps copy whole lines (512 bytes in a row a warp, swizzled by the address
# they write, instead of 64-byte pieces of 8 rows), x and the weights by warps of their own that never wait for each other's buffers, biases by bulk
# copies, and bulk prefetches bring the next weights to L2 so that the 16-byte copies only cross L2.
# parent: 11
import torch
import torch.nn.functional as F
from kernelevolve.candidates.space import Choice, TunableSpace
from kernelevolve.languages import cuda

TUNABLES = TunableSpace({"TURNS": Choice(1, 0, default=1), "AHEAD": Choice(1, 0, 2, default=0)})
CONFIG = TUNABLES.default
NOTES = ["sizes other than d = 256, k = 160 and other dtypes go to torch"]


def wgmma(n, from_registers):
    """A wrapper of one wgmma instruction of m64 n k16, B (and A, if in shared memory) by descriptor; accumulates if `acc`."""
    d = ", ".join(f"%{i}" for i in range(n // 2))
    at = n // 2
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(n // 2))
    if from_registers:
        head = f"template <> __device__ __forceinline__ void wgmma_rs<{n}, 1>(float* d, const uint32_t* a, uint64_t b, int acc) {{"
        a, rest = f"{{%{at}, %{at + 1}, %{at + 2}, %{at + 3}}}", '"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])'
        flags, at = "1, 1, 1", at + 4
    else:
        head = f"template <> __device__ __forceinline__ void wgmma_ss<{n}, 0, 1>(float* d, uint64_t a, uint64_t b, int acc) {{"
        a, rest, flags, at = f"%{at}", '"l"(a)', "1, 1, 0, 1", at + 1
    return (
        f'{head}\n  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{at + 1}, 0;\\n'
        f'wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{d}}}, {a}, %{at}, p, {flags};\\n}}" : {outs} : {rest}, "l"(b), "r"(acc));\n}}\n'
    )


SOURCE = r"""
#ifndef __CUDACC_RTC__
#include <stdint.h>
#endif
#ifndef EMU
#include <cuda_fp16.h>
__device__ __forceinline__ uint32_t pack2(float lo, float hi) {
  __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&h);
}
__device__ __forceinline__ float2 unpack2(uint32_t v) { return __half22float2(*reinterpret_cast<__half2*>(&v)); }
__device__ __forceinline__ char* dynamic_shared() { extern __shared__ uint4 area[]; return reinterpret_cast<char*>(area); }
__device__ __forceinline__ uint32_t at_shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void bar_init(uint64_t* b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at_shared(b)), "r"(n) : "memory"); }
__device__ __forceinline__ void bar_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void bar_arrive(uint64_t* b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at_shared(b)) : "memory"); }
__device__ __forceinline__ void bar_expect(uint64_t* b, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at_shared(b)), "r"(bytes) : "memory"); }
__device__ __forceinline__ void bar_wait(uint64_t* b, uint32_t parity) {
  asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(at_shared(b)), "r"(parity) : "memory");
}
template <int N> __device__ __forceinline__ void regs_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> __device__ __forceinline__ void regs_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
template <int N, int TB> __device__ void wgmma_rs(float* d, const uint32_t* a, uint64_t b, int acc);
template <int N, int TA, int TB> __device__ void wgmma_ss(float* d, uint64_t a, uint64_t b, int acc);
WGMMAS
__device__ __forceinline__ uint32_t hmul2(uint32_t a, uint32_t b) { uint32_t r; asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
__device__ __forceinline__ void named_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ __forceinline__ void named_arrive(int id, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
template <int N> __device__ __forceinline__ void hold(float (&h)[N]) {  // the compiler must not move uses of sums over the asynchronous products
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(h[i])::"memory");
}
// A pointer of which the compiler knows nothing: what it points to is not kept in registers over the loop.
__device__ __forceinline__ const uint16_t* unknown(const uint16_t* p) { asm volatile("" : "+l"(p)); return p; }
__device__ __forceinline__ void bulk(void* to, const void* from, uint32_t bytes, uint64_t* b) {  // plain bytes, no map
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at_shared(to)), "l"(from), "r"(bytes), "r"(at_shared(b)) : "memory");
}
__device__ __forceinline__ void prefetch_l2(const void* from, uint32_t bytes) { asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory"); }
#endif

#define D 256
#define K 160
#ifndef EMU
__device__ __forceinline__ void copy16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at_shared(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_arrive(uint64_t* b) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at_shared(b)) : "memory"); }
__device__ __forceinline__ void copy_drain() { asm volatile("cp.async.wait_all;" ::: "memory"); }
#endif

// Pieces of 16 bytes in the order of memory (whole lines a warp); 8 pieces in a row meet 8 different bank groups in the swizzled layout.
// COLUMNS: pieces a row of the matrix, GROUP: pieces a row of shared memory (8 or 4), STRIDE: bytes from one group of columns to the next.
template <int COLUMNS, int GROUP, int STRIDE>
__device__ __forceinline__ void bring(char* to, const uint16_t* from, int thread, int pieces, int row0) {
#pragma unroll 4
  for (int i = thread; i < pieces; i += 64) {
    const int row = row0 + i / COLUMNS, piece = i % COLUMNS;
    const int turn = GROUP == 8 ? row & 7 : row >> 1 & 3;
    copy16(to + piece / GROUP * STRIDE + row * GROUP * 16 + ((piece % GROUP) ^ turn) * 16, from + (int64_t)i * 8);
  }
}
__device__ __forceinline__ uint32_t word_of(const uint16_t* p) { return *reinterpret_cast<const uint32_t*>(p); }
__device__ __forceinline__ float2 pair_of(const uint16_t* p) { return unpack2(word_of(p)); }

__device__ __forceinline__ float gelu(float x) {  // x * Phi(x) by an odd polynomial on [-4.2, 4.2], absolute error below 3e-5 there: no special functions
  const float c = fminf(fmaxf(x, -4.2f), 4.2f), s = c * c;
  return x * (0.5f + c * (0.398834556f + s * (-0.0662220269f + s * (0.00974090956f + s * (-0.0010864496f + s * (8.98343569e-05f + s * (-5.28940791e-06f + s * (2.07238656e-07f + s * (-4.79538587e-09f + s * (4.92346545e-11f))))))))));
}
// Descriptors of swizzled operands: 16-byte pieces of an address are exchanged by address bits 7 to 9 (128 bytes) or 7 to 8 (64 bytes), as
// the copy engine does; every start below is a multiple of 1024 or lies within the first row of such a block, so the base offset is 0.
// Row-wise x (inner index along the row): `stride` = 8 rows. Column-wise W (rows are the inner index): `lead` = from one group of 64 (32)
// columns to the next, `stride` = from 8 rows to the next 8.
template <int BYTES> __device__ __forceinline__ uint64_t describe(const void* p, uint32_t lead, uint32_t stride) {
  return (uint64_t)(at_shared(p) >> 4 & 0x3fff) | (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | (uint64_t)(BYTES == 128 ? 1 : 2) << 62;
}

__device__ __forceinline__ void transpose_quad(uint32_t (&r)[4], int t) {  // r[s] of lane t becomes r[t] of lane s
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, t & 1 ? r[i] : r[i + 1], 1);
    if (t & 1) r[i] = got; else r[i + 1] = got;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const uint32_t got = __shfl_xor_sync(0xffffffffu, t & 2 ? r[i] : r[i + 2], 2);
    if (t & 2) r[i] = got; else r[i + 2] = got;
  }
}

template <int N> __device__ __forceinline__ void start(float (&h)[N], const uint16_t* bias, int t) {  // a product begins with its bias
  bias = unknown(bias + 2 * t);
#pragma unroll
  for (int j = 0; j < N / 4; j++) {
    const float2 b = pair_of(bias + j * 8);
    h[4 * j] = h[4 * j + 2] = b.x;
    h[4 * j + 1] = h[4 * j + 3] = b.y;
  }
}

template <int N> __device__ __forceinline__ void norms(float& top, float& low, const float (&h)[N], float eps) {
  float p = 0, q = 0, u = 0, v = 0;
#pragma unroll
  for (int j = 0; j < N / 4; j++) {
    p += h[4 * j] * h[4 * j];
    u += h[4 * j + 1] * h[4 * j + 1];
    q += h[4 * j + 2] * h[4 * j + 2];
    v += h[4 * j + 3] * h[4 * j + 3];
  }
  top = p + u;
  low = q + v;
#pragma unroll
  for (int o = 1; o < 4; o *= 2) {
    top += __shfl_xor_sync(0xffffffffu, top, o);
    low += __shfl_xor_sync(0xffffffffu, low, o);
  }
  top = rsqrtf(top * (0.5f / N) + eps);  // N sums a thread are 2 rows of 2 N columns over 4 lanes
  low = rsqrtf(low * (0.5f / N) + eps);
}

__device__ __forceinline__ void inner_norm(uint32_t* a, float (&h)[80], const uint16_t* g1, int t, float eps) {
  float top, low;
#pragma unroll
  for (int i = 0; i < 80; i++) h[i] = gelu(h[i]);
  norms(top, low, h, eps);
  g1 = unknown(g1 + 2 * t);
#pragma unroll
  for (int j = 0; j < 20; j++) {  // an accumulator tile is already laid out as half of an operand
    const uint32_t gain = word_of(g1 + j * 8);
    a[2 * j] = hmul2(pack2(h[4 * j] * top, h[4 * j + 1] * top), gain);
    a[2 * j + 1] = hmul2(pack2(h[4 * j + 2] * low, h[4 * j + 3] * low), gain);
  }
}

__device__ __forceinline__ void outer_norm(const float (&y)[128], const uint16_t* g2, uint16_t* o, int row, int tokens, int t, float eps) {
  float top, low;
  norms(top, low, y, eps);
  g2 = unknown(g2 + 2 * t);
  uint16_t* to = o + (int64_t)row * D + t * 8;
#pragma unroll
  for (int q = 0; q < 8; q++) {
    uint32_t u[4], v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int j = 4 * q + i;
      const uint32_t gain = word_of(g2 + j * 8);
      u[i] = hmul2(pack2(y[4 * j] * top, y[4 * j + 1] * top), gain);
      v[i] = hmul2(pack2(y[4 * j + 2] * low, y[4 * j + 3] * low), gain);
    }
    transpose_quad(u, t);
    transpose_quad(v, t);
    if (row < tokens) *reinterpret_cast<uint4*>(to + q * 32) = make_uint4(u[0], u[1], u[2], u[3]);
    if (row + 8 < tokens) *reinterpret_cast<uint4*>(to + q * 32 + 8 * D) = make_uint4(v[0], v[1], v[2], v[3]);
  }
}

#if TURNS  // the groups take turns at the tensor cores: one computes products while the other computes activations
#define TAKE() named_sync(1 + group, 256)
#define PASS() named_arrive(2 - group, 256)
#else
#define TAKE()
#define PASS()
#endif

extern "C" __global__ void __launch_bounds__(384, 1)
pffn(const uint16_t* x, const uint16_t* w1, const uint16_t* b1, const uint16_t* w2, const uint16_t* b2, const uint16_t* g1,
     const uint16_t* g2, uint16_t* o, int batch, int tokens, float eps) {
  char* raw = dynamic_shared();
  char* first = raw + (1024 - at_shared(raw) % 1024) % 1024;  // W1: 5 groups of 32 columns, each 256 rows of 64 bytes
  char* second = first + D * K * 2;                           // W2: 4 groups of 64 columns, each 160 rows of 128 bytes
  char* tiles = second + D * K * 2;                           // x: two tiles, each 4 groups of 64 columns of 64 rows of 128 bytes
  uint16_t* bias1 = reinterpret_cast<uint16_t*>(tiles + 65536);
  uint16_t *bias2 = bias1 + K, *gain1 = bias2 + D, *gain2 = gain1 + K;
  uint64_t* bars = reinterpret_cast<uint64_t*>(gain2 + D);  // 1664 bytes on, a multiple of 16
  uint64_t *full1 = bars, *full2 = bars + 2, *empty1 = bars + 4, *empty2 = bars + 5, *full_x = bars + 6, *empty_x = bars + 8;
  const int count = (tokens + 63) / 64, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    bar_init(empty1, 8), bar_init(empty2, 8);
    bar_init(full1, 65), bar_init(full1 + 1, 64), bar_init(full2, 65), bar_init(full2 + 1, 64);  // the 65th: biases by a bulk copy
    for (int i = 0; i < 2; i++) bar_init(full_x + i, 64), bar_init(empty_x + i, 4);
    bar_fence();
  }
  if (warp < 7) {
    if (threadIdx.x < K) gain1[threadIdx.x] = g1[threadIdx.x];
    for (int i = threadIdx.x; i < D; i += 224) gain2[i] = g2[i];
  }
  __syncthreads();
  if (threadIdx.x >= 256) {
    regs_down<56>();
    const int thread = threadIdx.x % 64;
    if (warp < 10) {  // two warps for x, two for the weights: neither waits for the other's buffers
      uint32_t uses[2] = {0, 0};
      for (int sample = blockIdx.x; sample < batch; sample += gridDim.x) {
        const uint16_t* xs = x + (int64_t)sample * tokens * D;
#pragma unroll 1
        for (int tile = 0; tile < count; tile++) {
          const int slot = tile & 1, left = tokens - tile * 64;
          bar_wait(empty_x + slot, (slot ? uses[1]++ : uses[0]++) & 1 ^ 1);
          bring<32, 8, 8192>(tiles + slot * 32768, xs + (int64_t)tile * 64 * D, thread, (left < 64 ? left : 64) * 32, 0);
          copy_arrive(full_x + slot);
        }
        const int64_t next = (int64_t)sample + gridDim.x;
        if (AHEAD > 1 && next < batch && thread == 0) prefetch_l2(x + next * tokens * D, tokens * D * 2);
      }
    } else {
      uint32_t n = 0;
      for (int sample = blockIdx.x; sample < batch; sample += gridDim.x, n++) {
        const int64_t next = (int64_t)sample + gridDim.x;
        const bool ahead = AHEAD && next < batch && thread == 0;
        const uint16_t *from1 = w1 + (int64_t)sample * D * K, *from2 = w2 + (int64_t)sample * D * K;
        bar_wait(empty1, n & 1 ^ 1);
        if (thread == 0) {
          bar_expect(full1, K * 2);
          bulk(bias1, b1 + (int64_t)sample * K, K * 2, full1);
        }
        bring<20, 4, 16384>(first, from1, thread, 2560, 0);
        copy_arrive(full1);
        bring<20, 4, 16384>(first, from1 + 20480, thread, 2560, 128);
        copy_arrive(full1 + 1);
        if (ahead) prefetch_l2(w1 + next * D * K, D * K * 2);
        bar_wait(empty2, n & 1 ^ 1);
        if (thread == 0) {
          bar_expect(full2, D * 2);
          bulk(bias2, b2 + (int64_t)sample * D, D * 2, full2);
        }
        bring<32, 8, 20480>(second, from2, thread, 2560, 0);
        copy_arrive(full2);
        bring<32, 8, 20480>(second, from2 + 20480, thread, 2560, 80);
        copy_arrive(full2 + 1);
        if (ahead) prefetch_l2(w2 + next * D * K, D * K * 2);
      }
    }
    copy_drain();
  } else {
    regs_up<224>();
    const int group = threadIdx.x / 128, t = lane % 4;
    const uint64_t dx = describe<128>(tiles + group * 32768, 16, 1024), d1 = describe<64>(first, 16384, 512), d2 = describe<128>(second, 20480, 1024);
    uint32_t n = 0, uses = 0;
    if (TURNS && group == 1) PASS();
    for (int sample = blockIdx.x; sample < batch; sample += gridDim.x, n++) {
      for (int pair = 0; pair < count; pair += 2) {
        const int tile = pair + group, row0 = tile * 64 + warp % 4 * 16;
        const bool last = pair + 2 >= count, mine = tile < count;
        uint32_t a[40];
        {
          float h[80];
          bar_wait(full1, n & 1);
          start(h, bias1, t);
          if (mine) bar_wait(full_x + group, uses++ & 1);
          bar_wait(full1 + 1, n & 1);
          bar_fence();
          TAKE();
          // without a tile of its own (an odd number of tiles) a group multiplies what lies there, for nothing
          hold(h);
          wg_fence();
#pragma unroll
          for (int s = 0; s < 16; s++) wgmma_ss<160, 0, 1>(h, dx + ((s / 4 * 8192 + s % 4 * 32) >> 4), d1 + (s * 1024 >> 4), 1);
          wg_commit();
          PASS();
          wg_wait<0>();
          hold(h);
          if (lane == 0) {
            if (mine) bar_arrive(empty_x + group);
            if (last) bar_arrive(empty1);
          }
          if (row0 < tokens) {
            inner_norm(a, h, gain1, t, eps);
          } else {
#pragma unroll
            for (int i = 0; i < 40; i++) a[i] = 0;
          }
        }
        float y[128];
        bar_wait(full2, n & 1);
        start(y, bias2, t);
        bar_wait(full2 + 1, n & 1);
        bar_fence();
        TAKE();
        hold(y);
        wg_fence();
#pragma unroll
        for (int s = 0; s < 10; s++) wgmma_rs<256, 1>(y, a + 4 * s, d2 + (s * 2048 >> 4), 1);
        wg_commit();
        PASS();
        wg_wait<0>();
        hold(y);
        if (last && lane == 0) bar_arrive(empty2);
        if (row0 < tokens) outer_norm(y, gain2, o + (int64_t)sample * tokens * D, row0 + lane / 4, tokens, t, eps);
      }
    }
  }
}
"""
SOURCE = SOURCE.replace("WGMMAS", wgmma(160, False) + wgmma(256, True))
for name in ("TURNS", "AHEAD"):  # AHEAD: what of the next sample is fetched to L2 early (0: nothing, 1: weights, 2: weights and x)
    SOURCE = SOURCE.replace(name, str(CONFIG[name]))
SHARED = 1024 + 2 * 256 * 160 * 2 + 65536 + 2 * (160 + 256) * 2 + 96
KERNEL = cuda.build(SOURCE).kernel("pffn")


class ModelNew(torch.nn.Module):
    def __init__(self, d, k, eps=1e-6):
        super().__init__()
        self.inner_gain = torch.nn.Parameter(torch.empty(k))
        self.outer_gain = torch.nn.Parameter(torch.empty(d))
        self.d, self.k, self.eps = d, k, eps
        on_gpu = torch.cuda.is_available()
        self.sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count if on_gpu else 1

    def forward(self, x, w1, b1, w2, b2):
        address = x.data_ptr() | w1.data_ptr() | w2.data_ptr() | b1.data_ptr() | b2.data_ptr()
        plain = x.is_contiguous() and w1.is_contiguous() and w2.is_contiguous() and b1.is_contiguous() and b2.is_contiguous()
        if not plain or address % 16 or self.d != 256 or self.k != 160 or x.dtype is not torch.float16:
            h = F.rms_norm(F.gelu(torch.bmm(x, w1) + b1), (self.k,), self.inner_gain, self.eps)
            return F.rms_norm(torch.bmm(h, w2) + b2, (self.d,), self.outer_gain, self.eps)
        out = torch.empty_like(x)
        if out.numel():
            batch, tokens, _ = x.shape
            blocks = min(batch, self.sms)
            arguments = (x, w1, b1, w2, b2, self.inner_gain, self.outer_gain, out, batch, tokens, self.eps)
            KERNEL.launch(blocks, 384, arguments, shared=SHARED)
        return out
