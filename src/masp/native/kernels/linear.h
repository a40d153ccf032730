// Linear layers [L, B, I] -> [L, B, O] whose weights are kernel + noise_out * sigma * noise_in (kernel alone where
// sigma is null), made block by block where they are used and never written to memory.

struct Weights {
  const float *kernel, *sigma, *noise_in, *noise_out;  // [L, O, I] twice, [L, I], [L, O]
};

struct Linear {
  long lanes, batch, inputs, outputs;
};

constexpr long kDepth = 256;  // of a block of weights that stays in the first cache

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
    for (long i = first; i < last; ++i) {
      float* to = packed + (panel * l.inputs + i) * kPanel;
      for (long n = 0; n < rows; ++n) to[n] = from[n * l.inputs + i];
      for (long n = rows; n < kPanel; ++n) to[n] = 0.0f;
    }
  });
  return packed;
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
    float* sums = scratch(kTile, across * kRows * kPanel + kRows * kDepth);
    float* block = sums + across * kRows * kPanel;
    for (long o = begin; o < end; o += kRows) {
      const long count = least(kRows, end - o);
      for (long i = 0; i < l.inputs; i += kDepth) {
        const long depth = least(kDepth, l.inputs - i);
        Left left = {{}, 1, 0, depth, 1};
        for (long m = 0; m < count; ++m) {
          if (w.sigma == nullptr) {
            left.rows[m] = w.kernel + (lane * l.outputs + o + m) * l.inputs + i;
          } else {
            weights_of_row(l, w, lane, o + m, i, depth, block + m * kDepth);
            left.rows[m] = block + m * kDepth;
          }
        }
        for (long p = 0; p < across; ++p) {
          const Right right = {columns + ((lane * across + p) * l.inputs + i) * kPanel, kPanel};
          multiply(count, l.batch - p * kPanel, left, right, sums + p * kRows * kPanel, i > 0);
        }
      }
      for (long b = 0; b < l.batch; ++b)
        for (long m = 0; m < count; ++m)
          out[(lane * l.batch + b) * l.outputs + o + m] = sums[(b / kPanel * kRows + m) * kPanel + b % kPanel];
    }
  });
}

constexpr long kAbreast = 4;  // panels whose weights are read together: longer pieces of memory at a time

// out [L, B, I] = gradient [L, B, O] times the weights.
inline void linear_to_inputs(const Linear& l, const float* gradient, const Weights& w, float* out) {
  const long wide = kAbreast * kPanel, chunks = (l.inputs + wide - 1) / wide;
  const long row_tiles = (l.batch + kRows - 1) / kRows;
  each(l.lanes * chunks, [=](long chunk) {
    const long lane = chunk / chunks, first = chunk % chunks * wide, columns = least(wide, l.inputs - first);
    const long across = panels(columns);
    float* sums = scratch(kTile, row_tiles * across * kRows * kPanel + kAbreast * kDepth * kPanel + wide);
    float* block = sums + row_tiles * across * kRows * kPanel;  // [panels, kDepth, panel]
    float* row = block + kAbreast * kDepth * kPanel;
    for (long n = 0; n < wide; ++n) row[n] = 0.0f;
    for (long o = 0; o < l.outputs; o += kDepth) {
      const long depth = least(kDepth, l.outputs - o);
      for (long d = 0; d < depth; ++d) {
        weights_of_row(l, w, lane, o + d, first, columns, row);
        for (long p = 0; p < across; ++p)
          for (long n = 0; n < kPanel; ++n) block[(p * kDepth + d) * kPanel + n] = row[p * kPanel + n];
      }
      for (long t = 0; t < row_tiles; ++t) {
        const long count = least(kRows, l.batch - t * kRows);
        Left left = {{}, 1, 0, depth, 1};
        for (long m = 0; m < count; ++m)
          left.rows[m] = gradient + (lane * l.batch + t * kRows + m) * l.outputs + o;
        for (long p = 0; p < across; ++p)
          multiply(count, columns - p * kPanel, left, {block + p * kDepth * kPanel, kPanel},
                   sums + (t * across + p) * kRows * kPanel, o > 0);
      }
    }
    for (long b = 0; b < l.batch; ++b)
      for (long n = 0; n < columns; ++n)
        out[(lane * l.batch + b) * l.inputs + first + n] =
            sums[((b / kRows * across + n / kPanel) * kRows + b % kRows) * kPanel + n % kPanel];
  });
}

// kernel [L, O, I] = gradient^T x, and sigma the same times the noise of each weight (null: there is none).
inline void linear_to_weights(const Linear& l, const float* gradient, const float* x, const float* noise_in,
                              const float* noise_out, float* kernel, float* sigma) {
  const long wide = 2 * kAbreast * kPanel, tall = 8 * kRows;
  const long right_chunks = (l.inputs + wide - 1) / wide, down = (l.outputs + tall - 1) / tall;
  each(l.lanes * right_chunks * down, [=](long chunk) {
    const long lane = chunk / (right_chunks * down), first = chunk / down % right_chunks * wide;
    const long columns = least(wide, l.inputs - first), across = panels(columns);
    float* packed = scratch(kTile, across * l.batch * kPanel + kRows * kPanel);  // [panels, B, panel]
    float* sums = packed + across * l.batch * kPanel;
    for (long b = 0; b < l.batch; ++b)
      for (long n = 0; n < across * kPanel; ++n)
        packed[(n / kPanel * l.batch + b) * kPanel + n % kPanel] =
            n < columns ? x[(lane * l.batch + b) * l.inputs + first + n] : 0.0f;
    const long begin = chunk % down * tall, end = least(begin + tall, l.outputs);
    for (long o = begin; o < end; o += kRows) {
      const long count = least(kRows, end - o);
      Left left = {{}, 1, 0, l.batch, l.outputs};
      for (long m = 0; m < count; ++m) left.rows[m] = gradient + lane * l.batch * l.outputs + o + m;
      for (long p = 0; p < across; ++p) {
        multiply(count, columns - p * kPanel, left, {packed + p * l.batch * kPanel, kPanel}, sums, false);
        const long i = first + p * kPanel, here = least(kPanel, columns - p * kPanel);
        for (long m = 0; m < count; ++m) {
          const long at = (lane * l.outputs + o + m) * l.inputs + i;
          for (long n = 0; n < here; ++n) kernel[at + n] = sums[m * kPanel + n];
          if (sigma == nullptr) continue;
          const float* in = noise_in + lane * l.inputs + i;
          const float noise = noise_out[lane * l.outputs + o + m];
          for (long n = 0; n < here; ++n) sigma[at + n] = sums[m * kPanel + n] * noise * in[n];
        }
      }
    }
  });
}
