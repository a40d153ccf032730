// Convolutions of planes of zeros and ones, then ReLU: only the ones are added, in the order of a dense product, so the
// sums are the same. Planes are bits of integers [L, B, H, W, C]; weights are [L, F, k * k * C * bits].

// Where the ones of an image are: those of the cells x..x' of row y are entries start(y, x) to start(y, x' + 1), each
// x * depth of a cell + number of the plane.
struct Ones {
  int* start;
  int* entry;
};

inline Ones find_ones(const Bits& c, const void* numbers, long image) {
  const long cells = c.height * c.width;
  int* memory = reinterpret_cast<int*>(scratch(kTile, cells + 1 + cells * c.planes()));
  const Ones ones = {memory, memory + cells + 1};
  const unsigned used = c.bits == 32 ? ~0u : (1u << c.bits) - 1;
  int count = 0;
  for (long cell = 0; cell < cells; ++cell) {
    ones.start[cell] = count;
    const int place = static_cast<int>(cell % c.width * c.planes());
    for (long channel = 0; channel < c.channels; ++channel) {
      const long at = (image * cells + cell) * c.channels + channel;
      const unsigned number =
          c.bytes ? static_cast<const unsigned char*>(numbers)[at] : static_cast<const unsigned*>(numbers)[at];
      for (unsigned left = used & number; left != 0; left &= left - 1)
        ones.entry[count++] = place + static_cast<int>(channel * c.bits) + __builtin_ctz(left);
    }
  }
  ones.start[cells] = count;
  return ones;
}

// [L, depth, wide] of [L, F, depth]: rows of whole panels, zeros past the features.
inline const float* by_depth(const Bits& c, const float* kernel, long wide) {
  const long depth = c.depth(), F = c.features;
  float* packed = scratch(kPacked, c.lanes * depth * wide);
  for (long lane = 0; lane < c.lanes; ++lane) {
    const float* from = kernel + lane * F * depth;
    float* to = packed + lane * depth * wide;
    for (long f = 0; f < wide; f += kWidth) {
      long d = 0;
      for (; f + kWidth <= F && d + kWidth <= depth; d += kWidth)
        transpose_square(from + f * depth + d, depth, to + d * wide + f, wide);
      for (; d < depth; ++d)
        for (long n = f; n < f + kWidth; ++n) to[d * wide + n] = n < F ? from[n * depth + d] : 0.0f;
    }
  }
  return packed;
}

// to[0..N vectors) = sum of the rows of weights that the patch at (y, x) has ones for.
template <long N>
inline void add_rows(const Bits& c, const Ones& ones, const float* weights, long wide, long y, long x, Vector* sum) {
  for (long n = 0; n < N; ++n) sum[n] = Vector{};
  for (long i = 0; i < c.size; ++i) {
    const long cell = (y + i) * c.width + x;
    const float* row = weights + (i * c.size - x) * c.planes() * wide;
    const int *e = ones.entry + ones.start[cell], *end = ones.entry + ones.start[cell + c.size];
    for (; e != end; ++e)
      for (long n = 0; n < N; ++n) sum[n] += load(row + *e * wide + n * kWidth);
  }
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

template <long N>
inline void convolve_pixel(const Bits& c, const Ones& ones, const float* weights, long wide, long pixel,
                           const float* bias, const float* gate, float* out, long features) {
  Vector sum[N];
  const long columns = c.width - c.size + 1;
  add_rows<N>(c, ones, weights, wide, pixel / columns, pixel % columns, sum);
  for (long n = 0; n < N; ++n) {
    const long count = features - n * kWidth;
    const Vector v = sum[n] + load_some(bias + n * kWidth, count);
    const Vector relu = v < 0.0f ? Vector{} : v;  // NaN stays NaN
    store_some(out + n * kWidth, gate == nullptr ? relu : where_above_0(load_some(gate + n * kWidth, count), v), count);
  }
}

// out [L, B, H', W', F] = max(0, sums + bias [L, F]); with a gate, sums + bias where the gate is above 0, else 0.
inline void bits_convolve(const Bits& c, const void* numbers, const float* kernel, const float* bias, const float* gate,
                          float* out) {
  const long F = c.features, wide = rounded_up(F, kPanel), images = c.lanes * c.batch;
  const float* weights = by_depth(c, kernel, wide);
  const long per_chunk = kSmallest / 8 / (c.pixels() * c.size * c.size * F) + 1;
  each((images + per_chunk - 1) / per_chunk, [=](long chunk) {
    const long last = least((chunk + 1) * per_chunk, images);
    for (long image = chunk * per_chunk; image < last; ++image) {
      const Ones ones = find_ones(c, numbers, image);
      const long lane = image / c.batch;
      for (long pixel = 0; pixel < c.pixels(); ++pixel)
        for (long f = 0; f < F; f += kPanel) {
          const long at = (image * c.pixels() + pixel) * F + f;
          const float *from = weights + lane * c.depth() * wide + f, *through = gate == nullptr ? nullptr : gate + at;
          const float* added = bias + lane * F + f;
          if (F - f > kWidth) convolve_pixel<2>(c, ones, from, wide, pixel, added, through, out + at, F - f);
          else convolve_pixel<1>(c, ones, from, wide, pixel, added, through, out + at, F - f);
        }
    }
  });
}

// Adds the gradient of a pixel to the rows that its patch has ones for.
template <long N>
inline void send_back(const Bits& c, const Ones& ones, const Vector* gradient, long y, long x, float* rows, long wide) {
  for (long i = 0; i < c.size; ++i) {
    const long cell = (y + i) * c.width + x;
    float* row = rows + (i * c.size - x) * c.planes() * wide;
    const int *e = ones.entry + ones.start[cell], *end = ones.entry + ones.start[cell + c.size];
    for (; e != end; ++e)
      for (long n = 0; n < N; ++n) {
        float* to = row + *e * wide + n * kWidth;
        store(to, load(to) + gradient[n]);
      }
  }
}

constexpr long kParts = 8;  // of a batch: each sums for itself, and the sums are added in order

// kernel [L, F, depth] and bias [L, F]: gradients, from those of the pixels where the gate is above 0.
inline void bits_to_kernel(const Bits& c, const void* numbers, const float* gradient, const float* gate, float* kernel,
                           float* bias) {
  const long F = c.features, wide = rounded_up(F, kPanel), columns = c.width - c.size + 1, depth = c.depth();
  const long parts = least(kParts, c.batch), part_size = (depth + 1) * wide;  // the last row is the bias
  float* sums = scratch(kPacked, c.lanes * parts * part_size);
  each(c.lanes * parts, [=](long part) {
    float* rows = sums + part * part_size;
    for (long i = 0; i < part_size; i += kWidth) store(rows + i, Vector{});
    const long lane = part / parts, number = part % parts, first = lane * c.batch;
    for (long image = first + number * c.batch / parts; image < first + (number + 1) * c.batch / parts; ++image) {
      const Ones ones = find_ones(c, numbers, image);
      for (long pixel = 0; pixel < c.pixels(); ++pixel)
        for (long f = 0; f < F; f += kPanel) {
          const long at = (image * c.pixels() + pixel) * F + f, y = pixel / columns, x = pixel % columns;
          Vector sent[2] = {};
          for (long n = 0; n < 2 && f + n * kWidth < F; ++n) {
            const long place = at + n * kWidth, count = F - f - n * kWidth;
            sent[n] = where_above_0(load_some(gate + place, count), load_some(gradient + place, count));
            float* to = rows + depth * wide + f + n * kWidth;
            store(to, load(to) + sent[n]);
          }
          if (F - f > kWidth) send_back<2>(c, ones, sent, y, x, rows + f, wide);
          else send_back<1>(c, ones, sent, y, x, rows + f, wide);
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
    for (long f = 0; f < F; f += kWidth) {
      float* to = kernel + (lane * F + f) * depth;
      long d = 0;
      for (; f + kWidth <= F && d + kWidth <= depth; d += kWidth)
        transpose_square(total + d * wide + f, wide, to + d, depth);
      for (; d < depth; ++d)
        for (long n = 0; n < least(kWidth, F - f); ++n) to[n * depth + d] = total[d * wide + f + n];
    }
  }
}
