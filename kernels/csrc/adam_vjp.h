// The vector-Jacobian product of clipping and Adam in the gradient. `params` of a leaf holds the cotangent of the
// update, which the result replaces; the moments are those before the step and are not changed.

inline void adam_vjp(const Step& step) {
  const int64_t chunks = step.lanes * chunks_of(step);
  float* parts = scratch(kPacked, chunks + 3 * step.lanes);
  float *scale = parts + chunks, *norm = scale + step.lanes, *along = norm + step.lanes;
  norms(step, parts, norm, scale);
  // Through Adam, element by element; and the inner product of the result with the gradient.
  for_each_piece(step, parts, [=, &step](const Piece& p) {
    const float *gradient = p.leaf.gradient + p.at, *mean = p.leaf.mean + p.at, *square = p.leaf.square + p.at;
    float* cotangent = p.leaf.params + p.at;
    const float clip = scale[p.lane], b1 = step.b1, b2 = step.b2, rate = step.learning_rate;
    const float first = 1.0f / step.corrections[2 * p.lane], second = 1.0f / step.corrections[2 * p.lane + 1];
    const float eps = step.eps, eps_root = step.eps_root, c1 = 1.0f - b1, c2 = 1.0f - b2;
    constexpr int64_t kSums = 4 * kWidth;  // separate sums, so that the loop vectorises
    float sums[kSums] = {};
    const auto one = [&](int64_t i) {
      const float g = gradient[i] * clip;
      const float m = (c1 * g + b1 * mean[i]) * first;
      const float root = __builtin_sqrtf((c2 * (g * g) + b2 * square[i]) * second + eps_root);
      const float below = 1.0f / (root + eps);
      const float slope = below * (c1 * first - m * below * (c2 * second) * g / root);
      return cotangent[i] = -rate * slope * cotangent[i];
    };
    int64_t i = 0;
    for (; i + kSums <= p.count; i += kSums)
      for (int64_t n = 0; n < kSums; ++n) sums[n] += one(i + n) * gradient[i + n];
    for (; i < p.count; ++i) sums[0] += one(i) * gradient[i];
    float total = 0.0f;
    for (int64_t n = 0; n < kSums; ++n) total += sums[n];
    return total;
  });
  by_lane(step, parts, [=](int64_t lane, double total) { along[lane] = static_cast<float>(total); });
  bool clipped = false;
  for (int64_t lane = 0; lane < step.lanes; ++lane) clipped = clipped || scale[lane] != 1.0f;
  if (!clipped) return;
  // Through clipping: the component along the gradient vanishes, because the clipped norm is constant.
  for_each_piece(step, parts, [=](const Piece& p) {
    const float clip = scale[p.lane], back = along[p.lane] / norm[p.lane] / norm[p.lane];
    const float* gradient = p.leaf.gradient + p.at;
    float* to = p.leaf.params + p.at;
    for (int64_t i = 0; i < p.count && clip != 1.0f; ++i) to[i] = clip * (to[i] - back * gradient[i]);
    return 0.0f;
  });
}
