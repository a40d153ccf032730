// Clipping by global norm and one step of Adam, in place: one pass over the gradient for its norm, then one pass over
// gradient, moments and parameters.

constexpr int64_t kChunkNumbers = 1 << 14;  // floats per chunk, approximately

inline int64_t numbers_of(const Step& step) {
  int64_t found = 0;
  for (int64_t i = 0; i < step.leaves; ++i) found += step.leaf[i].size;
  return found;
}

// Chunks of each lane; an even number, so that two cores do equal work.
inline int64_t chunks_of(const Step& step) {
  const int64_t numbers = numbers_of(step);
  return numbers < kChunkNumbers ? 1 : rounded_up(numbers / kChunkNumbers, 2);
}

// A contiguous part of one leaf of one lane.
struct Piece {
  const Leaf& leaf;
  int64_t lane, at, count;  // `at` counts from the first lane's first
};

// Calls body(piece) for all elements; parts [L, chunks] receive the sums of its results. The concatenated leaves of a
// lane are divided into equal chunks, because chunks per leaf would be unevenly large.
template <class Body>
inline void for_each_piece(const Step& step, float* parts, Body body) {
  const int64_t chunks = chunks_of(step), numbers = numbers_of(step);
  parallel_for(step.lanes * chunks, [=, &step](int64_t chunk) {
    const int64_t lane = chunk / chunks, which = interleaved(chunk % chunks, chunks);
    const int64_t begin = which * numbers / chunks, end = (which + 1) * numbers / chunks;
    float part = 0.0f;
    for (int64_t i = 0, first = 0; i < step.leaves; first += step.leaf[i++].size) {
      const Leaf& leaf = step.leaf[i];
      // Round to whole vectors, to keep the alignment of the leaf.
      const auto inside = [&](int64_t n) { return n <= first ? 0 : smaller(rounded_up(n - first, 16), leaf.size); };
      const int64_t from = inside(begin), to = inside(end);
      if (from < to) part += body(Piece{leaf, lane, lane * leaf.size + from, to - from});
    }
    parts[chunk] = part;
  });
}

inline float sum_of_squares(const float* x, int64_t count) {
  Vector sum = {};
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    const Vector v = load(x + i);
    sum += v * v;
  }
  float total = 0.0f;
  for (int64_t n = 0; n < kWidth; ++n) total += sum[n];
  for (; i < count; ++i) total += x[i] * x[i];
  return total;
}

// Calls to(lane, sum) with the sum of the parts of every lane, always added in the same order.
template <class To>
inline void by_lane(const Step& step, const float* parts, To to) {
  const int64_t chunks = chunks_of(step);
  for (int64_t lane = 0; lane < step.lanes; ++lane) {
    double total = 0.0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) total += parts[lane * chunks + chunk];
    to(lane, total);
  }
}

// norm [L] of the gradient, and the factor [L] that clipping multiplies it by.
inline void norms(const Step& step, float* parts, float* norm, float* scale) {
  for_each_piece(step, parts, [](const Piece& p) { return sum_of_squares(p.leaf.gradient + p.at, p.count); });
  by_lane(step, parts, [=, &step](int64_t lane, double total) {
    norm[lane] = static_cast<float>(__builtin_sqrt(total));
    const bool clipped = step.max_norm > 0.0f && !(norm[lane] <= step.max_norm);  // NaN propagates
    scale[lane] = clipped ? step.max_norm / norm[lane] : 1.0f;
  });
}

// norm [L] of the gradient before clipping.
inline void adam(const Step& step, float* norm) {
  float* parts = scratch(kPacked, step.lanes * (chunks_of(step) + 1));
  float* scale = parts + step.lanes * chunks_of(step);
  norms(step, parts, norm, scale);
  for_each_piece(step, parts, [=, &step](const Piece& p) {
    const float* gradient = p.leaf.gradient + p.at;
    float *mean = p.leaf.mean + p.at, *square = p.leaf.square + p.at, *params = p.leaf.params + p.at;
    const float clip = scale[p.lane], b1 = step.b1, b2 = step.b2, rate = step.learning_rate;
    const float first = 1.0f / step.corrections[2 * p.lane], second = 1.0f / step.corrections[2 * p.lane + 1];
    const float eps = step.eps, eps_root = step.eps_root, c1 = 1.0f - b1, c2 = 1.0f - b2;
    for (int64_t i = 0; i < p.count; ++i) {
      const float g = gradient[i] * clip;
      const float m = c1 * g + b1 * mean[i];
      const float v = c2 * (g * g) + b2 * square[i];
      mean[i] = m;
      square[i] = v;
      params[i] -= rate * (m * first) / (__builtin_sqrtf(v * second + eps_root) + eps);
    }
    return 0.0f;
  });
}
