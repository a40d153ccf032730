// Convolutions of planes of zeros and ones, then ReLU: only the ones are added, in the order of a dense product, so the
// sums are the same. Planes are bits of integers [L, B, H, W, C]; weights are [L, F, k * k * C * bits].

// A cell with ones, and where the weights of its planes are: entries begin to end.
struct Cell {
  int y, x, begin, end;
};

struct Ones {
  const Cell *cells, *last;
  const int* entry;
};

// The ones of an image; an entry is the number of the plane times `wide`.
inline Ones find_ones(const Bits& c, const void* numbers, long image, long wide) {
  const long cells = c.height * c.width, row = c.width * c.channels;
  int* memory = reinterpret_cast<int*>(scratch(kOnes, cells * 4 * c.planes() + cells * c.planes()));
  Cell *found = reinterpret_cast<Cell*>(memory), *last = found;
  int *entry = memory + cells * 4 * c.planes(), count = 0;
  const unsigned used = c.bits == 32 ? ~0u : (1u << c.bits) - 1;
  const unsigned char* bytes = static_cast<const unsigned char*>(numbers) + image * cells * c.channels;
  const unsigned* words = static_cast<const unsigned*>(numbers) + image * cells * c.channels;
  for (int y = 0; y < c.height; ++y)
    for (long i = 0; i < row; ++i) {
      if (c.bytes)  // most are zero: look at eight at a time
        for (unsigned long eight; i + 8 <= row; i += 8) {
          __builtin_memcpy(&eight, bytes + y * row + i, 8);
          if (eight != 0) {
            i += __builtin_ctzl(eight) / 8;
            break;
          }
        }
      if (i >= row) break;
      const unsigned number = used & (c.bytes ? bytes[y * row + i] : words[y * row + i]);
      const int begin = count, x = static_cast<int>(i / c.channels), first = static_cast<int>(i % c.channels * c.bits);
      for (unsigned left = number; left != 0; left &= left - 1)
        entry[count++] = (first + __builtin_ctz(left)) * static_cast<int>(wide);
      *last = {y, x, begin, count};
      last += number != 0;
    }
  return {found, last, entry};
}

// body(pixel, tap) for all pixels whose patch has the cell, as its tap.
template <class Body>
inline void each_pixel(const Bits& c, const Cell& cell, Body body) {
  const long rows = c.height - c.size + 1, columns = c.width - c.size + 1;
  const long last_i = least(c.size - 1, cell.y), last_j = least(c.size - 1, cell.x);
  for (long i = cell.y < rows ? 0 : cell.y - rows + 1; i <= last_i; ++i)
    for (long j = cell.x < columns ? 0 : cell.x - columns + 1; j <= last_j; ++j)
      body((cell.y - i) * columns + cell.x - j, i * c.size + j);
}

// [depth, wide] of the weights [F, depth] of a lane: rows of whole vectors, zeros past the features; and back.
inline void pack_by_depth(const Bits& c, const float* from, long wide, float* to) {
  const long depth = c.depth(), F = c.features;
  for (long f = 0; f < wide; f += kWidth) {
    long d = 0;
    for (; f + kWidth <= F && d + kWidth <= depth; d += kWidth)
      transpose_square(from + f * depth + d, depth, to + d * wide + f, wide);
    for (; d < depth; ++d)
      for (long n = f; n < f + kWidth; ++n) to[d * wide + n] = n < F ? from[n * depth + d] : 0.0f;
  }
}

inline void unpack_by_depth(const Bits& c, const float* from, long wide, float* to) {
  const long depth = c.depth(), F = c.features;
  for (long f = 0; f < F; f += kWidth) {
    long d = 0;
    for (; f + kWidth <= F && d + kWidth <= depth; d += kWidth)
      transpose_square(from + d * wide + f, wide, to + f * depth + d, depth);
    for (; d < depth; ++d)
      for (long n = f; n < least(f + kWidth, F); ++n) to[n * depth + d] = from[d * wide + n];
  }
}

inline const float* by_depth(const Bits& c, const float* kernel, long wide) {
  const long depth = c.depth();
  float* packed = scratch(kPacked, c.lanes * depth * wide);
  for (long lane = 0; lane < c.lanes; ++lane)
    pack_by_depth(c, kernel + lane * c.features * depth, wide, packed + lane * depth * wide);
  return packed;
}

// The vector at `from`, of which `count` numbers exist, and back.
inline Vector load_some(const float* from, long count) {
  if (count >= kWidth) return load(from);
  Vector v = {};
  for (long n = 0; n < count; ++n) v[n] = from[n];
  return v;
}

inline void store_some(float* to, Vector v, long count) {
  if (count >= kWidth) return store(to, v);
  for (long n = 0; n < count; ++n) to[n] = v[n];
}

inline Vector where_above_0(Vector gate, Vector v) { return gate > 0.0f ? v : Vector{}; }

// sums [pixels, N vectors] of the rows of weights that the patches have ones for.
template <long N>
inline void add_rows(const Bits& c, const Ones& ones, const float* weights, long wide, float* sums) {
  for (long i = 0; i < c.pixels() * N; ++i) store(sums + i * kWidth, Vector{});
  for (const Cell* cell = ones.cells; cell != ones.last; ++cell)
    each_pixel(c, *cell, [&](long pixel, long tap) {
      const float* row = weights + tap * c.planes() * wide;
      Vector sum[N];
      for (long n = 0; n < N; ++n) sum[n] = load(sums + (pixel * N + n) * kWidth);
      for (int e = cell->begin; e < cell->end; ++e)
        for (long n = 0; n < N; ++n) sum[n] += load(row + ones.entry[e] + n * kWidth);
      for (long n = 0; n < N; ++n) store(sums + (pixel * N + n) * kWidth, sum[n]);
    });
}

template <long N>
inline void convolve_image(const Bits& c, const Ones& ones, const float* weights, long wide, const float* bias,
                           const float* gate, float* out, long features) {
  float* sums = scratch(kTile, c.pixels() * N * kWidth);
  add_rows<N>(c, ones, weights, wide, sums);
  for (long n = 0; n < N; ++n) {
    const long count = features - n * kWidth;
    const Vector added = load_some(bias + n * kWidth, count);
    for (long pixel = 0; pixel < c.pixels(); ++pixel) {
      const Vector v = load(sums + (pixel * N + n) * kWidth) + added;
      const long at = pixel * c.features + n * kWidth;
      store_some(out + at, gate == nullptr ? (v < 0.0f ? Vector{} : v) : where_above_0(load_some(gate + at, count), v),
                 count);  // NaN stays NaN
    }
  }
}

// out [L, B, H', W', F] = max(0, sums + bias [L, F]); with a gate, sums + bias where the gate is above 0, else 0.
inline void bits_convolve(const Bits& c, const void* numbers, const float* kernel, const float* bias, const float* gate,
                          float* out) {
  const long F = c.features, wide = rounded_up(F, kPanel), images = c.lanes * c.batch;
  const float* weights = by_depth(c, kernel, wide);
  const long per_chunk = kSmallest / 16 / (c.pixels() * c.size * c.size * F) + 1;
  each((images + per_chunk - 1) / per_chunk, [=](long chunk) {
    const long last = least((chunk + 1) * per_chunk, images);
    for (long image = chunk * per_chunk; image < last; ++image) {
      const Ones ones = find_ones(c, numbers, image, wide);
      const long lane = image / c.batch;
      for (long f = 0; f < F; f += kPanel) {
        const long at = image * c.pixels() * F + f;
        const float *from = weights + lane * c.depth() * wide + f, *through = gate == nullptr ? nullptr : gate + at;
        const float* added = bias + lane * F + f;
        if (F - f > kWidth) convolve_image<2>(c, ones, from, wide, added, through, out + at, F - f);
        else convolve_image<1>(c, ones, from, wide, added, through, out + at, F - f);
      }
    }
  });
}

// Adds the gradient [pixels, F] of an image to the rows that its patches have ones for; the last row is the bias.
template <long N>
inline void send_back(const Bits& c, const Ones& ones, const float* gradient, const float* gate, long features,
                      float* rows, long wide) {
  float *sent = scratch(kTile, c.pixels() * N * kWidth), *bias = rows + c.depth() * wide;
  for (long n = 0; n < N; ++n) {
    const long count = features - n * kWidth;
    Vector total = load(bias + n * kWidth);
    for (long pixel = 0; pixel < c.pixels(); ++pixel) {
      const long at = pixel * c.features + n * kWidth;
      const Vector passed = where_above_0(load_some(gate + at, count), load_some(gradient + at, count));
      store(sent + (pixel * N + n) * kWidth, passed);
      total += passed;
    }
    store(bias + n * kWidth, total);
  }
  for (const Cell* cell = ones.cells; cell != ones.last; ++cell)
    each_pixel(c, *cell, [&](long pixel, long tap) {
      float* row = rows + tap * c.planes() * wide;
      Vector passed[N];
      for (long n = 0; n < N; ++n) passed[n] = load(sent + (pixel * N + n) * kWidth);
      for (int e = cell->begin; e < cell->end; ++e)
        for (long n = 0; n < N; ++n) {
          float* to = row + ones.entry[e] + n * kWidth;
          store(to, load(to) + passed[n]);
        }
    });
}

constexpr long kParts = 8;  // of a batch: each sums for itself, and the sums are added in order

// kernel [L, F, depth] and bias [L, F]: gradients, from those of the pixels where the gate is above 0.
inline void bits_to_kernel(const Bits& c, const void* numbers, const float* gradient, const float* gate, float* kernel,
                           float* bias) {
  const long F = c.features, wide = rounded_up(F, kPanel), depth = c.depth();
  const long parts = least(kParts, c.batch), part_size = (depth + 1) * wide;  // the last row is the bias
  float* sums = scratch(kPacked, c.lanes * parts * part_size);
  each(c.lanes * parts, [=](long part) {
    float* rows = sums + part * part_size;
    for (long i = 0; i < part_size; i += kWidth) store(rows + i, Vector{});
    const long lane = part / parts, number = part % parts, first = lane * c.batch;
    for (long image = first + number * c.batch / parts; image < first + (number + 1) * c.batch / parts; ++image) {
      const Ones ones = find_ones(c, numbers, image, wide);
      for (long f = 0; f < F; f += kPanel) {
        const long at = image * c.pixels() * F + f;
        if (F - f > kWidth) send_back<2>(c, ones, gradient + at, gate + at, F - f, rows + f, wide);
        else send_back<1>(c, ones, gradient + at, gate + at, F - f, rows + f, wide);
      }
    }
  });
  for (long lane = 0; lane < c.lanes; ++lane) {
    float* total = sums + lane * parts * part_size;
    for (long i = 0; i < part_size; i += kWidth) {
      Vector sum = load(total + i);
      for (long part = 1; part < parts; ++part) sum += load(total + part * part_size + i);
      store(total + i, sum);
    }
    for (long f = 0; f < F; ++f) bias[lane * F + f] = total[depth * wide + f];
    unpack_by_depth(c, total, wide, kernel + lane * F * depth);
  }
}
