# Idea: no sums of taps. The sample comes by one bulk copy and is turned with ldmatrix.trans / stmatrix into rows of positions of 8 channels (16 bytes), unswizzled,
# so that a tap is one row further: the descriptor plus 1. 64 channels are an ordinary product over 288 (1800 clk of tensor cores), the other 32 have taps 1 and 0
# in one tile of rows, then tap 2 (1200 clk): sums vanish but for one shuffle a pair of the 32. The input leaves the L2 first (HINT): it pushes out no results.
# parent: 24
from functools import lru_cache

import torch
import torch.nn.functional as F
from kernelevolve.candidates.space import Choice, TunableSpace
from kernelevolve.languages import cuda

# HINT 1: lines of x are the first to leave the L2. RAW: samples as they came (3 leaves one staging area for results, 2 leaves two).
TUNABLES = TunableSpace({"HINT": Choice(0, 1, default=1), "RAW": Choice(2, 3, default=3)}, seeds=({"HINT": 0}, {"RAW": 2}))
CONFIG = TUNABLES.default
NOTES = ["lengths other than 200, other widths than 96 and other dtypes go to the library"]


def product(n):
    """A wrapper of one wgmma of m64 nN k16: A in registers, B by descriptor with channels contiguous; accumulates if `add`."""
    d = ", ".join(f"%{i}" for i in range(n // 2))
    out = ", ".join(f'"+f"(d[{i}])' for i in range(n // 2))
    a = n // 2
    return f"""__device__ __forceinline__ void product(float (&d)[{a}], const uint32_t* a, uint64_t b, int add) {{
  asm volatile("{{ .reg .pred p; setp.ne.b32 p, %{a + 5}, 0;\\n"
               "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{d}}}, {{%{a}, %{a + 1}, %{a + 2}, %{a + 3}}}, %{a + 4}, p, 1, 1, 0; }}\\n"
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
__device__ __forceinline__ uint4 load4(const uint4* p) { return __ldg(p); }
__device__ __forceinline__ void bar_init(uint32_t b, int n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory"); }
__device__ __forceinline__ void bar_arrive(uint32_t b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
__device__ __forceinline__ void bar_wait(uint32_t b, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b), "r"(parity) : "memory");
  } while (!done);
}
__device__ __forceinline__ void put_zero(uint32_t at) { asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(0) : "memory"); }
// Four matrices of 8 x 8 halves; a lane gives the address of row lane % 8 of matrix lane / 8 and has columns 2 t, 2 t + 1 of row g; turned: of the transpose.
__device__ __forceinline__ void get_turned(uint32_t (&v)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(at) : "memory");
}
__device__ __forceinline__ void put_matrices(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ void put_matrices(uint32_t at, uint32_t a, uint32_t b) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(at), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void put_matrices(uint32_t at, uint32_t a) { asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at), "r"(a) : "memory"); }
__device__ __forceinline__ void bar_expect(uint32_t b, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
__device__ __forceinline__ uint64_t leaves_first() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ void bulk_copy(uint32_t to, const void* from, uint32_t bytes, uint32_t b, uint64_t policy, bool hint) {
  if (hint)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to), "l"(from), "r"(bytes), "r"(b), "l"(policy) : "memory");
  else
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(b) : "memory");
}
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void bulk_store(void* to, uint32_t from, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
template <int N> __device__ __forceinline__ void bulk_store_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
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
"""

KERNEL = r"""
// A sample comes as it lies, 96 rows (channels) of 400 bytes. 400 = 25 * 16 with 25 odd: 8 rows of ldmatrix and stmatrix meet no bank twice, here and in the
// staging area of the result, which is laid out alike. Turned it is 12 groups of 8 channels, each with PLACES rows of 16 bytes (8 channels of a position):
// row 1 + p is position p, rows 0 and 201 stay zero. As a right operand without swizzle: 8 positions are 128 contiguous bytes, the next 8 follow (stride 128),
// the next 8 channels are PLACES * 16 bytes on (an odd multiple of 64: two groups side by side use other banks). Row n of the operand is 16 n bytes from its
// start whatever the start, so that tap `tap` of output position n, which is position n + tap - 1, is the operand that starts `tap` rows in: + 1 a tap.
// Left operands are weights in registers. Group 0 (channels 0..63): out = sum over taps of w[tap] x[tap rows in].
// Group 1 (channels 64..95): of a warp's 16 rows the first 8 (U) are its channels, the last 8 (V) the same channels for the output position to the right:
//   U[n] = w1 x[n] + w2 x[n + 1],  V[n] = w0 x[n],  out[n] = U[n] + V[n - 1]
// (V[-1] would be of x[-1] = 0), hence products of {w1, w0} with the operand 1 row in and of {w2, 0} with the one 2 rows in. A lane has columns 2 t, 2 t + 1
// of both rows: out[2t + 1] needs nothing from elsewhere, out[2t] one value of the lane before.
constexpr int LENGTH = 200, CHANNELS = 96, SLOTS = 2, RAW = RAW_SAMPLES, STAGES = 4 - RAW, PLACES = 204;
constexpr uint32_t SAMPLE = CHANNELS * LENGTH * 2, SLOT = 12 * PLACES * 16;
// Shared memory: turned samples, staging areas of the result, samples as they came, barriers (slot full, slot empty, sample came).
constexpr uint32_t STAGE = SLOTS * SLOT, CAME = STAGE + STAGES * SAMPLE, FULL = CAME + RAW * SAMPLE, EMPTY = FULL + 8 * SLOTS, HERE = EMPTY + 8 * SLOTS;

__device__ __forceinline__ void fetch(const uint16_t* x, int64_t sample, uint32_t base, int raw, uint64_t policy) {
  bar_expect(base + HERE + 8 * raw, SAMPLE);
  bulk_copy(base + CAME + raw * SAMPLE, x + sample * (CHANNELS * LENGTH), SAMPLE, base + HERE + 8 * raw, policy, HINT);
}

__device__ __forceinline__ void produce(const uint16_t* x, int batch, uint32_t base, uint64_t policy) {
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
  if (thread < SLOTS * 24) put_zero(base + (thread / 24) * SLOT + ((thread % 24) >> 1) * (PLACES * 16) + (thread & 1) * (201 * 16));
  int slot = 0, raw = 0;
  uint32_t turn = 1, came = 0;  // the first wait for every slot is for the phase before the first, which passes
  for (int sample = blockIdx.x; sample < batch; sample += gridDim.x) {
    bar_wait(base + HERE + 8 * raw, came);
    bar_wait(base + EMPTY + 8 * slot, turn);
    // A lane reads row `lane` of 32 channels (matrix lane / 8 is 8 of them) and writes row lane % 8 of group lane / 8; warp w has chunks w, w + 4, ... of 25.
    uint32_t from = base + CAME + raw * SAMPLE + lane * (2 * LENGTH) + warp * 16, to = base + slot * SLOT + (lane >> 3) * (PLACES * 16) + (1 + warp * 8 + (lane & 7)) * 16;
#pragma unroll 1
    for (int chunk = warp; chunk < 25; chunk += 4) {
      uint32_t v[3][4];
#pragma unroll
      for (int q = 0; q < 3; q++) get_turned(v[q], from + q * (32 * 2 * LENGTH));
#pragma unroll
      for (int q = 0; q < 3; q++) put_matrices(to + q * (4 * PLACES * 16), v[q][0], v[q][1], v[q][2], v[q][3]);
      from += 4 * 16;
      to += 4 * 8 * 16;
    }
    fence_async();  // the tensor cores read what this thread wrote, the copy engine writes where it read
    bar_arrive(base + FULL + 8 * slot);
    named_sync(3, 128);  // all have read the sample
    const int64_t next = (int64_t)sample + (int64_t)RAW * gridDim.x;
    if (thread == 0 && next < batch) fetch(x, next, base, raw, policy);
    if (++slot == SLOTS) slot = 0, turn ^= 1;
    if (++raw == RAW) raw = 0, came ^= 1;
  }
}

__device__ __forceinline__ uint64_t descriptor(uint32_t at) {  // no swizzle, channels contiguous: next 8 channels PLACES * 16 bytes on, next 8 positions 128
  return (uint64_t)((at & 0x3FFFF) >> 4) | (uint64_t)PLACES << 16 | (uint64_t)(128 >> 4) << 32;
}

template <int GROUP>
__device__ __forceinline__ void consume(const uint32_t* packed, const uint16_t* bias, uint16_t* o, int batch, uint32_t base) {
  constexpr int TAPS = GROUP == 0 ? 3 : 2, OWN = GROUP == 0 ? 16 : 8;  // operands of a sample, channels of a warp
  const int lane = threadIdx.x & 31, warp = (threadIdx.x >> 5) & 3, g = lane >> 2, t = lane & 3, channel = GROUP * 64 + warp * OWN;
  uint32_t w[TAPS][6][4];
#pragma unroll
  for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
    for (int s = 0; s < 6; s++) {
      const uint4 v = load4(reinterpret_cast<const uint4*>(packed) + ((GROUP * 72 + warp * (6 * TAPS)) + tap * 6 + s) * 32 + lane);
      w[tap][s][0] = v.x, w[tap][s][1] = v.y, w[tap][s][2] = v.z, w[tap][s][3] = v.w;
    }
  float shift[2];
  shift[0] = to_float(bias[channel + g]);
  shift[1] = to_float(bias[channel + OWN - 8 + g]);
  int slot = 0, place = 0;
  uint32_t turn = 0;
  for (int sample = blockIdx.x; sample < batch; sample += gridDim.x) {
    const uint32_t full = base + FULL + 8 * slot, stage = base + STAGE + place * SAMPLE + channel * (2 * LENGTH);
    float c[LENGTH / 2];
    bar_wait(full, turn);
    fence_async();
    const uint64_t x = descriptor(base + slot * SLOT) + GROUP;
    fence_products();
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
#pragma unroll
      for (int s = 0; s < 6; s++) product(c, w[tap][s], x + tap + s * (2 * PLACES), tap + s > 0);
    commit_products();
    if (lane == 0) bulk_store_read<STAGES - 1>();  // what this warp sent from this staging area has left it
    __syncwarp();
    wait_products<0>();
    settle(c);
    if (lane == 0) bar_arrive(full + EMPTY - FULL);
    if constexpr (GROUP == 0) {  // two chunks of 8 positions at a time, 16 channels each; a lane's row: channel lane % 16, chunk lane / 16
      const uint32_t to = stage + (lane & 15) * (2 * LENGTH) + (lane >> 4) * 16;
#pragma unroll
      for (int j = 0; j < 24; j += 2)
        put_matrices(to + j * 16, pack2(c[4 * j] + shift[0], c[4 * j + 1] + shift[0]), pack2(c[4 * j + 2] + shift[1], c[4 * j + 3] + shift[1]),
                     pack2(c[4 * j + 4] + shift[0], c[4 * j + 5] + shift[0]), pack2(c[4 * j + 6] + shift[1], c[4 * j + 7] + shift[1]));
      put_matrices(to + 24 * 16, pack2(c[96] + shift[0], c[97] + shift[0]), pack2(c[98] + shift[1], c[99] + shift[1]));
    } else {  // four chunks at a time, 8 channels; a lane's row: channel lane % 8, chunk lane / 8
      const uint32_t to = stage + (lane & 7) * (2 * LENGTH) + (lane >> 3) * 16;
      float last = 0.0f;  // V of the last position of the chunk before, in lanes with t = 3
      uint32_t y[4];
#pragma unroll
      for (int j = 0; j < 25; j++) {
        const float left = __shfl_sync(0xffffffffu, t == 3 ? last : c[4 * j + 3], (lane & 28) | ((lane + 3) & 3));
        last = c[4 * j + 3];
        y[j & 3] = pack2((c[4 * j] + shift[0]) + left, (c[4 * j + 1] + shift[0]) + c[4 * j + 2]);
        if ((j & 3) == 3) put_matrices(to + (j - 3) * 16, y[0], y[1], y[2], y[3]);
      }
      put_matrices(to + 24 * 16, y[0]);
    }
    fence_async();
    __syncwarp();
    if (lane == 0) bulk_store(o + ((int64_t)sample * CHANNELS + channel) * LENGTH, stage, OWN * 2 * LENGTH);  // contiguous here and in the result
    if (++slot == SLOTS) slot = 0, turn ^= 1;
    if (++place == STAGES) place = 0;
  }
  if (lane == 0) bulk_store_read<0>();  // the block may end: shared memory is read, the copies themselves are done by the end of the kernel
}

extern "C" __global__ void __launch_bounds__(384, 1) conv(const uint16_t* x, const uint32_t* packed, const uint16_t* bias, uint16_t* o, int batch) {
  const uint32_t base = (at_shared(dynamic_shared()) + 127) & ~127u;
  const uint64_t policy = leaves_first();
  if (threadIdx.x == 0) {  // the first samples are on their way before all else
    for (int i = 0; i < RAW; i++) bar_init(base + HERE + 8 * i, 1);
    fence_async();
    for (int i = 0; i < RAW; i++)
      if ((int64_t)blockIdx.x + (int64_t)i * gridDim.x < batch) fetch(x, (int64_t)blockIdx.x + (int64_t)i * gridDim.x, base, i, policy);
    for (int i = 0; i < SLOTS; i++) {
      bar_init(base + FULL + 8 * i, 128);
      bar_init(base + EMPTY + 8 * i, 8);
    }
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    fewer_registers<40>();  // 128 * 40 + 256 * 232 = 384 * 168: what the block got at its start, no more (an increase beyond it would never come)
    produce(x, batch, base, policy);
  } else if (threadIdx.x < 256) {
    more_registers<232>();
    consume<0>(packed, bias, o, batch, base);
  } else {
    more_registers<232>();
    consume<1>(packed, bias, o, batch, base);
  }
}
"""
KERNEL = KERNEL.replace("RAW_SAMPLES", str(CONFIG["RAW"])).replace("HINT", str(CONFIG["HINT"]))
SHARED = 128 + 2 * 12 * 204 * 16 + 4 * 38400 + 8 * (4 + CONFIG["RAW"])
SOURCE = PRIMITIVES + product(200) + KERNEL


@lru_cache(maxsize=1)
def kernel():
    return cuda.build(SOURCE).kernel("conv")


kernel()


def fragments(rows):
    """(warp, operand, 16 rows, channels in) -> 32-bit registers: warp, operand, step, lane, register."""
    parts = rows.reshape(4, -1, 2, 8, 6, 2, 4, 2)  # warp, operand, row half, g, step, column half, t, pair
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
            # Registers of 16 x 16 fragments, a lane's four side by side: of channels 0..63 for each tap, then of 64..95 for {tap 1, tap 0} and {tap 2, zeros}.
            w = made.weight.permute(2, 0, 1)  # tap, channel out, channel in
            wide = w[:, :64].reshape(3, 4, 16, 96).transpose(0, 1)
            narrow = torch.stack((w[1, 64:], w[0, 64:], w[2, 64:], torch.zeros_like(w[2, 64:]))).reshape(2, 2, 4, 8, 96).permute(2, 0, 1, 3, 4)
            made.packed = torch.cat([fragments(wide), fragments(narrow)])
        return made

    def forward(self, x):
        if not x.is_contiguous():
            x = x.contiguous()
        batch, channels, length = x.shape
        if length != 200 or channels != 96 or x.dtype is not torch.float16 or x.data_ptr() % 16 or not self.packed.numel():
            return F.conv1d(x, self.weight, self.bias, padding=1)
        out = torch.empty_like(x)
        if out.numel():
            kernel().launch(min(batch, self.sms), 384, (x, self.packed, self.bias, out, batch), shared=SHARED)
        return out
