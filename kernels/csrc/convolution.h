// Convolutions of [L, B, H, W, C] with [L, k, k, C, F], without padding, for L lanes; patches are read in place:
// a row of a patch is k * C contiguous floats.

// [rows, columns] itself where rows are whole panels, else a copy with padded rows.
inline Right whole_panels(const float* data, int64_t rows, int64_t columns) {
  if (columns % kPanel == 0 || columns == kWidth) return {data, columns};
  const int64_t wide = panels(columns) * kPanel;
  float* packed = scratch(kPacked, rows * wide);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < wide; ++c) packed[r * wide + c] = c < columns ? data[r * columns + c] : 0.0f;
  return {packed, wide};
}

inline void convolve(const Convolution& c, const float* x, const float* kernel, float* out) {
  const int64_t F = c.features, rows = c.batch * c.pixels();
  const int64_t per_chunk = rounded_up(kMinChunkWork / (c.depth() * F) + 1, kRows);
  const int64_t chunks = (rows + per_chunk - 1) / per_chunk;
  const Right right = whole_panels(kernel, c.lanes * c.depth(), F);
  parallel_for(c.lanes * chunks, [=](int64_t chunk) {
    const int64_t lane = chunk / chunks, first = chunk % chunks * per_chunk, last = smaller(first + per_chunk, rows);
    const float* images = x + lane * c.batch * c.image();
    float* results = out + lane * rows * F;
    Left left = {{}, c.size, c.width * c.channels, c.run(), 1};
    int64_t starts[kRows];
    for (int64_t row = first; row < last; row += kRows) {
      const int64_t count = smaller(kRows, last - row);
      c.patches(row, count, starts);
      for (int64_t m = 0; m < count; ++m) left.rows[m] = images + starts[m];
      for (int64_t f = 0; f < F; f += kPanel) {
        const Right there = {right.data + lane * c.depth() * right.stride + f, right.stride};
        multiply(count, F - f, left, there, results + row * F + f, F, false);
      }
    }
  });
}

// The gradient of the kernel: every patch times the gradient [L, B, H', W', F] at its pixel.
inline void convolve_to_kernel(const Convolution& c, const float* x, const float* gradient, float* out) {
  const int64_t F = c.features, K = c.depth(), pixels = c.pixels();
  const Right right = whole_panels(gradient, c.lanes * c.batch * pixels, F);
  const int64_t chunks = (K + kRows - 1) / kRows;
  parallel_for(c.lanes * chunks, [=](int64_t chunk) {
    const int64_t lane = chunk / chunks, first = chunk % chunks * kRows, count = smaller(kRows, K - first);
    Left left = {{}, c.out_height(), c.stride * c.width * c.channels, c.out_width(), c.stride * c.channels};
    int64_t places[kRows];
    for (int64_t m = 0; m < count; ++m)
      places[m] = (first + m) / c.run() * c.width * c.channels + (first + m) % c.run();
    for (int64_t b = 0; b < c.batch; ++b) {
      const int64_t image = lane * c.batch + b;
      for (int64_t m = 0; m < count; ++m) left.rows[m] = x + image * c.image() + places[m];
      for (int64_t f = 0; f < F; f += kPanel) {
        const Right there = {right.data + image * pixels * right.stride + f, right.stride};
        multiply(count, F - f, left, there, out + (lane * K + first) * F + f, F, b > 0);
      }
    }
  });
}

// The gradient of the images: every output pixel times the kernel, added to its patch.
inline void convolve_to_images(const Convolution& c, const float* gradient, const float* kernel, float* out) {
  const int64_t F = c.features, pixels = c.pixels(), run = c.run(), across = panels(run);
  // The kernel of a lane as [rows of a patch, panels of such a row, F, panel].
  const int64_t packed_size = c.size * across * F * kPanel;
  float* packed = scratch(kPacked, c.lanes * packed_size);
  parallel_for(c.lanes * c.size * across, [=](int64_t i) {
    const int64_t panel = i % across, row = i / across;  // a row of a patch, of all lanes
    for (int64_t f = 0; f < F; ++f)
      for (int64_t n = 0; n < kPanel; ++n) {
        const int64_t j = panel * kPanel + n;
        packed[(i * F + f) * kPanel + n] = j < run ? kernel[(row * run + j) * F + f] : 0.0f;
      }
  });
  parallel_for(c.lanes * c.batch, [=](int64_t image) {
    const float* sent = gradient + image * pixels * F;
    float* to = out + image * c.image();
    float* sums = scratch(kTile, kRows * kPanel);
    for (int64_t i = 0; i < c.image(); ++i) to[i] = 0.0f;
    Left left = {{}, 1, 0, F, 1};
    int64_t starts[kRows];
    for (int64_t pixel = 0; pixel < pixels; pixel += kRows) {
      const int64_t count = smaller(kRows, pixels - pixel);
      for (int64_t m = 0; m < count; ++m) left.rows[m] = sent + (pixel + m) * F;
      c.patches(pixel, count, starts);
      for (int64_t i = 0; i < c.size * across; ++i) {
        const int64_t column = i % across * kPanel, columns = smaller(kPanel, run - column);
        const Right right = {packed + image / c.batch * packed_size + i * F * kPanel, kPanel};
        multiply(count, columns, left, right, sums, kPanel, false);
        for (int64_t m = 0; m < count; ++m) {
          float* place = to + starts[m] + i / across * c.width * c.channels + column;
          for (int64_t n = 0; n < columns; ++n) place[n] += sums[m * kPanel + n];
        }
      }
    }
  });
}
