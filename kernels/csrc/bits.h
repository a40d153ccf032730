// Convolutions of 0/1 planes with ReLU: adds the weights of the ones only, in the order of a dense product, so the sums
// are the same. Planes are bits of integers [L, B, H, W, C]; weights are [L, F, k * k * C * bits].

// A cell with ones; entries begin to end are the offsets of the weights of its planes.
struct Cell {
  int y, x, begin, end;
};

struct Ones {
  const Cell *cells, *last;
  const int* entry;
};

// The ones of an image; an entry is the index of the plane times `wide`.
inline Ones find_ones(const Bits& c, const void* numbers, int64_t image, int64_t wide) {
  const int64_t cells = c.height * c.width, row = c.width * c.channels;
  int* memory = reinterpret_cast<int*>(scratch(kOnes, cells * 4 * c.planes() + cells * c.planes()));
  Cell *first_cell = reinterpret_cast<Cell*>(memory), *last = first_cell;
  int *entry = memory + cells * 4 * c.planes(), count = 0;
  const uint32_t used = c.bits == 32 ? ~0u : (1u << c.bits) - 1;
  const uint8_t* bytes = static_cast<const uint8_t*>(numbers) + image * cells * c.channels;
  const uint32_t* words = static_cast<const uint32_t*>(numbers) + image * cells * c.channels;
  for (int y = 0; y < c.height; ++y)
    for (int64_t i = 0; i < row; ++i) {
      if (c.bytes)  // most are zero: test eight at a time
        for (uint64_t eight; i + 8 <= row; i += 8) {
          __builtin_memcpy(&eight, bytes + y * row + i, 8);
          if (eight != 0) {
            i += __builtin_ctzll(eight) / 8;
            break;
          }
        }
      if (i >= row) break;
      const uint32_t number = used & (c.bytes ? bytes[y * row + i] : words[y * row + i]);
      const int begin = count, x = static_cast<int>(i / c.channels), first = static_cast<int>(i % c.channels * c.bits);
      for (uint32_t left = number; left != 0; left &= left - 1)
        entry[count++] = (first + __builtin_ctz(left)) * static_cast<int>(wide);
      *last = {y, x, begin, count};
      last += number != 0;
    }
  return {first_cell, last, entry};
}

// body(pixel, tap) for all pixels whose patch has the cell, as its tap.
template <class Body>
inline void for_each_pixel(const Bits& c, const Cell& cell, Body body) {
  const int64_t rows = c.height - c.size + 1, columns = c.width - c.size + 1;
  const int64_t last_i = smaller(c.size - 1, cell.y), last_j = smaller(c.size - 1, cell.x);
  for (int64_t i = cell.y < rows ? 0 : cell.y - rows + 1; i <= last_i; ++i)
    for (int64_t j = cell.x < columns ? 0 : cell.x - columns + 1; j <= last_j; ++j)
      body((cell.y - i) * columns + cell.x - j, i * c.size + j);
}

// [depth, wide] of the weights [F, depth] of a lane: rows padded to whole vectors; and the inverse.
inline void pack_by_depth(const Bits& c, const float* from, int64_t wide, float* to) {
  const int64_t depth = c.depth(), F = c.features;
  for (int64_t f = 0; f < wide; f += kWidth) {
    int64_t d = 0;
    for (; f + kWidth <= F && d + kWidth <= depth; d += kWidth)
      transpose_square(from + f * depth + d, depth, to + d * wide + f, wide);
    for (; d < depth; ++d)
      for (int64_t n = f; n < f + kWidth; ++n) to[d * wide + n] = n < F ? from[n * depth + d] : 0.0f;
  }
}

inline void unpack_by_depth(const Bits& c, const float* from, int64_t wide, float* to) {
  const int64_t depth = c.depth(), F = c.features;
  for (int64_t f = 0; f < F; f += kWidth) {
    int64_t d = 0;
    for (; f + kWidth <= F && d + kWidth <= depth; d += kWidth)
      transpose_square(from + d * wide + f, wide, to + f * depth + d, depth);
    for (; d < depth; ++d)
      for (int64_t n = f; n < smaller(f + kWidth, F); ++n) to[n * depth + d] = from[d * wide + n];
  }
}

inline const float* by_depth(const Bits& c, const float* kernel, int64_t wide) {
  const int64_t depth = c.depth();
  float* packed = scratch(kPacked, c.lanes * depth * wide);
  for (int64_t lane = 0; lane < c.lanes; ++lane)
    pack_by_depth(c, kernel + lane * c.features * depth, wide, packed + lane * depth * wide);
  return packed;
}

// Load and store of a vector of which only `count` elements exist.
inline Vector load_partial(const float* from, int64_t count) {
  if (count >= kWidth) return load(from);
  Vector v = {};
  for (int64_t n = 0; n < count; ++n) v[n] = from[n];
  return v;
}

inline void store_partial(float* to, Vector v, int64_t count) {
  if (count >= kWidth) return store(to, v);
  for (int64_t n = 0; n < count; ++n) to[n] = v[n];
}

inline Vector where_positive_vector(Vector gate, Vector v) { return gate > 0.0f ? v : Vector{}; }

// sums [pixels, N vectors] of the rows of weights for the ones of every patch.
template <int64_t N>
inline void add_rows(const Bits& c, const Ones& ones, const float* weights, int64_t wide, float* sums) {
  for (int64_t i = 0; i < c.pixels() * N; ++i) store(sums + i * kWidth, Vector{});
  for (const Cell* cell = ones.cells; cell != ones.last; ++cell)
    for_each_pixel(c, *cell, [&](int64_t pixel, int64_t tap) {
      const float* row = weights + tap * c.planes() * wide;
      Vector sum[N];
      for (int64_t n = 0; n < N; ++n) sum[n] = load(sums + (pixel * N + n) * kWidth);
      for (int e = cell->begin; e < cell->end; ++e)
        for (int64_t n = 0; n < N; ++n) sum[n] += load(row + ones.entry[e] + n * kWidth);
      for (int64_t n = 0; n < N; ++n) store(sums + (pixel * N + n) * kWidth, sum[n]);
    });
}

template <int64_t N>
inline void convolve_image(const Bits& c, const Ones& ones, const float* weights, int64_t wide, const float* bias,
                           const float* gate, float* out, int64_t features) {
  float* sums = scratch(kTile, c.pixels() * N * kWidth);
  add_rows<N>(c, ones, weights, wide, sums);
  for (int64_t n = 0; n < N; ++n) {
    const int64_t count = features - n * kWidth;
    const Vector added = load_partial(bias + n * kWidth, count);
    for (int64_t pixel = 0; pixel < c.pixels(); ++pixel) {
      const Vector v = load(sums + (pixel * N + n) * kWidth) + added;
      const int64_t at = pixel * c.features + n * kWidth;
      store_partial(out + at,
                    gate == nullptr ? (v < 0.0f ? Vector{} : v) : where_positive_vector(load_partial(gate + at, count),
                                                                                        v),
                 count);  // NaN propagates
    }
  }
}

// out [L, B, H', W', F] = max(0, sums + bias [L, F]); with a gate, sums + bias where the gate is above 0, else 0.
inline void bits_convolve(const Bits& c, const void* numbers, const float* kernel, const float* bias, const float* gate,
                          float* out) {
  const int64_t F = c.features, wide = rounded_up(F, kPanel), images = c.lanes * c.batch;
  const float* weights = by_depth(c, kernel, wide);
  const int64_t per_chunk = kMinChunkWork / 16 / (c.pixels() * c.size * c.size * F) + 1;
  parallel_for((images + per_chunk - 1) / per_chunk, [=](int64_t chunk) {
    const int64_t last = smaller((chunk + 1) * per_chunk, images);
    for (int64_t image = chunk * per_chunk; image < last; ++image) {
      const Ones ones = find_ones(c, numbers, image, wide);
      const int64_t lane = image / c.batch;
      for (int64_t f = 0; f < F; f += kPanel) {
        const int64_t at = image * c.pixels() * F + f;
        const float *from = weights + lane * c.depth() * wide + f, *gate_here = gate == nullptr ? nullptr : gate + at;
        const float* added = bias + lane * F + f;
        if (F - f > kWidth) convolve_image<2>(c, ones, from, wide, added, gate_here, out + at, F - f);
        else convolve_image<1>(c, ones, from, wide, added, gate_here, out + at, F - f);
      }
    }
  });
}

// Adds the gradient [pixels, F] of an image to the rows for the ones of its patches; the last row is the bias.
template <int64_t N>
inline void send_back(const Bits& c, const Ones& ones, const float* gradient, const float* gate, int64_t features,
                      float* rows, int64_t wide) {
  float *sent = scratch(kTile, c.pixels() * N * kWidth), *bias = rows + c.depth() * wide;
  for (int64_t n = 0; n < N; ++n) {
    const int64_t count = features - n * kWidth;
    Vector total = load(bias + n * kWidth);
    for (int64_t pixel = 0; pixel < c.pixels(); ++pixel) {
      const int64_t at = pixel * c.features + n * kWidth;
      const Vector passed = where_positive_vector(load_partial(gate + at, count), load_partial(gradient + at, count));
      store(sent + (pixel * N + n) * kWidth, passed);
      total += passed;
    }
    store(bias + n * kWidth, total);
  }
  for (const Cell* cell = ones.cells; cell != ones.last; ++cell)
    for_each_pixel(c, *cell, [&](int64_t pixel, int64_t tap) {
      float* row = rows + tap * c.planes() * wide;
      Vector passed[N];
      for (int64_t n = 0; n < N; ++n) passed[n] = load(sent + (pixel * N + n) * kWidth);
      for (int e = cell->begin; e < cell->end; ++e)
        for (int64_t n = 0; n < N; ++n) {
          float* to = row + ones.entry[e] + n * kWidth;
          store(to, load(to) + passed[n]);
        }
    });
}

constexpr int64_t kBatchParts = 8;  // of a batch, with separate sums that are added in order

// kernel [L, F, depth] and bias [L, F]: gradients, from those of the pixels where the gate is above 0.
inline void bits_to_kernel(const Bits& c, const void* numbers, const float* gradient, const float* gate, float* kernel,
                           float* bias) {
  const int64_t F = c.features, wide = rounded_up(F, kPanel), depth = c.depth();
  const int64_t parts = smaller(kBatchParts, c.batch), part_size = (depth + 1) * wide;  // the last row is the bias
  float* sums = scratch(kPacked, c.lanes * parts * part_size);
  parallel_for(c.lanes * parts, [=](int64_t part) {
    float* rows = sums + part * part_size;
    for (int64_t i = 0; i < part_size; i += kWidth) store(rows + i, Vector{});
    const int64_t lane = part / parts, number = part % parts, first = lane * c.batch;
    for (int64_t image = first + number * c.batch / parts; image < first + (number + 1) * c.batch / parts; ++image) {
      const Ones ones = find_ones(c, numbers, image, wide);
      for (int64_t f = 0; f < F; f += kPanel) {
        const int64_t at = image * c.pixels() * F + f;
        if (F - f > kWidth) send_back<2>(c, ones, gradient + at, gate + at, F - f, rows + f, wide);
        else send_back<1>(c, ones, gradient + at, gate + at, F - f, rows + f, wide);
      }
    }
  });
  for (int64_t lane = 0; lane < c.lanes; ++lane) {
    float* total = sums + lane * parts * part_size;
    for (int64_t i = 0; i < part_size; i += kWidth) {
      Vector sum = load(total + i);
      for (int64_t part = 1; part < parts; ++part) sum += load(total + part * part_size + i);
      store(total + i, sum);
    }
    for (int64_t f = 0; f < F; ++f) bias[lane * F + f] = total[depth * wide + f];
    unpack_by_depth(c, total, wide, kernel + lane * F * depth);
  }
}
