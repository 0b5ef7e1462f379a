// Branch-free float mathematics that compilers turn into SIMD inside `#pragma omp simd` loops.
//
// Polynomials were fitted to double-precision references by weighted least squares at Chebyshev nodes. Largest errors
// against double precision, in units in the last place, are asserted by tests/languages/test_ke_math.py:
// exp 2, log 2, tanh 3, erf 2, sigmoid 3. NaN stays NaN, infinities and overflow behave as in <cmath>; exp flushes
// results below the smallest normal number to zero.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#define KE_INLINE static inline __attribute__((always_inline))

namespace ke {

KE_INLINE float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }
KE_INLINE uint32_t to_bits(float value) { return std::bit_cast<uint32_t>(value); }
KE_INLINE float abs(float x) { return from_bits(to_bits(x) & 0x7fffffffu); }
KE_INLINE float copysign(float magnitude, float sign) {
    return from_bits((to_bits(magnitude) & 0x7fffffffu) | (to_bits(sign) & 0x80000000u));
}
KE_INLINE float min(float a, float b) { return b < a ? b : a; }
KE_INLINE float max(float a, float b) { return a < b ? b : a; }

// exp(x) = 2^n exp(r), |r| <= ln(2)/2; the reduction uses ln(2) in two parts (Cody and Waite).
KE_INLINE float exp(float x) {
    const float clamped = min(max(x, -87.33654f), 88.72283f);
    const float shifted = clamped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23 rounds to an integer
    const float n = shifted - 12582912.0f;
    float r = __builtin_fmaf(n, -0.693145752f, clamped);
    r = __builtin_fmaf(n, -1.42860677e-6f, r);
    float q = 0.0013950512f;
    q = __builtin_fmaf(q, r, 0.008368903f);
    q = __builtin_fmaf(q, r, 0.041666206f);
    q = __builtin_fmaf(q, r, 0.16666518f);
    q = __builtin_fmaf(q, r, 0.5f);
    const float p = __builtin_fmaf(r * r, q, r) + 1.0f;
    // n may be 128: scale in two steps so that the exponent never overflows.
    const int32_t whole = (int32_t)n, half = whole >> 1;
    const float low = from_bits((uint32_t)(half + 127) << 23);
    const float high = from_bits((uint32_t)(whole - half + 127) << 23);
    float y = p * low * high;
    y = x > 88.72283f ? std::numeric_limits<float>::infinity() : y;
    y = x < -87.33654f ? 0.0f : y;
    return x != x ? x : y;
}

// log(m 2^e) = e ln(2) + log(1 + f), sqrt(1/2) <= 1 + f < sqrt(2).
KE_INLINE float log(float x) {
    const bool tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 8388608.0f : x;
    const uint32_t bits = to_bits(scaled) - 0x3f3504f3u;
    const float e = (float)((int32_t)bits >> 23) - (tiny ? 23.0f : 0.0f);
    const float f = from_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float p = -0.07859552f;
    p = __builtin_fmaf(p, f, 0.1288162f);
    p = __builtin_fmaf(p, f, -0.13128763f);
    p = __builtin_fmaf(p, f, 0.14181197f);
    p = __builtin_fmaf(p, f, -0.16624554f);
    p = __builtin_fmaf(p, f, 0.20002286f);
    p = __builtin_fmaf(p, f, -0.2500081f);
    p = __builtin_fmaf(p, f, 0.33333316f);
    const float square = f * f;
    float y = __builtin_fmaf(square * f, p, e * -2.12194440e-4f);
    y = __builtin_fmaf(-0.5f, square, y) + f;
    y = __builtin_fmaf(e, 0.693359375f, y);
    y = x == 0.0f ? -std::numeric_limits<float>::infinity() : y;
    y = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : y;
    return (x == std::numeric_limits<float>::infinity() || x != x) ? x : y;
}

KE_INLINE float tanh(float x) {
    const float t = abs(x), s = x * x;
    float p = -0.005717037f;
    p = __builtin_fmaf(p, s, 0.020650579f);
    p = __builtin_fmaf(p, s, -0.053743497f);
    p = __builtin_fmaf(p, s, 0.13331491f);
    p = __builtin_fmaf(p, s, -0.33333284f);
    const float small = __builtin_fmaf(x * s, p, x);
    const float large = 1.0f - 2.0f / (exp(2.0f * min(t, 10.0f)) + 1.0f);
    const float y = t > 0.625f ? copysign(large, x) : small;
    return x != x ? x : y;
}

KE_INLINE float erf(float x) {
    const float t = abs(x), s = x * x;
    float p = -0.0005976894f;
    p = __builtin_fmaf(p, s, 0.00499098f);
    p = __builtin_fmaf(p, s, -0.026765566f);
    p = __builtin_fmaf(p, s, 0.11281803f);
    p = __builtin_fmaf(p, s, -0.37612495f);
    p = __builtin_fmaf(p, s, 0.12837915f);
    const float small = __builtin_fmaf(x, p, x);
    // 1 - exp(log(erfc(t))), the logarithm being nearly a parabola.
    const float u = min(t, 4.0f);
    float q = -2.1095051e-5f;
    q = __builtin_fmaf(q, u, 0.00043446262f);
    q = __builtin_fmaf(q, u, -0.0041710632f);
    q = __builtin_fmaf(q, u, 0.025119428f);
    q = __builtin_fmaf(q, u, -0.10828009f);
    q = __builtin_fmaf(q, u, -0.6333469f);
    q = __builtin_fmaf(q, u, -1.1295149f);
    q = __builtin_fmaf(q, u, 0.00017468445f);
    const float large = 1.0f - exp(q);
    const float y = t > 0.92f ? copysign(large, x) : small;
    return x != x ? x : y;
}

KE_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
KE_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
// gelu(x) = max(x, 0) - |x| erfc(|x| / sqrt(2)) / 2, with the logarithm of erfc as one polynomial: half the work of
// erf, because only the absolute error counts (at most 1e-7).
KE_INLINE float gelu(float x) {
    const float t = min(abs(x), 20.0f);
    float q = -1.1703144e-6f;
    q = __builtin_fmaf(q, t, 1.736952254e-5f);
    q = __builtin_fmaf(q, t, -7.925606042e-5f);
    q = __builtin_fmaf(q, t, -0.000224338248f);
    q = __builtin_fmaf(q, t, 0.005083424039f);
    q = __builtin_fmaf(q, t, -0.036538951099f);
    q = __builtin_fmaf(q, t, -0.318234473467f);
    q = __builtin_fmaf(q, t, -0.797897875309f);
    q = __builtin_fmaf(q, t, 7.81957624e-7f);
    return max(x, 0.0f) - 0.5f * t * exp(q);
}
KE_INLINE float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanh(0.79788456f * __builtin_fmaf(0.044715f * x * x, x, x)));
}

// bfloat16 as its bits; conversion rounds to nearest, ties to even.
KE_INLINE float load_bf16(uint16_t bits) { return from_bits((uint32_t)bits << 16); }
KE_INLINE uint16_t store_bf16(float value) {
    const uint32_t bits = to_bits(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)(value != value ? 0x7fc0u : rounded);
}

}  // namespace ke
