// Linear layers [L, B, I] -> [L, B, O] whose weights are kernel + noise_out * sigma * noise_in (kernel alone where
// sigma is null), computed block by block where they are used and never written to memory.

constexpr int64_t kDepth = 128;  // of a block of weights that stays in the L1 cache
constexpr int64_t kRowStride = kDepth + 16;  // at a power of two, rows would compete for the same cache sets

// Software prefetch of the next weights during a product: their rows are too short for the hardware prefetcher.
// Prefetching past the end of the weights is harmless.
struct Prefetch {
  const float *kernel, *sigma;  // of the row that is being prefetched; sigma may be null
  int64_t rows, apart, lines;      // rows left, their distance, cache lines of each
  int64_t line = 0;

  void fetch() {
    if (rows == 0) return;
    __builtin_prefetch(kernel + 16 * line, 0, 2);
    if (sigma != nullptr) __builtin_prefetch(sigma + 16 * line, 0, 2);
    if (++line < lines) return;
    line = 0, --rows, kernel += apart;
    if (sigma != nullptr) sigma += apart;
  }
};

inline Prefetch ahead(const Linear& l, const Weights& w, int64_t lane, int64_t o, int64_t i, int64_t rows,
                      int64_t columns) {
  const int64_t at = (lane * l.outputs + o) * l.inputs + i;
  return {w.kernel + at, w.sigma == nullptr ? nullptr : w.sigma + at, rows, l.inputs, (columns + 15) / 16};
}

// to[0..count) = weights [o, i..i+count) of a lane.
inline void copy_weights(const Linear& l, const Weights& w, int64_t lane, int64_t o, int64_t i, int64_t count,
                         float* to) {
  const int64_t at = (lane * l.outputs + o) * l.inputs + i;
  if (w.sigma == nullptr) {
    for (int64_t n = 0; n < count; ++n) to[n] = w.kernel[at + n];
    return;
  }
  const float out = w.noise_out[lane * l.outputs + o];
  const float* in = w.noise_in + lane * l.inputs + i;
  for (int64_t n = 0; n < count; ++n) to[n] = w.kernel[at + n] + out * w.sigma[at + n] * in[n];
}

// [L, panels of B, I, panel] of x [L, B, I]: its columns, interleaved.
inline float* pack_transposed(const Linear& l, const float* x) {
  const int64_t across = panels(l.batch), blocks = (l.inputs + kDepth - 1) / kDepth;
  float* packed = scratch(kPacked, l.lanes * across * l.inputs * kPanel);
  parallel_for(l.lanes * across * blocks, [=](int64_t chunk) {
    const int64_t panel = chunk / blocks, lane = panel / across, first = chunk % blocks * kDepth;
    const int64_t last = smaller(first + kDepth, l.inputs), b = panel % across * kPanel,
        rows = smaller(kPanel, l.batch - b);
    const float* from = x + (lane * l.batch + b) * l.inputs;
    float* to = packed + panel * l.inputs * kPanel;
    for (int64_t half = 0; half < kPanel; half += kWidth) {
      int64_t i = first;
      for (; half + kWidth <= rows && i + kWidth <= last; i += kWidth)
        transpose_square(from + half * l.inputs + i, l.inputs, to + i * kPanel + half, kPanel);
      for (; i < last; ++i)
        for (int64_t n = half; n < half + kWidth; ++n) to[i * kPanel + n] = n < rows ? from[n * l.inputs + i] : 0.0f;
    }
  });
  return packed;
}

// Row m of `to`, `stride` apart, = (or +=) the product of left[m * kRow + d * kStep] with a panel of N vectors,
// with one prefetch per step.
template <int64_t M, int64_t N, int64_t kRow, int64_t kStep>
inline void multiply_fetching(int64_t count, const float* left, const float* right, int64_t depth, float* to,
                              int64_t stride,
                              bool add, Prefetch& next) {
  if constexpr (M > 1) {
    if (count < M) return multiply_fetching<M - 1, N, kRow, kStep>(count, left, right, depth, to, stride, add, next);
  }
  Vector sum[M][N];
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) sum[m][n] = add ? load(to + m * stride + n * kWidth) : Vector{};
  for (int64_t d = 0; d < depth; ++d, left += kStep, right += kPanel) {
    next.fetch();
    Vector column[N];
    for (int64_t n = 0; n < N; ++n) column[n] = load(right + n * kWidth);
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < N; ++n) sum[m][n] += left[m * kRow] * column[n];
  }
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) store(to + m * stride + n * kWidth, sum[m][n]);
}

// out [L, B, O]: multiplies a few rows of weights at a time with the whole batch.
inline void linear(const Linear& l, const float* x, const Weights& w, float* out) {
  const int64_t across = panels(l.batch), tiles = (l.outputs + kRows - 1) / kRows;
  const int64_t per_chunk = smaller(tiles, kMinChunkWork / (l.inputs * l.batch * kRows) + 1);
  const int64_t chunks = (tiles + per_chunk - 1) / per_chunk;
  const float* columns = pack_transposed(l, x);
  parallel_for(l.lanes * chunks, [=](int64_t chunk) {
    const int64_t lane = chunk / chunks, begin = chunk % chunks * per_chunk * kRows;
    const int64_t end = smaller(begin + per_chunk * kRows, l.outputs);
    float* sums = scratch(kTile, across * kRows * kPanel + kRows * kRowStride);
    float* block = sums + across * kRows * kPanel;
    for (int64_t o = begin; o < end; o += kRows) {
      const int64_t count = smaller(kRows, end - o);
      for (int64_t i = 0; i < l.inputs; i += kDepth) {
        const int64_t depth = smaller(kDepth, l.inputs - i);
        const bool more = i + kDepth < l.inputs;  // else the next rows begin
        Prefetch next = ahead(l, w, lane, more ? o : o + kRows, more ? i + kDepth : 0, kRows, kDepth);
        for (int64_t m = 0; m < count; ++m) copy_weights(l, w, lane, o + m, i, depth, block + m * kRowStride);
        for (int64_t p = 0; p < across; ++p) {
          const float* there = columns + ((lane * across + p) * l.inputs + i) * kPanel;
          float* to = sums + p * kRows * kPanel;
          if (l.batch - p * kPanel > kWidth)
            multiply_fetching<kRows, 2, kRowStride, 1>(count, block, there, depth, to, kPanel, i > 0, next);
          else
            multiply_fetching<kRows, 1, kRowStride, 1>(count, block, there, depth, to, kPanel, i > 0, next);
        }
      }
      for (int64_t b = 0; b < l.batch; ++b)
        for (int64_t m = 0; m < count; ++m)
          out[(lane * l.batch + b) * l.outputs + o + m] = sums[(b / kPanel * kRows + m) * kPanel + b % kPanel];
    }
  });
}

constexpr int64_t kSmallCopy = 1 << 12;  // copied faster than another core is notified
constexpr int64_t kLarge = 1 << 20;  // floats: more than the caches of a core hold
constexpr int64_t kInterleaved = 4;  // panels whose weights are read together, for longer contiguous reads

// [L, tiles of B, O, kRows] of a gradient [L, B, O]: its columns, a few at a time.
inline float* pack_columns(const Linear& l, const float* gradient) {
  const int64_t tiles = (l.batch + kRows - 1) / kRows;
  float* packed = scratch(kPacked, l.lanes * tiles * l.outputs * kRows);
  const auto pack = [=](int64_t tile) {
    const int64_t lane = tile / tiles, b = tile % tiles * kRows, count = smaller(kRows, l.batch - b);
    const float* from = gradient + (lane * l.batch + b) * l.outputs;
    float* to = packed + tile * l.outputs * kRows;
    for (int64_t o = 0; o < l.outputs; ++o)
      for (int64_t m = 0; m < count; ++m) to[o * kRows + m] = from[m * l.outputs + o];
  };
  if (l.lanes * l.batch * l.outputs > kSmallCopy) parallel_for(l.lanes * tiles, pack);
  else for (int64_t tile = 0; tile < l.lanes * tiles; ++tile) pack(tile);
  return packed;
}

// out [L, B, I] = gradient [L, B, O] times the weights.
inline void linear_to_inputs(const Linear& l, const float* gradient, const Weights& w, float* out) {
  // Rows and panels of a block. Few and int64_t rows: every row lies on other pages of memory.
  constexpr int64_t kDeep = 32, kMost = 12;
  const int64_t whole = panels(l.inputs), chunks = (whole + kMost - 1) / kMost, tiles = (l.batch + kRows - 1) / kRows;
  const float* packed = pack_columns(l, gradient);
  parallel_for(l.lanes * chunks, [=](int64_t chunk) {
    const int64_t lane = chunk / chunks, n = chunk % chunks, first = n * whole / chunks * kPanel;
    const int64_t across = (n + 1) * whole / chunks - n * whole / chunks, sums = across * kPanel;
    const int64_t columns = smaller(sums, l.inputs - first);
    float* block = scratch(kTile, (kDeep + l.batch) * sums);  // [panels, kDeep, panel]
    float* results = block + kDeep * sums;                    // [B, panels, panel]
    for (int64_t o = 0; o < l.outputs; o += kDeep) {
      const int64_t depth = smaller(kDeep, l.outputs - o);
      for (int64_t d = 0; d < depth; ++d) {
        alignas(64) float row[kMost * kPanel];
        copy_weights(l, w, lane, o + d, first, columns, row);
        for (int64_t p = 0; p < across; ++p)
          copy_panel(row + p * kPanel, columns - p * kPanel, block + (p * kDeep + d) * kPanel);
      }
      Prefetch next = ahead(l, w, lane, o + kDeep, first, kDeep, columns);
      for (int64_t p = 0; p < across; ++p)
        for (int64_t b = 0; b < l.batch; b += kRows)
          multiply_fetching<kRows, 2, 1, kRows>(
              smaller(kRows, l.batch - b), packed + ((lane * tiles + b / kRows) * l.outputs + o) * kRows,
              block + p * kDeep * kPanel, depth, results + b * sums + p * kPanel, sums, o > 0, next);
    }
    for (int64_t b = 0; b < l.batch; ++b)
      for (int64_t n = 0; n < columns; ++n) out[(lane * l.batch + b) * l.inputs + first + n] = results[b * sums + n];
  });
}

// to [M, panel], rows `stride` apart: the sums over the batch of a [B, kRows] times b [B, panel].
template <int64_t M>
inline void outer_panel(int64_t count, int64_t batch, const float* a, const float* b, float* to, int64_t stride) {
  if constexpr (M > 1) {
    if (count < M) return outer_panel<M - 1>(count, batch, a, b, to, stride);
  }
  Vector sum[M][2] = {};
  for (int64_t i = 0; i < batch; ++i, a += kRows, b += kPanel) {
    const Vector first = load(b), second = load(b + kWidth);
    for (int64_t m = 0; m < M; ++m) {
      sum[m][0] += a[m] * first;
      sum[m][1] += a[m] * second;
    }
  }
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < 2; ++n) store(to + m * stride + n * kWidth, sum[m][n]);
}

// kernel = row and sigma = row * out * in (null: no sigma), with non-temporal stores where the weights exceed the
// caches.
inline void write_row(const Linear& l, const float* row, int64_t columns, const float* in, float out, float* kernel,
                      float* sigma) {
  int64_t n = 0;
  if (l.inputs * l.outputs > kLarge && is_aligned(kernel) && (sigma == nullptr || is_aligned(sigma)))
    for (; n + kWidth <= columns; n += kWidth) {
      const Vector v = load(row + n);
      stream(kernel + n, v);
      if (sigma != nullptr) stream(sigma + n, v * out * load(in + n));
    }
  for (; n < columns; ++n) {
    kernel[n] = row[n];
    if (sigma != nullptr) sigma[n] = row[n] * out * in[n];
  }
}

// kernel [L, O, I] = gradient^T x, and sigma the same times the noise of each weight (null: no noise).
inline void linear_to_weights(const Linear& l, const float* gradient, const float* x, const float* noise_in,
                              const float* noise_out, float* kernel, float* sigma) {
  const int64_t wide = 2 * kInterleaved * kPanel, tall = 8 * kRows;
  const int64_t right_chunks = (l.inputs + wide - 1) / wide, down = (l.outputs + tall - 1) / tall;
  parallel_for(l.lanes * right_chunks * down, [=](int64_t chunk) {
    const int64_t lane = chunk / (right_chunks * down), first = chunk / down % right_chunks * wide;
    const int64_t columns = smaller(wide, l.inputs - first), across = panels(columns);
    float* packed = scratch(kTile, (l.batch + kRows) * across * kPanel + l.batch * kRows);  // [panels, B, panel]
    float* rows = packed + across * l.batch * kPanel;                                      // [kRows, panels, panel]
    float* columns_of_gradient = rows + kRows * across * kPanel;                           // [B, kRows]
    for (int64_t b = 0; b < l.batch; ++b)
      for (int64_t p = 0; p < across; ++p)
        copy_panel(x + (lane * l.batch + b) * l.inputs + first + p * kPanel, columns - p * kPanel,
                   packed + (p * l.batch + b) * kPanel);
    const int64_t begin = chunk % down * tall, end = smaller(begin + tall, l.outputs);
    for (int64_t o = begin; o < end; o += kRows) {
      const int64_t count = smaller(kRows, end - o), at = (lane * l.outputs + o) * l.inputs + first;
      for (int64_t b = 0; b < l.batch; ++b)
        for (int64_t m = 0; m < count; ++m)
          columns_of_gradient[b * kRows + m] = gradient[(lane * l.batch + b) * l.outputs + o + m];
      for (int64_t p = 0; p < across; ++p)
        outer_panel<kRows>(count, l.batch, columns_of_gradient, packed + p * l.batch * kPanel, rows + p * kPanel,
                           across * kPanel);
      for (int64_t m = 0; m < count; ++m)  // whole rows at a time: memory takes int64_t pieces better
        write_row(l, rows + m * across * kPanel, columns,
                  sigma == nullptr ? nullptr : noise_in + lane * l.inputs + first,
                  sigma == nullptr ? 0.0f : noise_out[lane * l.outputs + o + m], kernel + at + m * l.inputs,
                  sigma == nullptr ? nullptr : sigma + at + m * l.inputs);
    }
    stream_fence();
  });
}
