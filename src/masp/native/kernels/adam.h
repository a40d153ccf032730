// Clipping by global norm and one step of Adam, in place: gradient, moments and parameters are read once, after one
// pass over the gradient for its norm.

constexpr long kPiece = 1 << 14;  // numbers per chunk

struct Piece {
  long leaf, lane, begin, end;
};

inline long pieces_of(const Leaf& leaf) { return (leaf.size + kPiece - 1) / kPiece; }

inline Piece piece(const Step& step, long chunk) {
  long leaf = 0;
  while (chunk >= step.lanes * pieces_of(step.leaf[leaf])) chunk -= step.lanes * pieces_of(step.leaf[leaf++]);
  const long pieces = pieces_of(step.leaf[leaf]), begin = chunk % pieces * kPiece;
  return {leaf, chunk / pieces, begin, least(begin + kPiece, step.leaf[leaf].size)};
}

inline float sum_of_squares(const float* x, long count) {
  Vector sum = {};
  long i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const Vector v = load(x + i);
    sum += v * v;
  }
  float total = 0.0f;
  for (long n = 0; n < kWidth; ++n) total += sum[n];
  for (; i < count; ++i) total += x[i] * x[i];
  return total;
}

inline long chunks_of(const Step& step) {
  long chunks = 0;
  for (long i = 0; i < step.leaves; ++i) chunks += step.lanes * pieces_of(step.leaf[i]);
  return chunks;
}

// [L] the sums of what every chunk came to, each in the same order whatever the load.
template <class To>
inline void by_lane(const Step& step, long chunks, const float* parts, To to) {
  for (long lane = 0; lane < step.lanes; ++lane) {
    double total = 0.0;
    for (long chunk = 0; chunk < chunks; ++chunk)
      if (step.lanes == 1 || piece(step, chunk).lane == lane) total += parts[chunk];
    to(lane, total);
  }
}

// norm [L] of the gradient, and the factor [L] that clipping multiplies it by.
inline void norms(const Step& step, long chunks, float* parts, float* norm, float* scale) {
  each(chunks, [=, &step](long chunk) {
    const Piece p = piece(step, chunk);
    const Leaf& leaf = step.leaf[p.leaf];
    parts[chunk] = sum_of_squares(leaf.gradient + p.lane * leaf.size + p.begin, p.end - p.begin);
  });
  by_lane(step, chunks, parts, [=, &step](long lane, double total) {
    norm[lane] = static_cast<float>(__builtin_sqrt(total));
    const bool clipped = step.max_norm > 0.0f && !(norm[lane] <= step.max_norm);  // NaN stays NaN
    scale[lane] = clipped ? step.max_norm / norm[lane] : 1.0f;
  });
}

// norm [L] of the gradient before clipping.
inline void adam(const Step& step, float* norm) {
  const long chunks = chunks_of(step);
  float* parts = scratch(kPacked, chunks + step.lanes);
  float* scale = parts + chunks;
  norms(step, chunks, parts, norm, scale);
  each(chunks, [=, &step](long chunk) {
    const Piece p = piece(step, chunk);
    const Leaf& leaf = step.leaf[p.leaf];
    const long at = p.lane * leaf.size + p.begin;
    const float* gradient = leaf.gradient + at;
    float *mean = leaf.mean + at, *square = leaf.square + at, *params = leaf.params + at;
    const float clip = scale[p.lane], b1 = step.b1, b2 = step.b2, rate = step.learning_rate;
    const float first = 1.0f / step.corrections[2 * p.lane], second = 1.0f / step.corrections[2 * p.lane + 1];
    const float eps = step.eps, eps_root = step.eps_root, c1 = 1.0f - b1, c2 = 1.0f - b2;
    for (long i = 0; i < p.end - p.begin; ++i) {
      const float g = gradient[i] * clip;
      const float m = c1 * g + b1 * mean[i];
      const float v = c2 * (g * g) + b2 * square[i];
      mean[i] = m;
      square[i] = v;
      params[i] -= rate * (m * first) / (__builtin_sqrtf(v * second + eps_root) + eps);
    }
  });
}
