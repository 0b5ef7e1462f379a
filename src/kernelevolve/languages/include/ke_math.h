// Elementary functions of float for loops that the compiler vectorises, and conversions of 16-bit floats.
//
// Every function is inline and has no branch, no table and no call, so that a loop over it marked `#pragma omp simd`
// becomes SSE, AVX2, AVX-512 or NEON code (libm's expf and erff are calls, which keep a loop scalar). NaN, infinities,
// signed zeros and subnormals are treated as IEEE 754 and C99 Annex F ask: the header must therefore not be compiled
// with -ffast-math, -fassociative-math or -ffinite-math-only.
//
// At each function stands the largest error against float64, in units in the last place of the exact result;
// tests/languages/test_ke_math.py measures it. The polynomials are minimax fits of this project (weighted least squares
// with Lawson's reweighting in the relative error, coefficients rounded to float one after another).

#pragma once

#include <cstddef>
#include <cstdint>

#define KE_INLINE static inline __attribute__((always_inline))

namespace ke {

// ---------------------------------------------------------------------------------------------------------------------
// Bits, signs, limits
// ---------------------------------------------------------------------------------------------------------------------

KE_INLINE float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
KE_INLINE uint32_t to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
KE_INLINE float abs(float x) { return __builtin_fabsf(x); }
KE_INLINE float copysign(float magnitude, float sign) { return __builtin_copysignf(magnitude, sign); }
// A NaN in x stays one (the comparison is false); with b as a bound both are torch.clamp.
KE_INLINE float min(float x, float b) { return x > b ? b : x; }
KE_INLINE float max(float x, float b) { return x < b ? b : x; }
KE_INLINE float clamp(float x, float low, float high) { return min(max(x, low), high); }

// a * b + c, in one rounding where the chip has the instruction (elsewhere fmaf would be a slow call).
KE_INLINE float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

namespace detail {

constexpr float kInfinity = __builtin_inff();
constexpr float kNaN = __builtin_nanf("");
constexpr float kLn2High = 0x1.63p-1f;  // ten bits: its product with a small integer is exact
constexpr float kLn2Low = -0x1.bd0106p-13f;

// exp(hi + lo) = (1 + p) * 2^n with p = expm1 of the reduced argument in [-ln 2 / 2, ln 2 / 2]; |hi| < 2^21.
struct Reduced {
  float p;
  int32_t n;
};

KE_INLINE Reduced reduce_exp(float hi, float lo) {
  constexpr float kShift = 0x1.8p23f;  // adding it rounds to an integer and leaves that in the low bits
  const float shifted = fma(hi, 0x1.715476p0f, kShift);
  const float n = shifted - kShift;
  const float r = fma(n, -kLn2Low, fma(n, -kLn2High, hi)) + lo;
  float q = 0x1.9e738p-13f;
  q = fma(q, r, 0x1.6d3a4ap-10f);
  q = fma(q, r, 0x1.1112d8p-7f);
  q = fma(q, r, 0x1.5554f8p-5f);
  q = fma(q, r, 0x1.555554p-3f);
  q = fma(q, r, 0.5f);
  return {fma(r * r, q, r), static_cast<int32_t>(to_bits(shifted) - to_bits(kShift))};
}

// 2^n for -126 <= n <= 127.
KE_INLINE float power_of_two(int32_t n) { return from_bits(static_cast<uint32_t>(n + 127) << 23); }

// x * 2^n for -252 <= n <= 254 in two steps, so that a result overflows or becomes subnormal in the last one.
KE_INLINE float scale(float x, int32_t n) {
  const int32_t half = n >> 1;
  return x * power_of_two(half) * power_of_two(n - half);
}

// exp(x) for -87 <= x <= 88: no clamping, one scaling step.
KE_INLINE float exp_moderate(float x) {
  const Reduced e = reduce_exp(x, 0.0f);
  const float scaling = power_of_two(e.n);
  return fma(e.p, scaling, scaling);
}

// exp(x) for x <= 0 (and NaN): one factor 2^(n + 24), which is always a normal number, and a constant one.
KE_INLINE float exp_negative(float x) {
  const Reduced e = reduce_exp(max(x, -104.0f), 0.0f);
  return (1.0f + e.p) * power_of_two(e.n + 24) * 0x1p-24f;
}

// log(x 2^exponent_offset) for normal positive x.
KE_INLINE float log_normal(float x, float exponent_offset) {
  // x = 2^n (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2)
  const int32_t exponent = static_cast<int32_t>(to_bits(x) - to_bits(0x1.6a09e6p-1f)) >> 23;
  const float f = from_bits(to_bits(x) - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  const float n = static_cast<float>(exponent) + exponent_offset;
  const float square = f * f;
  float q = 0x1.147962p-4f;  // (log(1 + f) - f + f^2 / 2) / f^3
  q = fma(q, f, -0x1.de0d26p-4f);
  q = fma(q, f, 0x1.e6c372p-4f);
  q = fma(q, f, -0x1.fc278ap-4f);
  q = fma(q, f, 0x1.233b62p-3f);
  q = fma(q, f, -0x1.555c48p-3f);
  q = fma(q, f, 0x1.99a478p-3f);
  q = fma(q, f, -0x1.000006p-2f);
  q = fma(q, f, 0x1.555548p-2f);
  const float tail = fma(-0.5f, square, fma(f * square, q, n * kLn2Low));
  return fma(n, kLn2High, f + tail);
}

}  // namespace detail

// ---------------------------------------------------------------------------------------------------------------------
// Exponential and logarithm
// ---------------------------------------------------------------------------------------------------------------------

// e^x. Error at most 1.1 ulp.
KE_INLINE float exp(float x) {
  const detail::Reduced e = detail::reduce_exp(clamp(x, -104.0f, 89.0f), 0.0f);
  return detail::scale(1.0f + e.p, e.n);
}

// e^x - 1 without cancellation near 0. Error at most 1.5 ulp.
KE_INLINE float expm1(float x) {
  const detail::Reduced e = detail::reduce_exp(clamp(x, -30.0f, 89.0f), 0.0f);
  const float inverse = detail::power_of_two(e.n > 126 ? -126 : -e.n);
  const float y = detail::scale(e.p + (1.0f - inverse), e.n);  // at n = 0 the sum is p itself
  return x == 0.0f ? x : y;
}

// Natural logarithm: -inf at 0, NaN below. Error at most 1.0 ulp.
KE_INLINE float log(float x) {
  const bool subnormal = x < 0x1p-126f;
  float y = detail::log_normal(subnormal ? x * 0x1p25f : x, subnormal ? -25.0f : 0.0f);
  y = x == 0.0f ? -detail::kInfinity : y;
  y = x < 0.0f ? detail::kNaN : y;
  return x < detail::kInfinity ? y : x;  // +inf and NaN
}

// log(1 + x) without cancellation near 0: -inf at -1, NaN below. Error at most 2.0 ulp.
KE_INLINE float log1p(float x) {
  const float u = 1.0f + x;
  const bool regular = u > 0.0f && u < detail::kInfinity;
  const float lost = regular ? x - (u - 1.0f) : 0.0f;  // what the addition rounded away
  const float y = log(u) + lost / (regular ? u : 1.0f);
  return x == 0.0f ? x : y;
}

// 1 / sqrt(x). Error at most 1.5 ulp.
KE_INLINE float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }

// ---------------------------------------------------------------------------------------------------------------------
// Activations
// ---------------------------------------------------------------------------------------------------------------------

// e / (e + 2) with e = expm1(2 |x|). Error at most 2.5 ulp.
KE_INLINE float tanh(float x) {
  const detail::Reduced r = detail::reduce_exp(2.0f * min(abs(x), 10.0f), 0.0f);
  const float scaling = detail::power_of_two(r.n);
  const float e = fma(r.p, scaling, scaling - 1.0f);
  return copysign(e / (e + 2.0f), x);
}

// 1 / (1 + e^-x), also where the result is subnormal. Error at most 2.5 ulp.
KE_INLINE float sigmoid(float x) {
  const float e = detail::exp_negative(-abs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// x * sigmoid(x), also called swish. Error at most 3.5 ulp for x >= -87.
KE_INLINE float silu(float x) { return x * sigmoid(x); }

// log(1 + e^x). Error at most 2.0 ulp.
KE_INLINE float softplus(float x) {
  const float e = detail::exp_negative(-abs(x));
  const float u = 1.0f + e;
  // As in log1p, where u needs no care: it lies between 1 and 2.
  return max(x, 0.0f) + (detail::log_normal(u, 0.0f) + (e - (u - 1.0f)) / u);
}

// x * tanh(softplus(x)) = x * n / (n + 2) with n = e^x (e^x + 2). Error at most 4.0 ulp for x >= -86.
KE_INLINE float mish(float x) {
  const float e = exp(min(x, 30.0f));
  const float n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}

// Error at most 1.1 ulp.
KE_INLINE float erf(float x) {
  const float a = min(abs(x), 4.0f);  // erf(4) rounds to 1
  const float square = a * a;
  float small = 0x1.4771fcp-14f;  // erf(a) / a - 1 on [0, 1] in powers of a^2
  small = fma(small, square, -0x1.a3515ep-11f);
  small = fma(small, square, 0x1.53f224p-8f);
  small = fma(small, square, -0x1.b7f71ap-6f);
  small = fma(small, square, 0x1.ce2ce6p-4f);
  small = fma(small, square, -0x1.81273ep-2f);
  small = fma(small, square, 0x1.06eba8p-3f);
  float large = -0x1.ca42cap-17f;  // log(erfc(a)) / a on [1, 4] in powers of a
  large = fma(large, a, 0x1.6c4f5p-12f);
  large = fma(large, a, -0x1.eac138p-9f);
  large = fma(large, a, 0x1.88e6c8p-6f);
  large = fma(large, a, -0x1.b43498p-4f);
  large = fma(large, a, -0x1.451da8p-1f);
  large = fma(large, a, -0x1.20f1bcp0f);
  const float y = a < 1.0f ? fma(a, small, a) : 1.0f - detail::exp_moderate(a * large);
  return copysign(y, x);
}

// x * Phi(x) with the distribution function of the standard normal, also in the negative tail, where 1 + erf cancels.
// NaN at -inf, as the product -inf * 0 gives. Error at most 3.0 ulp of the larger of the result and x / 8.
KE_INLINE float gelu(float x) {
  // Phi(-a) = exp(-a^2 / 2) G(a), with G = erfcx(a / sqrt(2)) / 2 = 1/2 + a polynomial in s = 2 a / (a + 3).
  const float a = min(abs(x), 14.5f);  // x * Phi(-14.5) rounds to 0
  const float s = (a + a) / (a + 3.0f);
  float g = 0x1.b446a4p-15f;
  g = fma(g, s, -0x1.74efap-12f);
  g = fma(g, s, 0x1.4c174ep-11f);
  g = fma(g, s, 0x1.6e23f2p-13f);
  g = fma(g, s, 0x1.f74d3p-10f);
  g = fma(g, s, -0x1.44d7b6p-7f);
  g = fma(g, s, -0x1.25dd98p-5f);
  g = fma(g, s, 0x1.0d9b84p-2f);
  g = fma(g, s, -0x1.326338p-1f);
  g = fma(g, s, 0.5f);
  // a^2 / 2 in two parts, the first exact: one ulp of a^2 / 2 would be 100 ulp of the result at a = 14.
  const float top = from_bits(to_bits(a) & 0xfffff000u);
  const detail::Reduced e = detail::reduce_exp(-0.5f * top * top, -0.5f * (a - top) * (a + top));
  const float tail = g * (1.0f + e.p);
  const float left = detail::scale(-a * tail, e.n);  // -a, because x * tail could overflow on the way to 0
  const float right = x * (1.0f - detail::scale(tail, e.n));
  return x >= 0.0f ? right : x > -detail::kInfinity ? left : detail::kNaN;
}

// x / 2 * (1 + tanh(u)) = x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), the "tanh" approximation of gelu.
// Error at most 9.0 ulp of the larger of the result and x / 8; the textbook form above has 1 ulp of x.
KE_INLINE float gelu_tanh(float x) { return x * sigmoid(x * fma(0x1.2444a6p-4f * x, x, 0x1.988454p0f)); }

// ---------------------------------------------------------------------------------------------------------------------
// 16-bit floats: stored as bits, computed as float. Loads are exact, stores round to nearest, ties to even, and keep NaN.
// ---------------------------------------------------------------------------------------------------------------------

using bf16 = uint16_t;  // a pointer to one takes a torch.bfloat16 tensor
using f16 = uint16_t;   // a pointer to one takes a torch.float16 tensor

KE_INLINE float load_bf16(bf16 bits) { return from_bits(static_cast<uint32_t>(bits) << 16); }

KE_INLINE bf16 store_bf16(float x) {
  const uint32_t bits = to_bits(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<bf16>(x == x ? rounded : quiet);
}

KE_INLINE float load_f16(f16 bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  // The product moves the exponent bias from 15 to 127 and normalises subnormals; the exponent 31 is inf or NaN.
  const uint32_t finite = to_bits(from_bits(magnitude) * 0x1p112f);
  return from_bits((magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite) | sign);
}

KE_INLINE f16 store_f16(float x) {
  const uint32_t bits = to_bits(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14 the float adder itself rounds to a multiple of 2^-24, the step of subnormal float16.
  const uint32_t subnormal = to_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // 65520 and above
  half = magnitude > 0x7f800000u ? 0x7e00u : half;
  return static_cast<f16>(half | ((bits >> 16) & 0x8000u));
}

}  // namespace ke
