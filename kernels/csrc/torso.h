// A stack of convolutions with ReLU over images of bytes. Each image passes through all layers while it is in the
// cache; intermediate activations are written to memory only where the caller wants them.

inline void bytes_to_floats(const uint8_t* bytes, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(bytes[i]) / 255.0f;
}

// out [pixels, F] = (or +=) the patches of one image times the kernel.
inline void convolve_image(const Convolution& c, const float* image, const float* kernel, float* out, bool add) {
  const int64_t F = c.features, pixels = c.pixels();
  Left left = {{}, c.size, c.width * c.channels, c.run(), 1};
  int64_t starts[kRows];
  for (int64_t row = 0; row < pixels; row += kRows) {
    const int64_t count = smaller(kRows, pixels - row);
    c.patches(row, count, starts);
    for (int64_t m = 0; m < count; ++m) left.rows[m] = image + starts[m];
    for (int64_t f = 0; f < F; f += kPanel)
      multiply(count, F - f, left, {kernel + f, F}, out + row * F + f, F, add);
  }
}

// y = max(y + bias, 0); NaN propagates.
inline void bias_and_relu(const Convolution& c, const float* bias, float* y) {
  for (int64_t p = 0; p < c.pixels(); ++p)
    for (int64_t f = 0; f < c.features; f += kWidth) {
      const Vector v = load(y + p * c.features + f) + load(bias + f);
      store(y + p * c.features + f, v < 0.0f ? Vector{} : v);
    }
}

// to = from where y is positive, else 0.
inline void where_positive(const float* y, const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = y[i] > 0.0f ? from[i] : 0.0f;
}

// activations[i] [B, H', W', F] of layer i; null: not returned.
inline void torso(const Torso& t, float* const* activations) {
  parallel_for(t.batch(), [=, &t](int64_t b) {
    const int64_t size = t.layer[0].image();
    float* workspace = scratch(kTile, t.workspace());
    bytes_to_floats(t.images + b * size, size, workspace);
    const float* image = workspace;
    workspace += size;
    for (int64_t i = 0; i < t.layers; ++i) {
      const Convolution& c = t.layer[i];
      float* y = activations[i] == nullptr ? workspace : activations[i] + b * c.activations();
      convolve_image(c, image, t.kernel[i], y, false);
      bias_and_relu(c, t.bias[i], y);
      image = y, workspace += c.activations();
    }
  });
}

// out: the tangent of the last activation for tangents of kernels and biases.
inline void torso_tangent(const Torso& t, const float* const* activations, const float* const* d_kernel,
                          const float* const* d_bias, float* out) {
  parallel_for(t.batch(), [=, &t](int64_t b) {
    const int64_t size = t.layer[0].image();
    float* workspace = scratch(kTile, t.workspace());
    bytes_to_floats(t.images + b * size, size, workspace);
    const float *image = workspace, *d_image = nullptr;
    workspace += size;
    for (int64_t i = 0; i < t.layers; ++i) {
      const Convolution& c = t.layer[i];
      const int64_t F = c.features;
      const float* y = activations[i] + b * c.activations();
      float* d = i + 1 == t.layers ? out + b * c.activations() : workspace;
      convolve_image(c, image, d_kernel[i], d, false);
      if (d_image != nullptr) convolve_image(c, d_image, t.kernel[i], d, true);
      for (int64_t p = 0; p < c.activations(); p += F)
        for (int64_t f = 0; f < F; ++f) d[p + f] = y[p + f] > 0.0f ? d[p + f] + d_bias[i][f] : 0.0f;
      image = y, d_image = d, workspace += c.activations();
    }
  });
}
