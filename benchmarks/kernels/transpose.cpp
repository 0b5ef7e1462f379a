// A tiled transposition of a matrix that does not fit into the second-level cache; tiles are set by macros.
#include <ctime>

namespace {

constexpr int SIZE = 512;
static_assert(TI % UNROLL == 0);

alignas(64) float from[SIZE * SIZE], to[SIZE * SIZE];

double cpu_seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

inline void tile(int i0, int j0) {
#if READ_ROWS
    for (int i = i0; i < i0 + TI; i += UNROLL)
        for (int j = j0; j < j0 + TJ; ++j)
#pragma GCC unroll 16
            for (int u = 0; u < UNROLL; ++u) to[j * SIZE + i + u] = from[(i + u) * SIZE + j];
#else
    for (int j = j0; j < j0 + TJ; ++j)
        for (int i = i0; i < i0 + TI; i += UNROLL)
#pragma GCC unroll 16
            for (int u = 0; u < UNROLL; ++u) to[j * SIZE + i + u] = from[(i + u) * SIZE + j];
#endif
}

void transpose() {
#if ROWS_FIRST
    for (int i = 0; i < SIZE; i += TI)
        for (int j = 0; j < SIZE; j += TJ) tile(i, j);
#else
    for (int j = 0; j < SIZE; j += TJ)
        for (int i = 0; i < SIZE; i += TI) tile(i, j);
#endif
}

}  // namespace

// The least processor time of one transposition, over at least `rounds` of them; negative if the result is wrong.
extern "C" double least_seconds(int rounds) {
    for (int i = 0; i < SIZE * SIZE; ++i) from[i] = i;
    transpose();
    for (int i = 0; i < SIZE; i += 7)
        for (int j = 0; j < SIZE; j += 11)
            if (to[j * SIZE + i] != from[i * SIZE + j]) return -1;
    double least = 1e9;
    for (int round = 0; round < rounds; ++round) {
        const double begin = cpu_seconds();
        transpose();
        const double seconds = cpu_seconds() - begin;
        if (seconds < least) least = seconds;
    }
    return least;
}
