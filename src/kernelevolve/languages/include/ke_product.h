// Matrix products in registers: a block of rows times a packed panel of columns, the inner part of a blocked product.
//
// The caller walks over blocks and packs panels; what is here keeps Rows x Vectors accumulators in registers and does
// one vector load a column vector and one broadcast a row for Rows * Vectors multiply-adds (Goto and van de Geijn,
// "Anatomy of High-Performance Matrix Multiplication", 2008). Vectors are GCC vector types, so that one source serves
// AVX-512, AVX2, SSE and NEON.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ke_math.h"

#if defined(__AVX512F__)
#define KE_VECTOR_BYTES 64
#elif defined(__AVX__)
#define KE_VECTOR_BYTES 32
#else
#define KE_VECTOR_BYTES 16
#endif

namespace ke {

template <typename T>
struct Vector;
template <>
struct Vector<float> {
  typedef float type __attribute__((vector_size(KE_VECTOR_BYTES), aligned(4), may_alias));
  typedef int32_t mask __attribute__((vector_size(KE_VECTOR_BYTES)));
};
template <>
struct Vector<double> {
  typedef double type __attribute__((vector_size(KE_VECTOR_BYTES), aligned(8), may_alias));
  typedef int64_t mask __attribute__((vector_size(KE_VECTOR_BYTES)));
};

// Elements in a vector.
template <typename T>
inline constexpr int kLanes = KE_VECTOR_BYTES / sizeof(T);

// Memory of this thread for a tile, at least `count` elements on a cache line; kept until the thread ends.
template <int Slot, typename T>
inline T* scratch(int64_t count) {
  struct Memory {
    void* data = nullptr;
    size_t size = 0;
    ~Memory() { std::free(data); }
  };
  static thread_local Memory memory;
  const size_t bytes = (count * sizeof(T) + 127) / 64 * 64;
  if (bytes > memory.size) {
    std::free(memory.data);
    memory.data = std::aligned_alloc(64, bytes);
    memory.size = bytes;
  }
  return static_cast<T*>(memory.data);
}

// c[r, :] (+)= a[r, 0 .. depth) x panel for `Rows` rows and the first `Vectors` vectors of a panel of `Panel` vectors.
// The sum of this depth is made by itself and added to c at the end: partial sums keep digits that one long sum loses.
template <int Rows, int Vectors, int Panel, typename T>
KE_INLINE void multiply_block(int64_t depth, const T* __restrict a, int64_t a_stride, const T* __restrict panel,
                              T* __restrict c, int64_t c_stride, bool accumulate) {
  using V = typename Vector<T>::type;
  constexpr int kWidth = kLanes<T>;
  V sum[Rows][Vectors];
#pragma GCC unroll 32
  for (int r = 0; r < Rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; v++) sum[r][v] = V{};
  }
  for (int64_t k = 0; k < depth; k++) {
    V column[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; v++) {
      column[v] = *reinterpret_cast<const V*>(panel + (k * Panel + v) * kWidth);
    }
#pragma GCC unroll 32
    for (int r = 0; r < Rows; r++) {
      const T factor = a[r * a_stride + k];
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; v++) sum[r][v] += factor * column[v];
    }
  }
#pragma GCC unroll 32
  for (int r = 0; r < Rows; r++) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; v++) {
      V* place = reinterpret_cast<V*>(c + r * c_stride + v * kWidth);
      *place = accumulate ? *place + sum[r][v] : sum[r][v];
    }
  }
}

// The rows left over when blocks of `Rows` are done: fewer than Rows.
template <int Rows, int Vectors, int Panel, typename T>
KE_INLINE void multiply_rest(int64_t rows, int64_t depth, const T* a, int64_t a_stride, const T* panel, T* c,
                             int64_t c_stride, bool accumulate) {
  if constexpr (Rows > 1) {
    if (rows == Rows - 1) {
      multiply_block<Rows - 1, Vectors, Panel>(depth, a, a_stride, panel, c, c_stride, accumulate);
    } else {
      multiply_rest<Rows - 1, Vectors, Panel>(rows, depth, a, a_stride, panel, c, c_stride, accumulate);
    }
  }
}

template <int Rows, int Vectors, int Panel, typename T>
inline __attribute__((noinline)) void multiply_rows(int64_t rows, int64_t depth, const T* a, int64_t a_stride,
                                                    const T* panel, T* c, int64_t c_stride, bool accumulate) {
  int64_t r = 0;
  for (; r + Rows <= rows; r += Rows) {
    multiply_block<Rows, Vectors, Panel>(depth, a + r * a_stride, a_stride, panel, c + r * c_stride, c_stride,
                                         accumulate);
  }
  multiply_rest<Rows, Vectors, Panel>(rows - r, depth, a + r * a_stride, a_stride, panel, c + r * c_stride, c_stride,
                                      accumulate);
}

// c[0 .. rows, 0 .. count) (+)= a[0 .. rows, 0 .. depth) x panel, in blocks of `Rows` rows, for count columns rounded up
// to whole vectors; panel is depth x (Vectors * lanes), row after row.
template <int Rows, int Vectors, typename T, int Panel = Vectors>
KE_INLINE void multiply(int64_t rows, int64_t depth, int64_t count, const T* a, int64_t a_stride, const T* panel, T* c,
                        int64_t c_stride, bool accumulate) {
  if constexpr (Vectors > 1) {
    if (count <= (Vectors - 1) * kLanes<T>) {
      multiply<Rows, Vectors - 1, T, Panel>(rows, depth, count, a, a_stride, panel, c, c_stride, accumulate);
      return;
    }
  }
  multiply_rows<Rows, Vectors, Panel>(rows, depth, a, a_stride, panel, c, c_stride, accumulate);
}

namespace detail {

// Lane l of the exchange at distance Step takes lane l of the first vector or lane l - Step of the second (Low), or
// lane l + Step of the first or lane l of the second.
template <int Step, bool Low, typename T, int... L>
KE_INLINE typename Vector<T>::type exchange(typename Vector<T>::type a, typename Vector<T>::type b,
                                            std::integer_sequence<int, L...>) {
  constexpr int kWidth = kLanes<T>;
  constexpr typename Vector<T>::mask choice = {
      (L & Step) == 0 ? (Low ? L : L + Step) : (Low ? kWidth + L - Step : kWidth + L)...};
  return __builtin_shuffle(a, b, choice);
}

template <int Step, typename T>
KE_INLINE void transpose_step(typename Vector<T>::type* rows) {
  constexpr int kWidth = kLanes<T>;
  using Sequence = std::make_integer_sequence<int, kWidth>;
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; i++) {
    if ((i & Step) == 0) {
      const auto low = exchange<Step, true, T>(rows[i], rows[i + Step], Sequence{});
      const auto high = exchange<Step, false, T>(rows[i], rows[i + Step], Sequence{});
      rows[i] = low;
      rows[i + Step] = high;
    }
  }
}

// A square of lanes x lanes elements turned in registers: in log2(lanes) steps of pairwise exchanges.
template <typename T>
KE_INLINE void transpose_square(const T* source, int64_t source_stride, T* target, int64_t target_stride) {
  using V = typename Vector<T>::type;
  constexpr int kWidth = kLanes<T>;
  V rows[kWidth];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; i++) rows[i] = *reinterpret_cast<const V*>(source + i * source_stride);
  if constexpr (kWidth >= 16) transpose_step<8, T>(rows);
  if constexpr (kWidth >= 8) transpose_step<4, T>(rows);
  if constexpr (kWidth >= 4) transpose_step<2, T>(rows);
  transpose_step<1, T>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kWidth; i++) *reinterpret_cast<V*>(target + i * target_stride) = rows[i];
}

}  // namespace detail

// panel[k, n] = source[n * stride + k] for k < depth and n < count; columns from count to Vectors * lanes become zero.
template <int Vectors, typename T>
inline __attribute__((noinline)) void pack_transposed(int64_t depth, int64_t count, const T* source, int64_t stride,
                                                      T* panel) {
  constexpr int kWidth = kLanes<T>, kPanel = Vectors * kWidth;
  for (int64_t n = 0; n < kPanel; n += kWidth) {
    int64_t k = 0;
    if (n + kWidth <= count) {
      for (; k + kWidth <= depth; k += kWidth) {
        detail::transpose_square<T>(source + n * stride + k, stride, panel + k * kPanel + n, kPanel);
      }
    }
    for (; k < depth; k++) {
      for (int l = 0; l < kWidth; l++) {
        panel[k * kPanel + n + l] = n + l < count ? source[(n + l) * stride + k] : T(0);
      }
    }
  }
}

}  // namespace ke
