// Softmax of rows of atoms and the expectation of the support under it.

typedef int Whole __attribute__((vector_size(4 * kWidth)));

// e^x for x <= 0: 2^n times a polynomial of the remainder (Cephes' coefficients); 0 below the smallest normal float.
inline Vector exponential(Vector x) {
  const Vector floor = x < -87.0f ? Vector{} - 87.0f : x;
  // Truncation towards zero rounds to nearest here.
  const Whole n = __builtin_convertvector(floor * 1.44269504f - 0.5f, Whole);
  const Vector power = __builtin_convertvector(n, Vector);
  const Vector r = (floor - power * 0.693359375f) - power * -2.12194440e-4f;
  Vector sum = r * 1.9875691500e-4f + 1.3981999507e-3f;
  sum = sum * r + 8.3334519073e-3f;
  sum = sum * r + 4.1665795894e-2f;
  sum = sum * r + 1.6666665459e-1f;
  sum = sum * r + 5.0000001201e-1f;
  sum = sum * r * r + r + 1.0f;
  const Whole bits = (n + 127) << 23;
  Vector scale;
  __builtin_memcpy(&scale, &bits, sizeof scale);
  return x < -87.0f ? Vector{} : sum * scale;
}

// probabilities [rows, atoms] and values [rows] of logits [rows, atoms] on supports [lanes, atoms], each for an
// equal share of the rows.
inline void softmax(int64_t lanes, int64_t rows, int64_t atoms, const float* logits, const float* support,
                    float* probabilities,
                    float* values) {
  const int64_t vectors = (atoms + kWidth - 1) / kWidth, wide = vectors * kWidth;
  const int64_t per_chunk = kMinChunkWork / 16 / wide + 1, chunks = (rows + per_chunk - 1) / per_chunk;
  float* padded = scratch(kPacked, lanes * wide);
  for (int64_t lane = 0; lane < lanes; ++lane)
    for (int64_t n = 0; n < wide; ++n) padded[lane * wide + n] = n < atoms ? support[lane * atoms + n] : 0.0f;
  parallel_for(chunks, [=](int64_t chunk) {
    float* row = scratch(kTile, wide);
    for (int64_t n = atoms; n < wide; ++n) row[n] = -__builtin_inff();
    const int64_t last = smaller((chunk + 1) * per_chunk, rows);
    for (int64_t r = chunk * per_chunk; r < last; ++r) {
      const float* from = logits + r * atoms;
      float* to = probabilities + r * atoms;
      const float* places = padded + r / (rows / lanes) * wide;
      for (int64_t n = 0; n < atoms; ++n) row[n] = from[n];
      Vector most = load(row);
      for (int64_t v = 1; v < vectors; ++v) {
        const Vector x = load(row + v * kWidth);
        most = x > most ? x : most;
      }
      float highest = most[0];
      for (int64_t n = 1; n < kWidth; ++n) highest = most[n] > highest ? most[n] : highest;
      Vector total = {}, weighted = {};
      for (int64_t v = 0; v < vectors; ++v) {
        const Vector e = exponential(load(row + v * kWidth) - highest);
        total += e;
        weighted += e * load(places + v * kWidth);
        store(row + v * kWidth, e);
      }
      float sum = 0.0f, value = 0.0f;
      for (int64_t n = 0; n < kWidth; ++n) sum += total[n], value += weighted[n];
      for (int64_t n = 0; n < atoms; ++n) to[n] = row[n] / sum;
      values[r] = value / sum;
      for (int64_t n = atoms; n < wide; ++n) row[n] = -__builtin_inff();
    }
  });
}
