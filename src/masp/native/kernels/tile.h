// The inner loop of all products: a few rows times a panel of columns, held in registers.
//
// Included once per instruction set, inside a namespace of its own, with kWidth numbers in a vector and kTotal vectors
// of sums in registers. No templates of the standard library here: the linker could give their code to callers that run
// on processors without these instructions.

typedef float Vector __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));

constexpr long kPanel = 2 * kWidth;  // columns
constexpr long kRows = kTotal / 2;
constexpr long kSmallest = 1 << 19;  // multiplications that are worth a chunk of their own

inline long rounded_up(long n, long multiple) { return (n + multiple - 1) / multiple * multiple; }
inline long panels(long columns) { return (columns + kPanel - 1) / kPanel; }
inline long least(long a, long b) { return a < b ? a : b; }

inline Vector load(const float* at) { return *reinterpret_cast<const Vector*>(at); }
inline void store(float* at, Vector v) { *reinterpret_cast<Vector*>(at) = v; }

template <class Body>
inline void each(long chunks, Body body) {
  parallel(chunks, [](void* data, long i) { (*static_cast<Body*>(data))(i); }, &body);
}

// Where the left factor is: row m, depth (s, r) at rows[m] + s * segment + r * step.
struct Left {
  const float* rows[kRows];
  long segments, segment, run, step;
};

// The right factor: depth d at data + d * stride, a panel of columns each.
struct Right {
  const float* data;
  long stride;
};

template <long M, long N, bool kStep1>
inline void multiply_rows(const Left& left, Right right, float* sums, bool add) {
  Vector sum[M][N];
  for (long m = 0; m < M; ++m)
    for (long n = 0; n < N; ++n) sum[m][n] = add ? load(sums + m * kPanel + n * kWidth) : Vector{};
  const float* b = right.data;
  const float* a[M];
  for (long m = 0; m < M; ++m) a[m] = left.rows[m];
  const long step = kStep1 ? 1 : left.step, rest = left.segment - left.run * step;
  for (long s = 0; s < left.segments; ++s) {
    for (long r = 0; r < left.run; ++r) {
      Vector column[N];
      for (long n = 0; n < N; ++n) column[n] = load(b + n * kWidth);
      b += right.stride;
      for (long m = 0; m < M; ++m) {
        const float x = *a[m];
        a[m] += step;
        for (long n = 0; n < N; ++n) sum[m][n] += x * column[n];
      }
    }
    for (long m = 0; m < M; ++m) a[m] += rest;
  }
  for (long m = 0; m < M; ++m)
    for (long n = 0; n < N; ++n) store(sums + m * kPanel + n * kWidth, sum[m][n]);
}

template <long M>
inline void multiply_some(long count, long columns, const Left& left, Right right, float* sums, bool add) {
  if constexpr (M > 1) {
    if (count < M) return multiply_some<M - 1>(count, columns, left, right, sums, add);
  }
  const bool narrow = columns <= kWidth;
  if (left.step == 1)
    narrow ? multiply_rows<M, 1, true>(left, right, sums, add) : multiply_rows<M, 2, true>(left, right, sums, add);
  else
    narrow ? multiply_rows<M, 1, false>(left, right, sums, add) : multiply_rows<M, 2, false>(left, right, sums, add);
}

// sums[m][0..kPanel) = (or +=) the product of `count` rows with a panel of which `columns` columns matter; the rest of
// the panel is read all the same, so it must exist.
inline void multiply(long count, long columns, const Left& left, Right right, float* sums, bool add) {
  multiply_some<kRows>(count, columns, left, right, sums, add);
}
