// Linear layers [L, B, I] -> [L, B, O] whose weights are kernel + noise_out * sigma * noise_in (kernel alone where
// sigma is null), made block by block where they are used and never written to memory.

constexpr long kDepth = 128;  // of a block of weights that stays in the first cache
constexpr long kApart = kDepth + 16;  // of its rows: at a power of two they would fall on the same few places there

// Weights that will be wanted soon, asked for while others are multiplied: they come from afar, in pieces too short for
// the processor to see where they go on. Past the end of the weights it does no harm.
struct Ahead {
  const float *kernel, *sigma;
  long rows, apart, lines;  // `lines` of a row at `kernel` and at `sigma` (null: there is none), rows `apart`

  void fetch(long line) const {
    const long at = line / lines * apart + line % lines * 16;
    __builtin_prefetch(kernel + at, 0, 2);
    if (sigma != nullptr) __builtin_prefetch(sigma + at, 0, 2);
  }
};

inline Ahead ahead(const Linear& l, const Weights& w, long lane, long o, long i, long rows, long columns) {
  const long at = (lane * l.outputs + o) * l.inputs + i;
  return {w.kernel + at, w.sigma == nullptr ? nullptr : w.sigma + at, rows, l.inputs, (columns + 15) / 16};
}

// to[0..count) = weights [o, i..i+count) of a lane.
inline void weights_of_row(const Linear& l, const Weights& w, long lane, long o, long i, long count, float* to) {
  const long at = (lane * l.outputs + o) * l.inputs + i;
  if (w.sigma == nullptr) {
    for (long n = 0; n < count; ++n) to[n] = w.kernel[at + n];
    return;
  }
  const float out = w.noise_out[lane * l.outputs + o];
  const float* in = w.noise_in + lane * l.inputs + i;
  for (long n = 0; n < count; ++n) to[n] = w.kernel[at + n] + out * w.sigma[at + n] * in[n];
}

// [L, panels of B, I, panel] of x [L, B, I]: its columns, side by side.
inline float* transposed(const Linear& l, const float* x) {
  const long across = panels(l.batch), blocks = (l.inputs + kDepth - 1) / kDepth;
  float* packed = scratch(kPacked, l.lanes * across * l.inputs * kPanel);
  each(l.lanes * across * blocks, [=](long chunk) {
    const long panel = chunk / blocks, lane = panel / across, first = chunk % blocks * kDepth;
    const long last = least(first + kDepth, l.inputs), b = panel % across * kPanel, rows = least(kPanel, l.batch - b);
    const float* from = x + (lane * l.batch + b) * l.inputs;
    float* to = packed + panel * l.inputs * kPanel;
    for (long half = 0; half < kPanel; half += kWidth) {
      long i = first;
      for (; half + kWidth <= rows && i + kWidth <= last; i += kWidth)
        transpose_square(from + half * l.inputs + i, l.inputs, to + i * kPanel + half, kPanel);
      for (; i < last; ++i)
        for (long n = half; n < half + kWidth; ++n) to[i * kPanel + n] = n < rows ? from[n * l.inputs + i] : 0.0f;
    }
  });
  return packed;
}

// kRows rows of weights, made already, times a panel of the batch; with lines to fetch meanwhile.
template <long N>
inline void multiply_fetching(const float* block, const float* b, long depth, float* to, bool add, const Ahead& next) {
  Vector sum[kRows][N];
  for (long m = 0; m < kRows; ++m)
    for (long n = 0; n < N; ++n) sum[m][n] = add ? load(to + m * kPanel + n * kWidth) : Vector{};
  const long lines = next.rows * next.lines;
  for (long d = 0; d < depth; ++d, b += kPanel) {
    if (d < lines) next.fetch(d);
    Vector column[N];
    for (long n = 0; n < N; ++n) column[n] = load(b + n * kWidth);
    for (long m = 0; m < kRows; ++m)
      for (long n = 0; n < N; ++n) sum[m][n] += block[m * kApart + d] * column[n];
  }
  for (long m = 0; m < kRows; ++m)
    for (long n = 0; n < N; ++n) store(to + m * kPanel + n * kWidth, sum[m][n]);
}

// out [L, B, O]: a few rows of weights at a time meet all of the batch.
inline void linear(const Linear& l, const float* x, const Weights& w, float* out) {
  const long across = panels(l.batch), tiles = (l.outputs + kRows - 1) / kRows;
  const long per_chunk = least(tiles, kSmallest / (l.inputs * l.batch * kRows) + 1);
  const long chunks = (tiles + per_chunk - 1) / per_chunk;
  const float* columns = transposed(l, x);
  each(l.lanes * chunks, [=](long chunk) {
    const long lane = chunk / chunks, begin = chunk % chunks * per_chunk * kRows;
    const long end = least(begin + per_chunk * kRows, l.outputs);
    float* sums = scratch(kTile, across * kRows * kPanel + kRows * kApart);
    float* block = sums + across * kRows * kPanel;
    for (long o = begin; o < end; o += kRows) {
      const long count = least(kRows, end - o);
      for (long m = count; m < kRows; ++m)  // rows past the end are multiplied, too
        for (long n = 0; n < kDepth; ++n) block[m * kApart + n] = 0.0f;
      for (long i = 0; i < l.inputs; i += kDepth) {
        const long depth = least(kDepth, l.inputs - i);
        const bool more = i + kDepth < l.inputs;  // else the next rows begin
        const Ahead next = ahead(l, w, lane, more ? o : o + kRows, more ? i + kDepth : 0, kRows, kDepth);
        for (long m = 0; m < count; ++m) weights_of_row(l, w, lane, o + m, i, depth, block + m * kApart);
        for (long p = 0; p < across; ++p) {
          const float* there = columns + ((lane * across + p) * l.inputs + i) * kPanel;
          float* to = sums + p * kRows * kPanel;
          if (l.batch - p * kPanel <= kWidth) multiply_fetching<1>(block, there, depth, to, i > 0, next);
          else multiply_fetching<2>(block, there, depth, to, i > 0, next);
        }
      }
      for (long b = 0; b < l.batch; ++b)
        for (long m = 0; m < count; ++m)
          out[(lane * l.batch + b) * l.outputs + o + m] = sums[(b / kPanel * kRows + m) * kPanel + b % kPanel];
    }
  });
}

constexpr long kLarge = 1 << 20;  // numbers: more than stays near a core
constexpr long kAbreast = 4;  // panels whose weights are read together: longer pieces of memory at a time

// out [L, B, I] = gradient [L, B, O] times the weights.
inline void linear_to_inputs(const Linear& l, const float* gradient, const Weights& w, float* out) {
  const long wide = kAbreast * kPanel, chunks = (l.inputs + wide - 1) / wide;
  each(l.lanes * chunks, [=](long chunk) {
    const long lane = chunk / chunks, first = chunk % chunks * wide, columns = least(wide, l.inputs - first);
    const long across = panels(columns), tiles = (l.batch + kRows - 1) / kRows;
    float* block = scratch(kTile, across * kDepth * kPanel);  // [panels, kDepth, panel]
    float* results = out + lane * l.batch * l.inputs + first;
    for (long o = 0; o < l.outputs; o += kDepth) {
      const long depth = least(kDepth, l.outputs - o);
      for (long d = 0; d < depth; ++d) {
        float row[kAbreast * kPanel];
        weights_of_row(l, w, lane, o + d, first, columns, row);
        for (long p = 0; p < across; ++p)
          copy_panel(row + p * kPanel, columns - p * kPanel, block + (p * kDepth + d) * kPanel);
      }
      const Ahead next = ahead(l, w, lane, o + kDepth, first, kDepth, columns);
      const long lines = next.rows * next.lines, steps = across * tiles;
      for (long p = 0; p < across; ++p)
        for (long t = 0; t < tiles; ++t) {
          const long step = p * tiles + t, b = t * kRows, count = least(kRows, l.batch - b);
          for (long line = step * lines / steps; line < (step + 1) * lines / steps; ++line) next.fetch(line);
          Left left = {{}, 1, 0, depth, 1};
          for (long m = 0; m < count; ++m) left.rows[m] = gradient + (lane * l.batch + b + m) * l.outputs + o;
          multiply(count, columns - p * kPanel, left, {block + p * kDepth * kPanel, kPanel},
                   results + b * l.inputs + p * kPanel, l.inputs, o > 0);
        }
    }
  });
}

// to [M, panel], rows `stride` apart: the sums over the batch of a [B, kRows] times b [B, panel].
template <long M>
inline void outer_panel(long count, long batch, const float* a, const float* b, float* to, long stride) {
  if constexpr (M > 1) {
    if (count < M) return outer_panel<M - 1>(count, batch, a, b, to, stride);
  }
  Vector sum[M][2] = {};
  for (long i = 0; i < batch; ++i, a += kRows, b += kPanel) {
    const Vector first = load(b), second = load(b + kWidth);
    for (long m = 0; m < M; ++m) {
      sum[m][0] += a[m] * first;
      sum[m][1] += a[m] * second;
    }
  }
  for (long m = 0; m < M; ++m)
    for (long n = 0; n < 2; ++n) store(to + m * stride + n * kWidth, sum[m][n]);
}

// kernel = row and sigma = row * out * in (null: there is none), past the caches where all weights would not fit.
inline void write_row(const Linear& l, const float* row, long columns, const float* in, float out, float* kernel,
                      float* sigma) {
  long n = 0;
  if (l.inputs * l.outputs > kLarge && whole_vectors(kernel) && (sigma == nullptr || whole_vectors(sigma)))
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

// kernel [L, O, I] = gradient^T x, and sigma the same times the noise of each weight (null: there is none).
inline void linear_to_weights(const Linear& l, const float* gradient, const float* x, const float* noise_in,
                              const float* noise_out, float* kernel, float* sigma) {
  const long wide = 2 * kAbreast * kPanel, tall = 8 * kRows;
  const long right_chunks = (l.inputs + wide - 1) / wide, down = (l.outputs + tall - 1) / tall;
  each(l.lanes * right_chunks * down, [=](long chunk) {
    const long lane = chunk / (right_chunks * down), first = chunk / down % right_chunks * wide;
    const long columns = least(wide, l.inputs - first), across = panels(columns);
    float* packed = scratch(kTile, (l.batch + kRows) * across * kPanel + l.batch * kRows);  // [panels, B, panel]
    float* rows = packed + across * l.batch * kPanel;                                      // [kRows, panels, panel]
    float* columns_of_gradient = rows + kRows * across * kPanel;                           // [B, kRows]
    for (long b = 0; b < l.batch; ++b)
      for (long p = 0; p < across; ++p)
        copy_panel(x + (lane * l.batch + b) * l.inputs + first + p * kPanel, columns - p * kPanel,
                   packed + (p * l.batch + b) * kPanel);
    const long begin = chunk % down * tall, end = least(begin + tall, l.outputs);
    for (long o = begin; o < end; o += kRows) {
      const long count = least(kRows, end - o), at = (lane * l.outputs + o) * l.inputs + first;
      for (long b = 0; b < l.batch; ++b)
        for (long m = 0; m < count; ++m)
          columns_of_gradient[b * kRows + m] = gradient[(lane * l.batch + b) * l.outputs + o + m];
      for (long p = 0; p < across; ++p)
        outer_panel<kRows>(count, l.batch, columns_of_gradient, packed + p * l.batch * kPanel, rows + p * kPanel,
                           across * kPanel);
      for (long m = 0; m < count; ++m)  // whole rows at a time: memory takes long pieces better
        write_row(l, rows + m * across * kPanel, columns, sigma == nullptr ? nullptr : noise_in + lane * l.inputs + first,
                  sigma == nullptr ? 0.0f : noise_out[lane * l.outputs + o + m], kernel + at + m * l.inputs,
                  sigma == nullptr ? nullptr : sigma + at + m * l.inputs);
    }
    streamed();
  });
}
