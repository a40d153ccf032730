// The inner loop of all matrix products: a few rows times a panel of columns, accumulated in registers.
//
// Included once per instruction set, inside a namespace of its own, with kWidth floats per vector and kTotal vectors of
// sums in registers. No templates of the standard library here: the linker could merge their code with that of callers
// on processors without these instructions.

typedef float Vector __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));

constexpr int64_t kPanel = 2 * kWidth;  // columns
constexpr int64_t kRows = kTotal / 2;
constexpr int64_t kMinChunkWork = 1 << 19;  // multiplications below which a chunk costs more than it saves

inline int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }
inline int64_t panels(int64_t columns) { return (columns + kPanel - 1) / kPanel; }
inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline Vector load(const float* at) { return *reinterpret_cast<const Vector*>(at); }
inline void store(float* at, Vector v) { *reinterpret_cast<Vector*>(at) = v; }

// Non-temporal store to an aligned address, for results larger than the caches: their old contents are not fetched.
// Call `stream_fence` before other threads read them.
inline void stream(float* at, Vector v) {
#ifdef __x86_64__
  if constexpr (kWidth > 4) {
    asm volatile("vmovntps %1, %0" : "=m"(*reinterpret_cast<Vector*>(at)) : "v"(v));
    return;
  }
#endif
  store(at, v);
}
inline void stream_fence() {
#ifdef __x86_64__
  asm volatile("sfence" ::: "memory");
#endif
}
inline bool is_aligned(const float* at) { return reinterpret_cast<uint64_t>(at) % (4 * kWidth) == 0; }

// Interleave chunks from both ends to balance the load where the work grows from one end to the other. All loops over
// the same memory use the same order, so that a core finds its chunks in its own cache.
inline int64_t interleaved(int64_t i, int64_t n) { return i % 2 == 0 ? i / 2 : n - 1 - i / 2; }

template <class Body>
inline void parallel_for(int64_t chunks, Body body) {
  parallel(chunks, [](void* data, int64_t i) { (*static_cast<Body*>(data))(i); }, &body);
}

// The left factor: row m at depth (s, r) is at rows[m] + s * segment + r * step.
struct Left {
  const float* rows[kRows];
  int64_t segments, segment, run, step;
};

// The right factor: the panel of columns at depth d is at data + d * stride.
struct Right {
  const float* data;
  int64_t stride;
};

template <int64_t M, int64_t N, bool kStep1>
inline void multiply_rows(const Left& left, Right right, float* to, int64_t stride, bool add) {
  Vector sum[M][N];
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) sum[m][n] = add ? load(to + m * stride + n * kWidth) : Vector{};
  const float* b = right.data;
  const float* a[M];
  for (int64_t m = 0; m < M; ++m) a[m] = left.rows[m];
  const int64_t step = kStep1 ? 1 : left.step, rest = left.segment - left.run * step;
  for (int64_t s = 0; s < left.segments; ++s) {
    for (int64_t r = 0; r < left.run; ++r) {
      Vector column[N];
      for (int64_t n = 0; n < N; ++n) column[n] = load(b + n * kWidth);
      b += right.stride;
      for (int64_t m = 0; m < M; ++m) {
        const float x = *a[m];
        a[m] += step;
        for (int64_t n = 0; n < N; ++n) sum[m][n] += x * column[n];
      }
    }
    for (int64_t m = 0; m < M; ++m) a[m] += rest;
  }
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) store(to + m * stride + n * kWidth, sum[m][n]);
}

template <int64_t M>
inline void multiply_up_to(int64_t count, bool narrow, const Left& left, Right right, float* to, int64_t stride,
                           bool add) {
  if constexpr (M > 1) {
    if (count < M) return multiply_up_to<M - 1>(count, narrow, left, right, to, stride, add);
  }
  if (left.step == 1)
    narrow ? multiply_rows<M, 1, true>(left, right, to, stride, add)
           : multiply_rows<M, 2, true>(left, right, to, stride, add);
  else
    narrow ? multiply_rows<M, 1, false>(left, right, to, stride, add)
           : multiply_rows<M, 2, false>(left, right, to, stride, add);
}

// Row m of `to`, `stride` apart, = (or +=) the product of `count` rows with the `columns` first columns of a panel. All
// columns of the panel (of its first vector, where that is enough) are read, so they must be readable; `to` is
// not written past `columns`.
inline void multiply(int64_t count, int64_t columns, const Left& left, Right right, float* to, int64_t stride,
                     bool add) {
  const bool narrow = columns <= kWidth;
  if (columns >= kPanel || columns == kWidth) {
    multiply_up_to<kRows>(count, narrow, left, right, to, stride, add);
    return;
  }
  alignas(64) float whole[kRows * kPanel];
  for (int64_t m = 0; add && m < count; ++m)
    for (int64_t n = 0; n < kPanel; ++n) whole[m * kPanel + n] = n < columns ? to[m * stride + n] : 0.0f;
  multiply_up_to<kRows>(count, narrow, left, right, whole, kPanel, add);
  for (int64_t m = 0; m < count; ++m)
    for (int64_t n = 0; n < columns; ++n) to[m * stride + n] = whole[m * kPanel + n];
}

// to[n] = from[n] for a panel of which `columns` columns exist; the others become 0.
inline void copy_panel(const float* from, int64_t columns, float* to) {
  if (columns >= kPanel) {
    store(to, load(from));
    store(to + kWidth, load(from + kWidth));
    return;
  }
  for (int64_t n = 0; n < kPanel; ++n) to[n] = n < columns ? from[n] : 0.0f;
}

#ifndef __clang__
typedef int Places __attribute__((vector_size(4 * kWidth)));

// Swaps the off-diagonal blocks of side H in all blocks of side 2 H of a square of vectors.
template <int64_t H>
inline void swap_blocks(Vector* square) {
  Places upper = {}, lower = {};
  for (int n = 0; n < kWidth; ++n) {
    upper[n] = n & H ? kWidth + n - static_cast<int>(H) : n;
    lower[n] = n & H ? kWidth + n : n + static_cast<int>(H);
  }
  for (int64_t i = 0; i < kWidth; ++i) {
    if (i & H) continue;
    const Vector a = square[i], b = square[i + H];
    square[i] = __builtin_shuffle(a, b, upper);
    square[i + H] = __builtin_shuffle(a, b, lower);
  }
}
#endif

// Element i of the result is the sum of vector i; overwrites the vectors.
#ifndef __clang__
template <int64_t H>
inline Vector reduce_halves(Vector* vectors) {
  Places upper = {}, lower = {};  // as in `swap_blocks`
  for (int n = 0; n < kWidth; ++n) {
    upper[n] = n & H ? kWidth + n - static_cast<int>(H) : n;
    lower[n] = n & H ? kWidth + n : n + static_cast<int>(H);
  }
  for (int64_t i = 0; i < H; ++i) {
    const Vector a = vectors[i], b = vectors[i + H];
    vectors[i] = __builtin_shuffle(a, b, upper) + __builtin_shuffle(a, b, lower);
  }
  if constexpr (H > 1) return reduce_halves<H / 2>(vectors);
  return vectors[0];
}
#endif

inline Vector horizontal_sums(Vector* vectors) {
#ifndef __clang__
  return reduce_halves<kWidth / 2>(vectors);
#else
  Vector total = {};
  for (int64_t i = 0; i < kWidth; ++i)
    for (int64_t n = 0; n < kWidth; ++n) total[i] += vectors[i][n];
  return total;
#endif
}

// to[c * to_stride + r] = from[r * from_stride + c] for a square of kWidth x kWidth numbers.
inline void transpose_square(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
#ifndef __clang__
  Vector square[kWidth];
  for (int64_t r = 0; r < kWidth; ++r) square[r] = load(from + r * from_stride);
  swap_blocks<1>(square);
  swap_blocks<2>(square);
  if constexpr (kWidth > 4) swap_blocks<4>(square);
  if constexpr (kWidth > 8) swap_blocks<8>(square);
  for (int64_t c = 0; c < kWidth; ++c) store(to + c * to_stride, square[c]);
#else
  for (int64_t c = 0; c < kWidth; ++c)
    for (int64_t r = 0; r < kWidth; ++r) to[c * to_stride + r] = from[r * from_stride + c];
#endif
}
