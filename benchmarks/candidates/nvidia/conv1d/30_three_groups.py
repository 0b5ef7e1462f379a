# Idea: as 21, but three groups of 32 channels instead of 64 and 32: there the group of 64 has its 1,800 clk of products and then 1,200 of sums in turn,
# longer than a sample's bytes take, while the other waits. Two tiles of rows a group (one row in four is padding: 3,600 clk of tensor cores a
# sample instead of 3,000, of 3,990 for its bytes), equal work, and while one group adds up, two others multiply.
# parent: 21_channels_between_groups
from functools import lru_cache

import torch
import torch.nn.functional as F
from kernelevolve.languages import cuda

NOTES = ["lengths other than 200, other widths than 96 and other dtypes go to the library"]


def product(n):
    """A wrapper of one wgmma of m64 nN k16: A in registers, B by descriptor with positions contiguous; accumulates if `add`."""
    d = ", ".join(f"%{i}" for i in range(n // 2))
    out = ", ".join(f'"+f"(d[{i}])' for i in range(n // 2))
    a = n // 2
    return f"""__device__ __forceinline__ void product(float (&d)[{a}], const uint32_t* a, uint64_t b, int add) {{
  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{a + 5}, 0;\\n"
               "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{d}}}, {{%{a}, %{a + 1}, %{a + 2}, %{a + 3}}}, %{a + 4}, p, 1, 1, 1; }}\\n"
               : {out} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}}
"""


PRIMITIVES = r"""
#include <cuda_fp16.h>
__device__ __forceinline__ uint32_t pack2(float lo, float hi) {
  __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&h);
}
__device__ __forceinline__ float to_float(uint16_t v) { __half_raw r; r.x = v; return __half2float(__half(r)); }
__device__ __forceinline__ char* dynamic_shared() { extern __shared__ uint4 area[]; return reinterpret_cast<char*>(area); }
__device__ __forceinline__ uint32_t at_shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void put_shared(uint32_t at, uint32_t v) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
__device__ __forceinline__ uint4 load4(const uint4* p) { return __ldg(p); }
__device__ __forceinline__ void bar_init(uint32_t b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory"); }
__device__ __forceinline__ void bar_arrive(uint32_t b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
__device__ __forceinline__ void bar_wait(uint32_t b, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b), "r"(parity) : "memory");
  } while (!done);
}
// Counts once this thread's copies so far have landed.
__device__ __forceinline__ void bar_arrive_with_copies(uint32_t b) { asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(b) : "memory"); }
__device__ __forceinline__ void copy16(uint32_t to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory"); }
__device__ __forceinline__ void copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void bulk_store(void* to, uint32_t from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
template <int N> __device__ __forceinline__ void bulk_store_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
__device__ __forceinline__ void bulk_store_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
template <int N> __device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> __device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// Products end at a wait that the compiler does not connect with their registers: nothing may read them before this.
template <int N>
__device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
__device__ __forceinline__ void named_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ __forceinline__ void named_arrive(int id, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
"""

KERNEL = r"""
// A sample is 96 rows of 200 positions: 25 chunks of 8 positions (16 bytes) a row, in four blocks of up to 8 chunks (0..7, 8, 9..16, 17..24) with the
// 128-byte swizzle: place p of channel k of a block is at k * 128 + (p ^ (k % 8)) * 16.
// Rows of the left operand: a warp has rows 16 w .. 16 w + 15 of both tiles of 64, hence two groups of 8 rows of each tile: group `tap` is tap `tap` of
// its 8 channels, the fourth is zeros. So all taps of a
// channel meet in the same lane, which has columns 2 t and 2 t + 1:
//   out[2t] = P0[2t-1] (lane before) + P1[2t] + P2[2t+1],  out[2t+1] = P0[2t] + P1[2t+1] + P2[2t+2] (lane after).
constexpr int LENGTH = 200, CHANNELS = 96, SLOTS = 3;
constexpr uint32_t SAMPLE = CHANNELS * LENGTH * 2, BLOCK = CHANNELS * 128, SLOT = 4 * BLOCK;
constexpr uint32_t FULL = SLOTS * SLOT + 2 * SAMPLE, EMPTY = FULL + 8 * SLOTS;

struct Trail {  // what the last chunk still lacks: the third tap to its right
  float y0, y1, third, first;
};

// The chunk before has all that it needs once `next`, the third tap's first column of this one, is there.
__device__ __forceinline__ void finish(const Trail& trail, float next, uint32_t to, int lane) {
  const float right = __shfl_sync(0xffffffffu, (lane & 3) == 0 ? next : trail.third, (lane & 28) | ((lane + 1) & 3));
  put_shared(to, pack2(trail.y0, trail.y1 + right));
}

// Chunks FROM .. of one group of 8 channels, whose taps are row groups R, R + 1, R + 2 of c.
template <int R, int FROM, int TILES, int N>
__device__ __forceinline__ void strip(const float (&c)[TILES][N], float shift, Trail& trail, uint32_t to, int lane) {
  constexpr int A = R / 2, B = (R + 1) / 2, D = (R + 2) / 2, EVEN = (R & 1) * 2, ODD = 2 - EVEN;
#pragma unroll
  for (int j = 0; j < N / 4; j++) {
    if (FROM + j > 0) finish(trail, c[D][4 * j + EVEN], to + (FROM + j - 1) * 16, lane);
    const float give = (lane & 3) == 3 ? (FROM + j == 0 ? 0.0f : trail.first) : c[A][4 * j + EVEN + 1];
    const float left = __shfl_sync(0xffffffffu, give, (lane & 28) | ((lane + 3) & 3));
    trail.y0 = (c[B][4 * j + ODD] + shift) + c[D][4 * j + EVEN + 1] + left;
    trail.y1 = (c[B][4 * j + ODD + 1] + shift) + c[A][4 * j + EVEN];
    trail.third = c[D][4 * j + EVEN];
    trail.first = c[A][4 * j + EVEN + 1];
  }
  if (FROM + N / 4 == 25) finish(trail, 0.0f, to + 24 * 16, lane);
}

__device__ __forceinline__ void produce(const uint16_t* x, int batch, uint32_t base) {
  const int thread = threadIdx.x;
  int slot = 0;
  uint32_t turn = 1;  // the first wait for every slot is for the phase before the first, which passes
  for (int sample = blockIdx.x; sample < batch; sample += gridDim.x) {
    bar_wait(base + EMPTY + 8 * slot, turn);
    const char* from = reinterpret_cast<const char*>(x) + (int64_t)sample * SAMPLE + thread * 16;
    const uint32_t here = base + slot * SLOT;
    int k = thread / 25, chunk = thread % 25;  // pieces thread, thread + 128, ... of the 2400 of a sample
#pragma unroll 1
    for (int piece = thread; piece < 2400; piece += 128) {
      const int place = chunk >= 9 ? chunk + 7 : chunk;
      copy16(here + (place >> 3) * BLOCK + k * 128 + (((place ^ k) & 7) << 4), from);
      from += 128 * 16;
      k += 5, chunk += 3;
      if (chunk >= 25) chunk -= 25, k++;
    }
    bar_arrive_with_copies(base + FULL + 8 * slot);
    if (++slot == SLOTS) slot = 0, turn ^= 1;
  }
  copies_done();
}

__device__ __forceinline__ uint64_t descriptor(uint32_t at) {  // 128-byte swizzle, positions contiguous: blocks of 64 BLOCK apart, 8 channels 1024
  return (uint64_t)((at & 0x3FFFF) >> 4) | (uint64_t)(BLOCK >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

// One step: products of N positions (chunks FROM ..), then their sums.
template <int FROM, int N>
__device__ __forceinline__ void step(const uint32_t (&w)[2][6][4], uint64_t x, float shift, Trail& trail, uint32_t to, int lane, uint32_t full, uint32_t turn) {
  float c[2][N / 2];
  bar_wait(full, turn);  // at once after the first step: there so that the compiler does not mix the registers of one step with those of the next
  if (FROM == 0) fence_async();
  fence_products();
#pragma unroll
  for (int s = 0; s < 6; s++)
#pragma unroll
    for (int tile = 0; tile < 2; tile++) product(c[tile], w[tile][s], x + s * 128, s > 0);
  commit_products();
  wait_products<0>();
#pragma unroll
  for (int tile = 0; tile < 2; tile++) settle(c[tile]);
  if (FROM + N / 8 == 25 && lane == 0) bar_arrive(full + EMPTY - FULL);
  strip<0, FROM>(c, shift, trail, to, lane);
}

__device__ __forceinline__ void consume(const uint32_t* packed, const uint16_t* bias, uint16_t* o, int batch, uint32_t base) {
  const int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) - 4, g = lane >> 2, t = lane & 3, channel = warp * 8;
  uint32_t w[2][6][4];
#pragma unroll
  for (int tile = 0; tile < 2; tile++)
#pragma unroll
    for (int s = 0; s < 6; s++) {
      const uint4 v = load4(reinterpret_cast<const uint4*>(packed) + ((warp * 2 + tile) * 6 + s) * 32 + lane);
      w[tile][s][0] = v.x, w[tile][s][1] = v.y, w[tile][s][2] = v.z, w[tile][s][3] = v.w;
    }
  const float shift = to_float(bias[channel + g]);
  int slot = 0, n = 0;
  uint32_t turn = 0;
  for (int sample = blockIdx.x; sample < batch; sample += gridDim.x, n++) {
    const uint32_t stage = base + SLOTS * SLOT + (n & 1) * SAMPLE + channel * (2 * LENGTH), to = stage + g * (2 * LENGTH) + 4 * t;
    if (lane == 0) bulk_store_read<1>();  // what this warp sent two samples ago has left the staging area
    __syncwarp();
    const uint64_t x = descriptor(base + slot * SLOT);
    const uint32_t full = base + FULL + 8 * slot;
    Trail trail;
    step<0, 72>(w, x, shift, trail, to, lane, full, turn);
    step<9, 64>(w, x + (2 * BLOCK >> 4), shift, trail, to, lane, full, turn);
    step<17, 64>(w, x + (3 * BLOCK >> 4), shift, trail, to, lane, full, turn);
    if (++slot == SLOTS) slot = 0, turn ^= 1;
    fence_async();
    __syncwarp();
    if (lane == 0) bulk_store(o + ((int64_t)sample * CHANNELS + channel) * LENGTH, stage, 8 * 2 * LENGTH);  // contiguous here and in the result
  }
  if (lane == 0) bulk_store_done();
}

extern "C" __global__ void __launch_bounds__(512, 1) conv(const uint16_t* x, const uint32_t* packed, const uint16_t* bias, uint16_t* o, int batch) {
  const uint32_t base = (at_shared(dynamic_shared()) + 1023) & ~1023u;
  if (threadIdx.x == 0) {
    for (int i = 0; i < SLOTS; i++) {
      bar_init(base + FULL + 8 * i, 128);
      bar_init(base + EMPTY + 8 * i, 12);
    }
    fence_async();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    fewer_registers<40>();  // 128 * 40 + 384 * 152 <= 512 * 128: what the block got at its start, no more (an increase beyond it would never come)
    produce(x, batch, base);
  } else {
    more_registers<152>();
    consume(packed, bias, o, batch, base);
  }
}
"""
SHARED = 1024 + 3 * 49152 + 2 * 38400 + 6 * 8
SOURCE = PRIMITIVES + product(72) + product(64) + KERNEL


@lru_cache(maxsize=1)
def kernel():
    return cuda.build(SOURCE).kernel("conv")


kernel()


def fragments(rows):
    """(warp, row group, 8, channels in) -> 32-bit registers: warp, tile, step, lane, register."""
    parts = rows.reshape(len(rows), 2, 2, 8, 6, 2, 4, 2)  # warp, tile, row half, g, step, column half, t, pair
    return parts.permute(0, 1, 4, 3, 6, 5, 2, 7).contiguous().view(torch.int32).flatten()


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.register_buffer("weight", torch.empty(channels, channels, 3))
        self.register_buffer("bias", torch.empty(channels))
        self.register_buffer("packed", torch.empty(0))
        on_gpu = torch.cuda.is_available()
        self.sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count if on_gpu else 1

    @classmethod
    def from_reference(cls, skeleton, channels):
        made = cls(channels)
        made.weight = skeleton.conv.weight.detach().clone()
        made.bias = skeleton.conv.bias.detach().clone()
        if channels == 96 and made.weight.dtype is torch.float16:
            # Row groups of a warp are the taps of its 8 channels and zeros; registers of 16 x 16 fragments, a lane's four side by side.
            rows = made.weight.permute(2, 0, 1).reshape(3, 12, 8, 96).permute(1, 0, 2, 3)  # warp, tap, channel out, channel in
            made.packed = fragments(torch.cat((rows, torch.zeros_like(rows[:, :1])), 1))
        return made

    def forward(self, x):
        if not x.is_contiguous():
            x = x.contiguous()
        batch, channels, length = x.shape
        if length != 200 or channels != 96 or x.dtype is not torch.float16 or x.data_ptr() % 16 or not self.packed.numel():
            return F.conv1d(x, self.weight, self.bias, padding=1)
        out = torch.empty_like(x)
        if out.numel():
            kernel().launch(min(batch, self.sms), 512, (x, self.packed, self.bias, out, batch), shared=SHARED)
        return out
