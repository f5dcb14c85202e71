// What a good programmer would write by hand for one query, to measure the generated code against.
//
// The two-band predicate of CellJoin (section 8.2) and Handshake Join (section 5): for each of m probes
// (px, py), find the positions of a window of n tuples (x, y) with
//
//     x between px - 10 and px + 10  and  y between py - 10 and py + 10
//
// in three variants, as CellJoin (section 5) has them: scalar, vectorised, unrolled and blocked. All are exact:
// the bounds of the float band are computed in double, and rounded to the nearest floats inside.
// Each returns the number of matches and writes the first `capacity` of them.

#include <immintrin.h>

#include <cmath>
#include <cstdint>

namespace {

constexpr int32_t kBand = 10;
constexpr int64_t kLanes = 8;
constexpr int64_t kBlock = 1024;  // tuples: 8 KB of columns, which stay in L1 while all probes pass over them
constexpr int kProbes = 4;        // at a time: each load of the window serves four comparisons

struct Window {
    const int32_t *x;
    const float *y;
    int64_t n;
};

struct Matches {
    int32_t *probe;
    int32_t *row;
    int64_t capacity;
    int64_t count = 0;

    void put(int64_t p, int64_t i) {
        if (count < capacity) {
            probe[count] = static_cast<int32_t>(p);
            row[count] = static_cast<int32_t>(i);
        }
        ++count;
    }

    void put_mask(int64_t p, int64_t base, unsigned mask) {
        for (; mask != 0; mask &= mask - 1) put(p, base + __builtin_ctz(mask));
    }
};

float lower(float y) {
    const double bound = static_cast<double>(y) - kBand;
    const float near = static_cast<float>(bound);
    return near < bound ? std::nextafter(near, INFINITY) : near;
}

float upper(float y) {
    const double bound = static_cast<double>(y) + kBand;
    const float near = static_cast<float>(bound);
    return near > bound ? std::nextafter(near, -INFINITY) : near;
}

// One probe against the tuples from `from` on, one after the other.
__attribute__((optimize("no-tree-vectorize"))) void scan_one(const Window &w, int64_t from, int64_t p, int32_t px,
                                                             float py, Matches &out) {
    const float low = lower(py), high = upper(py);
    for (int64_t i = from; i < w.n; ++i) {
        if (w.x[i] >= px - kBand && w.x[i] <= px + kBand && w.y[i] >= low && w.y[i] <= high) out.put(p, i);
    }
}

// A probe, spread over the lanes. The integer band is one subtraction and one comparison: x - (px - 10) lies in
// 0..20 iff the same, moved by 2^31 to make the comparison of the instruction set (signed) one of unsigned numbers,
// is less than 21 - 2^31.
struct Probe {
    __m256i x_low;
    __m256 low, high;

    Probe() = default;
    Probe(int32_t px, float py)
        : x_low(_mm256_set1_epi32(static_cast<int32_t>(static_cast<uint32_t>(px - kBand) + 0x80000000u))),
          low(_mm256_set1_ps(lower(py))),
          high(_mm256_set1_ps(upper(py))) {}

    __m256 match(__m256i x, __m256 y) const {
        const __m256i width = _mm256_set1_epi32(INT32_MIN + 2 * kBand + 1);
        const __m256 in_x = _mm256_castsi256_ps(_mm256_cmpgt_epi32(width, _mm256_sub_epi32(x, x_low)));
        const __m256 in_y = _mm256_and_ps(_mm256_cmp_ps(y, low, _CMP_GE_OQ), _mm256_cmp_ps(y, high, _CMP_LE_OQ));
        return _mm256_and_ps(in_x, in_y);
    }
};

__m256i load_x(const Window &w, int64_t i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(w.x + i)); }

__m256 load_y(const Window &w, int64_t i) { return _mm256_loadu_ps(w.y + i); }

// P probes over the tuples from `from` to `to`: one test for P x 8 pairs, positions only where it says so.
template <int P>
void scan_block(const Window &w, int64_t from, int64_t to, const int32_t *px, const float *py, int64_t p,
                Matches &out) {
    Probe probe[P];
    for (int k = 0; k < P; ++k) probe[k] = Probe(px[p + k], py[p + k]);
    for (int64_t i = from; i < to; i += kLanes) {
        const __m256i x = load_x(w, i);
        const __m256 y = load_y(w, i);
        __m256 any = probe[0].match(x, y);
        for (int k = 1; k < P; ++k) any = _mm256_or_ps(any, probe[k].match(x, y));
        if (__builtin_expect(_mm256_movemask_ps(any) != 0, 0)) {
            for (int k = 0; k < P; ++k) out.put_mask(p + k, i, _mm256_movemask_ps(probe[k].match(x, y)));
        }
    }
}

}  // namespace

#define SIGNATURE                                                                                                  \
    const int32_t *x, const float *y, int64_t n, const int32_t *px, const float *py, int64_t m, int32_t *out_probe, \
        int32_t *out_row, int64_t capacity

extern "C" int64_t scan_scalar(SIGNATURE) {
    const Window w{x, y, n};
    Matches out{out_probe, out_row, capacity};
    for (int64_t p = 0; p < m; ++p) scan_one(w, 0, p, px[p], py[p], out);
    return out.count;
}

extern "C" int64_t scan_vectorised(SIGNATURE) {
    const Window w{x, y, n};
    Matches out{out_probe, out_row, capacity};
    const int64_t whole = n - n % kLanes;
    for (int64_t p = 0; p < m; ++p) {
        const Probe probe(px[p], py[p]);
        for (int64_t i = 0; i < whole; i += kLanes) {
            const unsigned mask = _mm256_movemask_ps(probe.match(load_x(w, i), load_y(w, i)));
            if (mask != 0) out.put_mask(p, i, mask);
        }
        scan_one(w, whole, p, px[p], py[p], out);
    }
    return out.count;
}

extern "C" int64_t scan_unrolled(SIGNATURE) {
    const Window w{x, y, n};
    Matches out{out_probe, out_row, capacity};
    const int64_t whole = n - n % kLanes;
    for (int64_t from = 0; from < whole; from += kBlock) {
        const int64_t to = from + kBlock < whole ? from + kBlock : whole;
        int64_t p = 0;
        for (; p + kProbes <= m; p += kProbes) scan_block<kProbes>(w, from, to, px, py, p, out);
        for (; p < m; ++p) scan_block<1>(w, from, to, px, py, p, out);
    }
    for (int64_t p = 0; p < m; ++p) scan_one(w, whole, p, px[p], py[p], out);
    return out.count;
}
