// What loop nests are made of beyond arithmetic: primitives with torch's conventions, searches, prefetches. All inline;
// loops over them vectorise.

#pragma once

#include <cstdint>
#include <type_traits>

#include "ke_math.h"
#include "ke_std.h"

// Stands in a loop whose body is a loop over lanes. GCC would unroll the lanes and vectorise this loop instead, with
// gathers; it leaves a loop alone that holds an asm statement, and the empty one costs nothing.
#define KE_LANES_BELOW asm volatile("")

namespace ke {

// ---------------------------------------------------------------------------------------------------------------------
// Primitives with torch's conventions
// ---------------------------------------------------------------------------------------------------------------------

// The larger of two; a NaN on either side stays one.
template <typename T>
KE_INLINE T maximum(T a, T b) {
  return (a > b || a != a) ? a : b;
}

// The smaller of two; a NaN on either side stays one.
template <typename T>
KE_INLINE T minimum(T a, T b) {
  return (a < b || a != a) ? a : b;
}

// -1, 0 or 1; NaN gives 0, as in torch.sign.
template <typename T>
KE_INLINE T sign(T x) {
  return static_cast<T>((x > T(0)) - (x < T(0)));
}

// floor(a / b). Integers divide by zero to 0 instead of trapping.
template <typename T>
KE_INLINE T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    const T q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
  } else {
    if (b == T(0)) return a / b;
    const T rest = ke::lib::fmod(a, b);
    T q = (a - rest) / b;
    if (rest != T(0) && (b < T(0)) != (rest < T(0))) q -= T(1);
    if (q == T(0)) return ke::lib::copysign(T(0), a / b);
    const T whole = ke::lib::floor(q);
    return q - whole > T(0.5) ? whole + T(1) : whole;
  }
}

// a / b rounded towards zero. Integers divide by zero to 0 instead of trapping.
template <typename T>
KE_INLINE T trunc_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b == 0 ? T(0) : T(a / b);
  } else {
    return ke::lib::trunc(a / b);
  }
}

// a - floor(a / b) * b: the sign of the divisor.
template <typename T>
KE_INLINE T remainder(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (b == 0) return 0;
    const T r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? T(r + b) : r;
  } else {
    const T r = ke::lib::fmod(a, b);
    return (r != T(0) && (b < T(0)) != (r < T(0))) ? r + b : r;
  }
}

// a - trunc(a / b) * b: the sign of the dividend.
template <typename T>
KE_INLINE T fmod(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return b == 0 ? T(0) : T(a % b);
  } else {
    return ke::lib::fmod(a, b);
  }
}

KE_INLINE double rsqrt(double x) { return 1.0 / ke::lib::sqrt(x); }
KE_INLINE double sigmoid(double x) {
  const double e = ke::lib::exp(-ke::lib::fabs(x));
  return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
KE_INLINE double silu(double x) { return x * sigmoid(x); }
KE_INLINE double softplus(double x) { return ke::lib::fmax(x, 0.0) + ke::lib::log1p(ke::lib::exp(-ke::lib::fabs(x))); }
KE_INLINE double gelu(double x) { return 0.5 * x * ke::lib::erfc(-x * 0.70710678118654752440); }
KE_INLINE double gelu_tanh(double x) {
  return 0.5 * x * (1.0 + ke::lib::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Binary search
// ---------------------------------------------------------------------------------------------------------------------

// True if the element stands before the value's insertion position; NaN sorts after everything.
template <bool Right, typename T>
KE_INLINE bool precedes(T element, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return Right ? !(element > value) && !(element != element && value == value) : element < value || (value != value && element == element);
  } else {
    return Right ? element <= value : element < value;
  }
}

// Insertion positions of `Lanes` values in `length` ascending elements. All lanes walk down together and without
// branches: each step halves the range with one gathered load, and the loads of different lanes overlap.
template <int Lanes, bool Right, typename T>
KE_INLINE void search(const T* __restrict table, int64_t length, const T* __restrict values, int32_t* __restrict found) {
  for (int l = 0; l < Lanes; l++) found[l] = 0;
  int32_t rest = static_cast<int32_t>(length);
  while (rest > 1) {
    const int32_t half = rest >> 1;
#pragma omp simd
    for (int l = 0; l < Lanes; l++) {
      const int32_t at = found[l];
      found[l] = precedes<Right>(table[at + half - 1], values[l]) ? at + half : at;
    }
    rest -= half;
  }
  if (rest == 1) {
#pragma omp simd
    for (int l = 0; l < Lanes; l++) found[l] += precedes<Right>(table[found[l]], values[l]);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Memory ahead of its use
// ---------------------------------------------------------------------------------------------------------------------

// Ask for a row of `bytes` ahead of its use.
KE_INLINE void prefetch(const void* row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(row) + at);
}

}  // namespace ke
