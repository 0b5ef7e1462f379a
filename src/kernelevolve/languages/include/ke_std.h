// The parts of <cmath> and <algorithm> that kernels use. Those headers take the compiler a quarter of a second, more than
// most kernels; these few lines over its own builtins take none.

#pragma once

#include "ke_math.h"

namespace ke::lib {

#define KE_ONE(name)                                                     \
  KE_INLINE float name(float x) { return __builtin_##name##f(x); } \
  KE_INLINE double name(double x) { return __builtin_##name(x); }
#define KE_TWO(name)                                                                 \
  KE_INLINE float name(float x, float y) { return __builtin_##name##f(x, y); } \
  KE_INLINE double name(double x, double y) { return __builtin_##name(x, y); }

KE_ONE(exp)
KE_ONE(exp2)
KE_ONE(expm1)
KE_ONE(log)
KE_ONE(log2)
KE_ONE(log10)
KE_ONE(log1p)
KE_ONE(sqrt)
KE_ONE(sin)
KE_ONE(cos)
KE_ONE(tan)
KE_ONE(asin)
KE_ONE(acos)
KE_ONE(atan)
KE_ONE(sinh)
KE_ONE(cosh)
KE_ONE(tanh)
KE_ONE(asinh)
KE_ONE(acosh)
KE_ONE(atanh)
KE_ONE(erf)
KE_ONE(erfc)
KE_ONE(floor)
KE_ONE(ceil)
KE_ONE(trunc)
KE_ONE(nearbyint)
KE_ONE(fabs)
KE_TWO(pow)
KE_TWO(atan2)
KE_TWO(hypot)
KE_TWO(fmod)
KE_TWO(copysign)
KE_TWO(fmax)

#undef KE_ONE
#undef KE_TWO

KE_INLINE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }

constexpr float infinity = __builtin_inff();
constexpr float nan = __builtin_nanf("");

// The least and the greatest of one or more values of a type.
template <typename T>
KE_INLINE constexpr T least(T a) {
  return a;
}
template <typename T, typename... Others>
KE_INLINE constexpr T least(T a, T b, Others... others) {
  return least<T>(b < a ? b : a, static_cast<T>(others)...);
}
template <typename T>
KE_INLINE constexpr T greatest(T a) {
  return a;
}
template <typename T, typename... Others>
KE_INLINE constexpr T greatest(T a, T b, Others... others) {
  return greatest<T>(a < b ? b : a, static_cast<T>(others)...);
}

}  // namespace ke::lib
