// Gradients of the kernels and biases of a torso from the gradient of its last activation. Fixed groups of images have
// separate sums, which are added in order at the end, so the result does not depend on scheduling.

constexpr int64_t kImagesPerGroup = 4;  // images

// For M contiguous rows: to [M, panel] = (or +=) the sum over all pixels of some images of a[m] times their row of
// the gradient [.., F].
template <int64_t M, int64_t N>
inline void outer_rows(const Convolution& c, int64_t images, const float* x, const float* gradient, float* to,
                       bool add) {
  const int64_t F = c.features, across = c.stride * c.channels, down = c.stride * c.width * c.channels;
  Vector sum[M][N];
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) sum[m][n] = add ? load(to + m * F + n * kWidth) : Vector{};
  const float* g = gradient;
  for (int64_t image = 0; image < images; ++image)
    for (int64_t y = 0; y < c.out_height(); ++y) {
      const float* a = x + image * c.image() + y * down;
      for (int64_t i = 0; i < c.out_width(); ++i, a += across, g += F) {
        Vector column[N];
        for (int64_t n = 0; n < N; ++n) column[n] = load(g + n * kWidth);
        for (int64_t m = 0; m < M; ++m)
          for (int64_t n = 0; n < N; ++n) sum[m][n] += a[m] * column[n];
      }
    }
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) store(to + m * F + n * kWidth, sum[m][n]);
}

template <int64_t M>
inline void outer_up_to(int64_t count, const Convolution& c, int64_t images, const float* x, const float* g, float* to,
                       bool add) {
  if constexpr (M > 1) {
    if (count < M) return outer_up_to<M - 1>(count, c, images, x, g, to, add);
  }
  outer_rows<M, 2>(c, images, x, g, to, add);
}

// kernel [k, k, C, F] = (or +=) patches of some images times their gradient [.., F].
inline void images_to_kernel(const Convolution& c, int64_t images, const float* x, const float* gradient, float* kernel,
                             bool add) {
  const int64_t F = c.features, run = c.run();
  for (int64_t row = 0; row < c.size; ++row)
    for (int64_t first = 0; first < run; first += kRows)
      for (int64_t f = 0; f < F; f += kPanel)
        outer_up_to<kRows>(smaller(kRows, run - first), c, images, x + row * c.width * c.channels + first, gradient + f,
                          kernel + (row * run + first) * F + f, add);
}

template <int64_t M>
inline void send_rows(const Left& left, Right right, float* const* to) {
  Vector sum[M][2];
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < 2; ++n) sum[m][n] = load(to[m] + n * kWidth);
  const float* b = right.data;
  for (int64_t r = 0; r < left.run; ++r, b += kPanel) {
    const Vector first = load(b), second = load(b + kWidth);
    for (int64_t m = 0; m < M; ++m) {
      const float x = left.rows[m][r];
      sum[m][0] += x * first;
      sum[m][1] += x * second;
    }
  }
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < 2; ++n) store(to[m] + n * kWidth, sum[m][n]);
}

template <int64_t M>
inline void send_up_to(int64_t count, const Left& left, Right right, float* const* to) {
  if constexpr (M > 1) {
    if (count < M) return send_up_to<M - 1>(count, left, right, to);
  }
  send_rows<M>(left, right, to);
}

// image += the gradient [pixels, F] of every pixel, multiplied by the kernel and added to its patch. `packed` as by
// `pack_kernel`. A panel lies within one cell of the patch, so no two pixels write to the same address.
inline void pixels_to_image(const Convolution& c, const float* gradient, const float* packed, float* image) {
  const int64_t F = c.features, pixels = c.pixels(), across = c.run() / kPanel;
  Left left = {{}, 1, 0, F, 1};
  int64_t starts[kRows];
  float* to[kRows];
  for (int64_t pixel = 0; pixel < pixels; pixel += kRows) {
    const int64_t count = smaller(kRows, pixels - pixel);
    c.patches(pixel, count, starts);
    for (int64_t m = 0; m < count; ++m) left.rows[m] = gradient + (pixel + m) * F;
    for (int64_t i = 0; i < c.size * across; ++i) {
      const int64_t place = i / across * c.width * c.channels + i % across * kPanel;
      for (int64_t m = 0; m < count; ++m) to[m] = image + starts[m] + place;
      send_up_to<kRows>(count, left, {packed + i * F * kPanel, kPanel}, to);
    }
  }
}

// Panel i of [k * k * C / panel, F, panel] of a kernel [k, k, C, F].
inline void pack_kernel(const Convolution& c, const float* kernel, int64_t i, float* packed) {
  const int64_t F = c.features;
  for (int64_t f = 0; f < F; f += kWidth)
    for (int64_t n = 0; n < kPanel; n += kWidth)
      transpose_square(kernel + (i * kPanel + n) * F + f, F, packed + (i * F + f) * kPanel + n, kPanel);
}

inline void torso_to_weights(const Torso& t, const float* const* activations, const float* gradient,
                             float* const* d_kernel, float* const* d_bias) {
  const int64_t groups = (t.batch() + kImagesPerGroup - 1) / kImagesPerGroup, last = t.layers - 1;
  int64_t weights = 0, packs = 0;
  for (int64_t i = 0; i < t.layers; ++i) {
    weights += (t.layer[i].depth() + 1) * t.layer[i].features;
    if (i > 0) packs += t.layer[i].depth() / kPanel;
  }
  float* packed[kMaxLayers];
  float* sums = scratch(kPacked, groups * weights + weights);
  packed[0] = sums + groups * weights;
  for (int64_t i = 1; i < t.layers; ++i)
    packed[i] = packed[i - 1] + (i > 1 ? t.layer[i - 1].depth() * t.layer[i - 1].features : 0);
  float* const* const to = packed;
  parallel_for(packs, [=, &t](int64_t panel) {
    int64_t i = 1;
    while (panel >= t.layer[i].depth() / kPanel) panel -= t.layer[i++].depth() / kPanel;
    pack_kernel(t.layer[i], t.kernel[i], panel, to[i]);
  });
  parallel_for(groups, [=, &t](int64_t group) {
    const int64_t begin = group * kImagesPerGroup, images = smaller(kImagesPerGroup, t.batch() - begin);
    float* workspace = scratch(kTile, t.layer[0].image() + kImagesPerGroup * t.workspace());
    float* sent = workspace + t.layer[0].image();  // the gradient of the activation of a layer
    float* sum = sums + group * weights;
    where_positive(activations[last] + begin * t.layer[last].activations(),
                   gradient + begin * t.layer[last].activations(),
                   images * t.layer[last].activations(), sent);
    for (int64_t i = last; i >= 0; --i) {
      const Convolution& c = t.layer[i];
      const int64_t F = c.features;
      for (int64_t f = 0; f < F; ++f) sum[f] = 0.0f;
      for (int64_t p = 0; p < images * c.pixels(); ++p)
        for (int64_t f = 0; f < F; f += kWidth) store(sum + f, load(sum + f) + load(sent + p * F + f));
      sum += F;
      if (i == 0) {
        for (int64_t b = 0; b < images; ++b) {
          bytes_to_floats(t.images + (begin + b) * c.image(), c.image(), workspace);
          images_to_kernel(c, 1, workspace, sent + b * c.activations(), sum, b > 0);
        }
        return;
      }
      const float* before = activations[i - 1] + begin * c.image();
      images_to_kernel(c, images, before, sent, sum, false);
      sum += c.depth() * F;
      float* onwards = sent + images * c.activations();
      for (int64_t n = 0; n < images * c.image(); ++n) onwards[n] = 0.0f;
      for (int64_t b = 0; b < images; ++b) pixels_to_image(c, sent + b * c.activations(), to[i],
                                                           onwards + b * c.image());
      where_positive(before, onwards, images * c.image(), onwards);
      sent = onwards;
    }
  });
  // Order of the sums of a group: the last layer first, its bias before its kernel.
  constexpr int64_t kPart = 4096;
  parallel_for((weights + kPart - 1) / kPart, [=, &t](int64_t part) {
    int64_t at = 0;
    for (int64_t i = last; i >= 0; --i)
      for (int64_t kind = 0; kind < 2; ++kind) {
        const int64_t size = t.layer[i].features * (kind == 0 ? 1 : t.layer[i].depth());
        float* out = kind == 0 ? d_bias[i] : d_kernel[i];
        const int64_t first = part * kPart - at > 0 ? part * kPart - at : 0,
            end = smaller((part + 1) * kPart - at, size);
        for (int64_t n = first; n < end; ++n) {
          float total = sums[at + n];
          for (int64_t group = 1; group < groups; ++group) total += sums[group * weights + at + n];
          out[n] = total;
        }
        at += size;
      }
  });
}
