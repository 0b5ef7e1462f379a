// A tiled single-precision matrix product whose tiles, registers and packing are set by macros.
#include <ctime>
#include <vector>

namespace {

constexpr int SIZE = 192;
static_assert(SIZE % BM == 0 && BM % MR == 0 && SIZE % NR == 0 && SIZE % BK == 0);

alignas(64) float a[SIZE * SIZE], b[SIZE * SIZE], c[SIZE * SIZE], packed[BK * NR];

double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

// MR rows by NR columns of the result, over one block of the inner dimension.
inline void micro(const float* rows, const float* columns, int stride, float* result) {
    float sums[MR][NR];
    for (int r = 0; r < MR; ++r)
        for (int j = 0; j < NR; ++j) sums[r][j] = result[r * SIZE + j];
    for (int k = 0; k < BK; ++k)
        for (int r = 0; r < MR; ++r)
#pragma omp simd
            for (int j = 0; j < NR; ++j) sums[r][j] += rows[r * SIZE + k] * columns[k * stride + j];
    for (int r = 0; r < MR; ++r)
        for (int j = 0; j < NR; ++j) result[r * SIZE + j] = sums[r][j];
}

void multiply() {
    for (float& value : c) value = 0;
    for (int i0 = 0; i0 < SIZE; i0 += BM)
        for (int k0 = 0; k0 < SIZE; k0 += BK)
            for (int j = 0; j < SIZE; j += NR) {
                const float* columns = b + k0 * SIZE + j;
                int stride = SIZE;
                if (PACK) {
                    for (int k = 0; k < BK; ++k)
                        for (int v = 0; v < NR; ++v) packed[k * NR + v] = columns[k * SIZE + v];
                    columns = packed;
                    stride = NR;
                }
                for (int i = i0; i < i0 + BM; i += MR) micro(a + i * SIZE + k0, columns, stride, c + i * SIZE + j);
            }
}

}  // namespace

// The least processor time of one product, over at least `rounds` of them; negative if the result is wrong.
extern "C" double least_seconds(int rounds) {
    for (int i = 0; i < SIZE * SIZE; ++i) a[i] = (i * 7 % 13) - 6, b[i] = (i * 5 % 11) - 5;
    multiply();
    for (int i = 0; i < SIZE; i += 17)
        for (int j = 0; j < SIZE; j += 13) {
            float sum = 0;
            for (int k = 0; k < SIZE; ++k) sum += a[i * SIZE + k] * b[k * SIZE + j];
            if (sum != c[i * SIZE + j]) return -1;
        }
    double least = 1e9;
    for (int round = 0; round < rounds; ++round) {
        const double begin = cpu_seconds();
        multiply();
        const double seconds = cpu_seconds() - begin;
        if (seconds < least) least = seconds;
    }
    return least;
}
