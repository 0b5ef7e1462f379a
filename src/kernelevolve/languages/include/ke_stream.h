// Stores that bypass the caches. A header of its own, because the intrinsics that it needs take the compiler longer than
// most kernels.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__SSE2__)
#include <immintrin.h>
#endif

#include "ke_math.h"

namespace ke {

// Copy `bytes` to memory that will not be read soon: whole cache lines are written without being fetched first.
KE_INLINE void stream(void* target, const void* source, int64_t bytes) {
  char* out = static_cast<char*>(target);
  const char* in = static_cast<const char*>(source);
#if defined(__AVX512F__)
  const int64_t head = (64 - (reinterpret_cast<uintptr_t>(out) & 63)) & 63;
  if (bytes >= head + 64) {
    std::memcpy(out, in, head);
    int64_t at = head;
    for (; at + 64 <= bytes; at += 64) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(out + at), _mm512_loadu_si512(in + at));
    }
    std::memcpy(out + at, in + at, bytes - at);
    return;
  }
#elif defined(__SSE2__)
  const int64_t head = (16 - (reinterpret_cast<uintptr_t>(out) & 15)) & 15;
  if (bytes >= head + 16) {
    std::memcpy(out, in, head);
    int64_t at = head;
    for (; at + 16 <= bytes; at += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + at),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + at)));
    }
    std::memcpy(out + at, in + at, bytes - at);
    return;
  }
#endif
  std::memcpy(out, in, bytes);
}

// Makes streamed stores visible in order before a parallel region ends.
KE_INLINE void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace ke
