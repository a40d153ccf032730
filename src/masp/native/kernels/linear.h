// Linear layers [L, B, I] -> [L, B, O] whose weights are kernel + noise_out * sigma * noise_in (kernel alone where
// sigma is null), made block by block where they are used and never written to memory.

constexpr long kDepth = 256;  // of a block of weights that stays in the first cache
constexpr long kApart = kDepth + 16;  // of its rows: at a power of two they would fall on the same few places there

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
      for (long i = 0; i < l.inputs; i += kDepth) {
        const long depth = least(kDepth, l.inputs - i);
        Left left = {{}, 1, 0, depth, 1};
        for (long m = 0; m < count; ++m) {
          weights_of_row(l, w, lane, o + m, i, depth, block + m * kApart);
          left.rows[m] = block + m * kApart;
        }
        for (long p = 0; p < across; ++p) {
          const Right right = {columns + ((lane * across + p) * l.inputs + i) * kPanel, kPanel};
          multiply(count, kPanel, left, right, sums + p * kRows * kPanel, kPanel, i > 0);
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
  each(l.lanes * chunks, [=](long chunk) {
    const long lane = chunk / chunks, first = chunk % chunks * wide, columns = least(wide, l.inputs - first);
    const long across = panels(columns);
    float* block = scratch(kTile, across * kDepth * kPanel);  // [panels, kDepth, panel]
    float* results = out + lane * l.batch * l.inputs + first;
    for (long o = 0; o < l.outputs; o += kDepth) {
      const long depth = least(kDepth, l.outputs - o);
      for (long d = 0; d < depth; ++d)
        for (long p = 0; p < across; ++p) {
          float* to = block + (p * kDepth + d) * kPanel;
          const long here = least(kPanel, columns - p * kPanel);
          weights_of_row(l, w, lane, o + d, first + p * kPanel, here, to);
          for (long n = here; n < kPanel; ++n) to[n] = 0.0f;
        }
      for (long b = 0; b < l.batch; b += kRows) {
        const long count = least(kRows, l.batch - b);
        Left left = {{}, 1, 0, depth, 1};
        for (long m = 0; m < count; ++m) left.rows[m] = gradient + (lane * l.batch + b + m) * l.outputs + o;
        for (long p = 0; p < across; ++p)
          multiply(count, columns - p * kPanel, left, {block + p * kDepth * kPanel, kPanel},
                   results + b * l.inputs + p * kPanel, l.inputs, o > 0);
      }
    }
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
    float* packed = scratch(kTile, l.batch * (across * kPanel + kRows));  // [panels, B, panel]
    float* columns_of_gradient = packed + across * l.batch * kPanel;     // [B, kRows]
    for (long b = 0; b < l.batch; ++b)
      for (long p = 0; p < across; ++p)
        copy_panel(x + (lane * l.batch + b) * l.inputs + first + p * kPanel, columns - p * kPanel,
                   packed + (p * l.batch + b) * kPanel);
    const long begin = chunk % down * tall, end = least(begin + tall, l.outputs);
    for (long o = begin; o < end; o += kRows) {
      const long count = least(kRows, end - o), at = (lane * l.outputs + o) * l.inputs + first;
      Left left = {{}, 1, 0, l.batch, kRows};
      for (long b = 0; b < l.batch; ++b)
        for (long m = 0; m < count; ++m)
          columns_of_gradient[b * kRows + m] = gradient[(lane * l.batch + b) * l.outputs + o + m];
      for (long m = 0; m < count; ++m) left.rows[m] = columns_of_gradient + m;
      for (long p = 0; p < across; ++p)
        multiply(count, columns - p * kPanel, left, {packed + p * l.batch * kPanel, kPanel}, kernel + at + p * kPanel,
                 l.inputs, false);
      for (long m = 0; sigma != nullptr && m < count; ++m) {
        const float noise = noise_out[lane * l.outputs + o + m];
        const float *in = noise_in + lane * l.inputs + first, *row = kernel + at + m * l.inputs;
        float* to = sigma + at + m * l.inputs;
        for (long n = 0; n < columns; ++n) to[n] = row[n] * noise * in[n];
      }
    }
  });
}
