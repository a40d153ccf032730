// Linear layers without noise whose weights fit in the caches. The work is divided into equal shares, because here one
// chunk is a large part of the whole.

constexpr int64_t kSmallWeights = 1 << 18;

inline bool is_small(const Linear& l, const Weights& w) {
  return w.sigma == nullptr && l.inputs * l.outputs <= kSmallWeights;
}

// Rows of weights in tiles of equal height, an even number of them.
struct Tiles {
  int64_t count, height;
};

inline Tiles even_tiles(int64_t rows) {
  const int64_t count = rounded_up((rows + kRows - 1) / kRows, 2);
  return {count, (rows + count - 1) / count};
}

// Row m of `to`, `stride` apart, = (or +=) the product of left[m * kRow + d * kStep] with a panel of N vectors. Strides
// are template arguments, so that the loop contains little but the product.
template <int64_t M, int64_t N, int64_t kRow, int64_t kStep>
inline void multiply_packed(int64_t count, const float* left, const float* right, int64_t depth, float* to,
                            int64_t stride,
                            bool add) {
  if constexpr (M > 1) {
    if (count < M) return multiply_packed<M - 1, N, kRow, kStep>(count, left, right, depth, to, stride, add);
  }
  Vector sum[M][N];
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) sum[m][n] = add ? load(to + m * stride + n * kWidth) : Vector{};
  for (int64_t d = 0; d < depth; ++d, left += kStep, right += kPanel) {
    Vector column[N];
    for (int64_t n = 0; n < N; ++n) column[n] = load(right + n * kWidth);
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < N; ++n) sum[m][n] += left[m * kRow] * column[n];
  }
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) store(to + m * stride + n * kWidth, sum[m][n]);
}

// As `linear`.
inline void small_linear(const Linear& l, const float* x, const float* weights, float* out) {
  constexpr int64_t kBlock = 256, kStride = kBlock + 16;
  const Tiles tiles = even_tiles(l.outputs);
  const int64_t across = panels(l.batch), per_chunk = kMinChunkWork / (l.inputs * l.batch * tiles.height) + 1;
  const int64_t chunks = (tiles.count + per_chunk - 1) / per_chunk;
  const float* columns = pack_transposed(l, x);
  parallel_for(l.lanes * chunks, [=](int64_t chunk) {
    const int64_t lane = chunk / chunks, begin = chunk % chunks * per_chunk * tiles.height;
    const int64_t end = smaller(begin + per_chunk * tiles.height, l.outputs);
    float* sums = scratch(kTile, across * kRows * kPanel + kRows * kStride);
    float* block = sums + across * kRows * kPanel;
    for (int64_t o = begin; o < end; o += tiles.height) {
      const int64_t count = smaller(tiles.height, end - o);
      for (int64_t i = 0; i < l.inputs; i += kBlock) {
        const int64_t depth = smaller(kBlock, l.inputs - i);
        for (int64_t m = 0; m < count; ++m) {
          const float* row = weights + (lane * l.outputs + o + m) * l.inputs + i;
          for (int64_t n = 0; n < depth; ++n) block[m * kStride + n] = row[n];
        }
        for (int64_t p = 0; p < across; ++p) {
          const float* right = columns + ((lane * across + p) * l.inputs + i) * kPanel;
          float* to = sums + p * kRows * kPanel;
          if (l.batch - p * kPanel > kWidth)
            multiply_packed<kRows, 2, kStride, 1>(count, block, right, depth, to, kPanel, i > 0);
          else
            multiply_packed<kRows, 1, kStride, 1>(count, block, right, depth, to, kPanel, i > 0);
        }
      }
      for (int64_t b = 0; b < l.batch; ++b)
        for (int64_t m = 0; m < count; ++m)
          out[(lane * l.batch + b) * l.outputs + o + m] = sums[(b / kPanel * kRows + m) * kPanel + b % kPanel];
    }
  });
}

// As `linear_to_weights`.
inline void small_to_weights(const Linear& l, const float* gradient, const float* x, float* kernel) {
  const Tiles tiles = even_tiles(l.outputs);
  float* packed = scratch(kPacked, l.lanes * tiles.count * l.batch * kRows);  // [L, tiles, B, kRows]
  for (int64_t lane = 0; lane < l.lanes; ++lane)
    for (int64_t b = 0; b < l.batch; ++b)
      for (int64_t o = 0, tile = 0; o < l.outputs; o += tiles.height, ++tile)
        for (int64_t m = 0; m < smaller(tiles.height, l.outputs - o); ++m)
          packed[((lane * tiles.count + tile) * l.batch + b) * kRows + m] =
              gradient[(lane * l.batch + b) * l.outputs + o + m];
  const int64_t halves = l.inputs * l.batch * l.outputs > kMinChunkWork ? 2 : 1, down = tiles.count / halves;
  constexpr int64_t kWide = 8 * kPanel;
  const int64_t blocks = (l.inputs + kWide - 1) / kWide;
  parallel_for(l.lanes * halves * blocks, [=](int64_t chunk) {
    const int64_t lane = chunk / (halves * blocks), half = chunk / blocks % halves, first = chunk % blocks * kWide;
    const int64_t columns = smaller(kWide, l.inputs - first), across = panels(columns);
    float* there = scratch(kTile, l.batch * across * kPanel);  // [panels, B, panel]
    for (int64_t b = 0; b < l.batch; ++b)
      for (int64_t p = 0; p < across; ++p)
        copy_panel(x + (lane * l.batch + b) * l.inputs + first + p * kPanel, columns - p * kPanel,
                   there + (p * l.batch + b) * kPanel);
    for (int64_t tile = half * down; tile < (half + 1) * down; ++tile) {
      const int64_t o = tile * tiles.height, count = smaller(tiles.height, l.outputs - o);
      const float* left = packed + (lane * tiles.count + tile) * l.batch * kRows;
      float* to = kernel + (lane * l.outputs + o) * l.inputs + first;
      for (int64_t p = 0; p < across && count > 0; ++p) {
        const float* right = there + p * l.batch * kPanel;
        const int64_t here = columns - p * kPanel;
        if (here >= kPanel) {
          multiply_packed<kRows, 2, 1, kRows>(count, left, right, l.batch, to + p * kPanel, l.inputs, false);
          continue;
        }
        alignas(64) float whole[kRows * kPanel];
        multiply_packed<kRows, 2, 1, kRows>(count, left, right, l.batch, whole, kPanel, false);
        for (int64_t m = 0; m < count; ++m)
          for (int64_t n = 0; n < here; ++n) to[m * l.inputs + p * kPanel + n] = whole[m * kPanel + n];
      }
    }
  });
}
