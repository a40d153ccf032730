// A convolution of 0/1 planes with ReLU, fused with a linear layer. A batch has few distinct patches at any one
// position: each is multiplied once; in the backward pass, the gradients of equal patches are added before the product.
// The product of the most common patch of each position is computed once and added to all images, and the other images
// receive their difference from it; in the backward pass, partial_sums gradient is the total minus that of the others.
// Features and outputs are multiples of the vector of every instruction set. The linear weights are [L, inputs,
// outputs]; the last rows belong to the common inputs, and rows between those of the pixels and these are not used.

constexpr int64_t kPatchRows = kTotal > 16 ? 6 : 3;  // patches per product

// N vectors of `to`, from `first` on, = those of row(0) + row(1) + ...
template <int64_t N, class Row>
inline void add_vectors(int64_t count, Row row, int64_t first, float* to) {
  Vector sum[N] = {};
  for (int64_t i = 0; i < count; ++i)
    for (int64_t n = 0; n < N; ++n) sum[n] += load(row(i) + first + n * kWidth);
  for (int64_t n = 0; n < N; ++n) store(to + first + n * kWidth, sum[n]);
}

// to [size] += row
inline void add_to(const float* row, int64_t size, float* to) {
  for (int64_t n = 0; n < size; n += kWidth) store(to + n, load(to + n) + load(row + n));
}

// to [size] = row(0) + row(1) + ...
template <class Row>
inline void add_rows(int64_t count, Row row, int64_t size, float* to) {
  int64_t n = 0;
  for (; n + 8 * kWidth <= size; n += 8 * kWidth) add_vectors<8>(count, row, n, to);
  for (; n < size; n += kWidth) add_vectors<1>(count, row, n, to);
}

// summed [count, O]: for each patch, the sum of the gradients [B, O] of partial_sums images; `total` [O] is the sum
// over all images.
inline void sum_patches(const Patches& patches, const float* gradient, const float* total, int64_t O, float* summed) {
  for (int64_t k = 1; k < patches.count; ++k) {
    const uint16_t* images = patches.others + patches.end[k - 1];
    const int64_t count = patches.end[k] - patches.end[k - 1];
    add_rows(count, [=](int64_t i) { return gradient + images[i] * O; }, O, summed + k * O);
  }
  add_rows(patches.count - 1, [=](int64_t i) { return summed + (i + 1) * O; }, O, summed);
  for (int64_t o = 0; o < O; o += kWidth) store(summed + o, load(total + o) - load(summed + o));
}

// Adds the products [count, O] of all patches but patch 0 to the sums [B, O] of their images.
inline void spread_patches(const Patches& patches, const float* products, int64_t O, float* sums) {
  for (int64_t k = 1; k < patches.count; ++k)
    for (int64_t i = patches.end[k - 1]; i < patches.end[k]; ++i) add_to(products + k * O, O,
                                                                         sums + patches.others[i] * O);
}

// [taps, kinds, F] sums of the rows of weights [depth, F] for the ones of every kind.
inline void add_kinds(const Bits& c, const Kinds& kinds, const float* weights, float* sums) {
  for (int64_t tap = 0; tap < c.size * c.size; ++tap)
    for (int64_t kind = 0; kind < kinds.count; ++kind)
      for (int64_t n = 0; n < c.features; n += kWidth) {
        Vector sum = {};
        for (uint64_t left = kinds.planes[kind]; left != 0; left &= left - 1)
          sum += load(weights + (tap * c.planes() + __builtin_ctzll(left)) * c.features + n);
        store(sums + (tap * kinds.count + kind) * c.features + n, sum);
      }
}

// The transpose: rows of weights += the gradients of their kinds.
inline void send_kinds(const Bits& c, const Kinds& kinds, const float* sums, float* weights) {
  for (int64_t tap = 0; tap < c.size * c.size; ++tap)
    for (int64_t kind = 0; kind < kinds.count; ++kind)
      for (int64_t n = 0; n < c.features; n += kWidth) {
        const Vector sent = load(sums + (tap * kinds.count + kind) * c.features + n);
        for (uint64_t left = kinds.planes[kind]; left != 0; left &= left - 1) {
          float* to = weights + (tap * c.planes() + __builtin_ctzll(left)) * c.features + n;
          store(to, load(to) + sent);
        }
      }
}

// bias + planes * kernel of all patches, from the sums of `add_kinds`.
inline void convolve_patches(const Bits& c, int64_t kinds, const Patches& patches, const float* sums, const float* bias,
                             float* to) {
  const int64_t F = c.features, taps = c.size * c.size;
  for (int64_t patch = 0; patch < patches.count; ++patch)
    for (int64_t n = 0; n < F; n += kWidth) {
      const uint16_t* kind = patches.kinds + patch * taps;
      Vector sum = load(bias + n);
      for (int64_t tap = 0; tap < taps; ++tap) sum += load(sums + (tap * kinds + kind[tap]) * F + n);
      store(to + patch * F + n, sum);
    }
}

// The transpose: adds the gradients of the patches to [taps, kinds, F] and, behind them, to the bias.
inline void send_patches(const Bits& c, int64_t kinds, const Patches& patches, const float* sent, float* to) {
  const int64_t F = c.features, taps = c.size * c.size;
  for (int64_t n = 0; n < F; n += kWidth) {
    float* bias = to + taps * kinds * F + n;
    Vector total = load(bias);
    for (int64_t patch = 0; patch < patches.count; ++patch) {
      const uint16_t* kind = patches.kinds + patch * taps;
      const Vector passed = load(sent + patch * F + n);
      for (int64_t tap = 0; tap < taps; ++tap) {
        float* sum = to + (tap * kinds + kind[tap]) * F + n;
        store(sum, load(sum) + passed);
      }
      total += passed;
    }
    store(bias, total);
  }
}

constexpr int64_t kImageShares = 2;  // of the positions of an image, with separate sums that are added in order

// Two runs of positions, from both ends: games have most of their distinct patches at one end of the image.
struct Share {
  int64_t lane, count, first, split, second;

  int64_t position(int64_t p) const { return p < split ? first + p : second + p - split; }
};

inline Share share_of(const Bits& c, int64_t chunk) {
  const auto begin = [&](int64_t run) { return run * c.pixels() / (2 * kImageShares); };
  const int64_t share = chunk % kImageShares;
  const int64_t a = interleaved(2 * share, 2 * kImageShares), b = interleaved(2 * share + 1, 2 * kImageShares);
  const int64_t split = begin(a + 1) - begin(a);
  return {chunk / kImageShares, split + begin(b + 1) - begin(b), begin(a), split, begin(b)};
}

// total[0..size) += all other shares, `size` apart.
inline void add_shares(float* total, int64_t size) {
  for (int64_t i = 0; i < size; i += kWidth) {
    Vector sum = load(total + i);
    for (int64_t share = 1; share < kImageShares; ++share) sum += load(total + share * size + i);
    store(total + i, sum);
  }
}

// Offset of the weights [F, O] of one position in [L, inputs, O].
inline int64_t weights_of(const Hidden& h, int64_t lane, int64_t position) {
  return (lane * h.inputs + position * h.planes.features) * h.outputs;
}

// The product of M rows, as wide as the registers allow.
template <int64_t M, bool kStep1>
inline void multiply_wide(int64_t count, const Left& left, Right right, int64_t vectors, float* to, int64_t stride,
                          bool add) {
  if constexpr (M > 1) {
    if (count < M) return multiply_wide<M - 1, kStep1>(count, left, right, vectors, to, stride, add);
  }
  constexpr int64_t kWide = 8 * M <= kTotal ? 8 : 4;
  int64_t n = 0;
  for (; n + kWide <= vectors; n += kWide)
    multiply_rows<M, kWide, kStep1>(left, {right.data + n * kWidth, right.stride}, to + n * kWidth, stride, add);
  for (; n < vectors; ++n)
    multiply_rows<M, 1, kStep1>(left, {right.data + n * kWidth, right.stride}, to + n * kWidth, stride, add);
}

// to [count, O] = (or +=) features [count, F] times weights [F, O].
inline void multiply_features(const Hidden& h, int64_t count, const float* features, const float* weights, float* to,
                              bool add) {
  const int64_t F = h.planes.features, O = h.outputs;
  for (int64_t k = 0; k < count; k += kPatchRows) {
    const int64_t rows = smaller(kPatchRows, count - k);
    Left left = {{}, 1, 0, F, 1};
    for (int64_t m = 0; m < rows; ++m) left.rows[m] = features + (k + m) * F;
    multiply_wide<kPatchRows, true>(rows, left, {weights, O}, O / kWidth, to + k * O, O, add);
  }
}

// to [F, O]: the sums over patches of features [count, F] times gradients [count, O].
inline void multiply_outer(const Hidden& h, int64_t count, const float* features, const float* gradients, float* to) {
  const int64_t F = h.planes.features, O = h.outputs;
  for (int64_t f = 0; f < F; f += kPatchRows) {
    const int64_t rows = smaller(kPatchRows, F - f);
    Left left = {{}, 1, 0, count, F};
    for (int64_t m = 0; m < rows; ++m) left.rows[m] = features + f + m;
    multiply_wide<kPatchRows, false>(rows, left, {gradients, O}, O / kWidth, to + f * O, O, false);
  }
}

// to [count, F]: gradients [count, O] times weights [F, O].
inline void multiply_back(const Hidden& h, int64_t count, const float* gradients, const float* weights, float* to) {
  const int64_t F = h.planes.features, O = h.outputs;
  for (int64_t f = 0; f < F; f += kWidth)
    for (int64_t k = 0; k < count; ++k) {
      Vector products[kWidth] = {};
      for (int64_t o = 0; o < O; o += kWidth) {
        const Vector gradient = load(gradients + k * O + o);
        for (int64_t i = 0; i < kWidth; ++i) products[i] += gradient * load(weights + (f + i) * O + o);
      }
      store(to + k * F + f, horizontal_sums(products));
    }
}

// Subtracts the first row from all others of [count, F].
inline void subtract_first(int64_t count, int64_t F, float* rows) {
  for (int64_t i = F; i < count * F; i += kWidth) store(rows + i, load(rows + i) - load(rows + i % F));
}

// Tables of one share. Every share computes partial_sums own, because moving them between the caches of cores takes
// longer.
struct Prepared {
  const uint16_t* of;     // [H * W, B] kinds of the pixels, where pages are not yet written
  const float *kernel, *d_kernel;  // `add_kinds` of kernel and tangent
};

inline int64_t prepared_size(const Bits& c, int64_t kinds) {  // in floats
  return c.depth() * c.features + 2 * c.size * c.size * kinds * c.features + c.height * c.width * c.batch / 2 + 1;
}

inline Prepared prepare(const Bits& c, const PatchTables& tables, const Share& share, const void* numbers,
                        const float* kernel,
                        const float* d_kernel, float* workspace) {
  const Kinds& kinds = tables.kinds[share.lane];
  const int64_t weights = c.depth() * c.features, columns = c.width - c.size + 1;
  float *packed = workspace, *sums = packed + weights, *d_features = sums + c.size * c.size * kinds.count * c.features;
  pack_by_depth(c, kernel + share.lane * weights, c.features, packed);
  add_kinds(c, kinds, packed, sums);
  if (d_kernel != nullptr) {
    pack_by_depth(c, d_kernel + share.lane * weights, c.features, packed);
    add_kinds(c, kinds, packed, d_features);
  }
  if (tables.valid || kinds.of != nullptr) return {kinds.of, sums, d_features};
  uint16_t* of = reinterpret_cast<uint16_t*>(d_features + c.size * c.size * kinds.count * c.features);
  for (int64_t run = 0; run < 2; ++run) {
    const int64_t first = run == 0 ? 0 : share.split, last = (run == 0 ? share.split : share.count) - 1;
    if (first <= last)
      number_rows(c, numbers, share.lane, share.position(first) / columns, share.position(last) / columns + c.size - 1,
                  of);
  }
  return {of, sums, d_features};
}

// The patches of a position; computed unless cached.
inline Patches patches_of(const Bits& c, const PatchTables& tables, const Share& share, const Prepared& prepared,
                          int64_t position) {
  uint16_t* page = tables.page(c, share.lane, position);
  if (!tables.valid) write_page(c, tables.kinds[share.lane].width, prepared.of, position, page);
  return read_page(c, page);
}

inline Vector rectified(Vector v) { return v < 0.0f ? Vector{} : v; }  // NaN propagates

// Applies ReLU to features [count, F] and gates their tangents.
inline void gate(int64_t numbers, float* features, float* d_features) {
  for (int64_t i = 0; i < numbers; i += kWidth) {
    const Vector v = load(features + i);
    if (d_features != nullptr) store(d_features + i, where_positive_vector(v, load(d_features + i)));
    store(features + i, rectified(v));
  }
}

// to [O] += the common inputs times the last rows of the weights of a lane.
inline void add_common(const Hidden& h, int64_t lane, const float* weights, const float* common, float* to) {
  const float* last = weights + ((lane + 1) * h.inputs - h.common) * h.outputs;
  for (int64_t e = 0; e < h.common; ++e)
    for (int64_t o = 0; o < h.outputs; ++o) to[o] += last[e * h.outputs + o] * common[lane * h.common + e];
}

// The transpose, from the sum [O] of the gradients of all images of a lane.
inline void send_common(const Hidden& h, int64_t lane, const float* weights, const float* common, const float* sum,
                        float* to_weights, float* to_common) {
  const int64_t O = h.outputs, E = h.common, used = h.planes.pixels() * h.planes.features;
  float* to = to_weights + lane * h.inputs * O;
  for (int64_t i = used * O; i < (h.inputs - E) * O; ++i) to[i] = 0.0f;
  for (int64_t e = 0; e < E; ++e) {
    const int64_t row = (h.inputs - E + e) * O;
    float sent = 0.0f;
    for (int64_t o = 0; o < O; ++o) {
      to[row + o] = sum[o] * common[lane * E + e];
      sent += sum[o] * weights[lane * h.inputs * O + row + o];
    }
    to_common[lane * E + e] = sent;
  }
}

// out [L, B, O] = offset + weights times (ReLU(bias + planes * kernel), common), followed by ReLU where `rectified`.
// With `tangents` of the weights, `out` is the tangent instead, and `outputs` must hold the result.
inline void cells(const Hidden& h, const void* numbers, const HiddenWeights& w, const float* outputs,
                  const HiddenWeights* tangents, float* out) {
  const Bits& c = h.planes;
  const int64_t F = c.features, O = h.outputs, B = c.batch, partial = (B + 1) * O;
  const PatchTables tables = patch_tables(c, numbers);
  float* sums = scratch(kShared, c.lanes * kImageShares * partial);  // of each image, then those added to all images
  parallel_for(c.lanes * kImageShares, [=](int64_t chunk) {
    const Share share = share_of(c, chunk);
    const int64_t kinds = tables.kinds[share.lane].count;
    float* features = scratch(kTile, 2 * B * F + B * O + prepared_size(c, kinds));
    float *products = features + 2 * B * F, *workspace = products + B * O, *partial_sums = sums + chunk * partial;
    float* d_features = tangents == nullptr ? nullptr : features + B * F;
    const Prepared prepared =
        prepare(c, tables, share, numbers, w.kernel, tangents == nullptr ? nullptr : tangents->kernel, workspace);
    for (int64_t i = 0; i < partial; i += kWidth) store(partial_sums + i, Vector{});
    for (int64_t p = 0; p < share.count; ++p) {
      const int64_t position = share.position(p), offset = weights_of(h, share.lane, position);
      const Patches patches = patches_of(c, tables, share, prepared, position);
      convolve_patches(c, kinds, patches, prepared.kernel, w.bias + share.lane * F, features);
      if (tangents != nullptr)
        convolve_patches(c, kinds, patches, prepared.d_kernel, tangents->bias + share.lane * F, d_features);
      gate(patches.count * F, features, d_features);
      subtract_first(patches.count, F, features);
      const float* factor = tangents == nullptr ? w.weights : tangents->weights;
      multiply_features(h, patches.count, features, factor + offset, products, false);
      if (tangents != nullptr) {
        subtract_first(patches.count, F, d_features);
        multiply_features(h, patches.count, d_features, w.weights + offset, products, true);
      }
      add_to(products, O, partial_sums + B * O);
      spread_patches(patches, products, O, partial_sums);
    }
  });
  parallel_for(c.lanes, [=](int64_t lane) {
    float *total = sums + lane * kImageShares * partial, *shared = total + B * O;
    add_shares(total, partial);
    const HiddenWeights& added = tangents == nullptr ? w : *tangents;
    add_to(added.offset + lane * O, O, shared);
    add_common(h, lane, added.weights, w.common, shared);
    if (tangents != nullptr) add_common(h, lane, w.weights, tangents->common, shared);
    for (int64_t b = 0; b < B; ++b)
      for (int64_t o = 0; o < O; o += kWidth) {
        const int64_t at = (lane * B + b) * O + o;
        Vector v = load(total + b * O + o) + load(shared + o);
        if (h.rectified) v = tangents == nullptr ? rectified(v) : where_positive_vector(load(outputs + at), v);
        store(out + at, v);
      }
  });
}

// Gradients of the weights from the gradient of the outputs [L, B, O].
inline void cells_to_weights(const Hidden& h, const void* numbers, const HiddenWeights& w, const float* outputs,
                       const float* gradient, const HiddenGradients& to) {
  const Bits& c = h.planes;
  const int64_t F = c.features, O = h.outputs, B = c.batch, depth = c.depth();
  const PatchTables tables = patch_tables(c, numbers);
  const int64_t taps = c.size * c.size;
  int64_t max_kinds = 0;
  for (int64_t lane = 0; lane < c.lanes; ++lane)
    if (tables.kinds[lane].count > max_kinds) max_kinds = tables.kinds[lane].count;
  const int64_t partial = taps * max_kinds * F + F;  // gradients of the sums of `add_kinds`, and of the bias
  float* sums = scratch(kShared, c.lanes * (kImageShares * partial + B * O));
  float* passed = sums + c.lanes * kImageShares * partial;  // [L, B, O] gradient behind ReLU
  for (int64_t i = 0; i < c.lanes * B * O; i += kWidth)
    store(passed + i, h.rectified ? where_positive_vector(load(outputs + i), load(gradient + i)) : load(gradient + i));
  for (int64_t lane = 0; lane < c.lanes; ++lane)
    add_rows(B, [=](int64_t b) { return passed + (lane * B + b) * O; }, O, to.offset + lane * O);
  parallel_for(c.lanes * kImageShares, [=](int64_t chunk) {
    const Share share = share_of(c, chunk);
    const int64_t kinds = tables.kinds[share.lane].count;
    float* features = scratch(kTile, 2 * B * F + B * O + prepared_size(c, kinds));
    float *sent = features + B * F, *summed = sent + B * F, *to_kinds = sums + chunk * partial;
    const Prepared prepared = prepare(c, tables, share, numbers, w.kernel, nullptr, summed + B * O);
    for (int64_t i = 0; i < partial; i += kWidth) store(to_kinds + i, Vector{});
    for (int64_t p = 0; p < share.count; ++p) {
      const int64_t position = share.position(p), offset = weights_of(h, share.lane, position);
      const Patches patches = patches_of(c, tables, share, prepared, position);
      convolve_patches(c, kinds, patches, prepared.kernel, w.bias + share.lane * F, features);
      sum_patches(patches, passed + share.lane * B * O, to.offset + share.lane * O, O, summed);
      multiply_back(h, patches.count, summed, w.weights + offset, sent);
      gate(patches.count * F, features, sent);
      multiply_outer(h, patches.count, features, summed, to.weights + offset);
      send_patches(c, kinds, patches, sent, to_kinds);
    }
  });
  parallel_for(c.lanes, [=](int64_t lane) {
    float *total = sums + lane * kImageShares * partial, *rows = scratch(kTile, depth * F);
    const Kinds& kinds = tables.kinds[lane];
    add_shares(total, partial);
    for (int64_t f = 0; f < F; ++f) to.bias[lane * F + f] = total[taps * kinds.count * F + f];
    for (int64_t i = 0; i < depth * F; i += kWidth) store(rows + i, Vector{});
    send_kinds(c, kinds, total, rows);
    unpack_by_depth(c, rows, F, to.kernel + lane * F * depth);
    send_common(h, lane, w.weights, w.common, to.offset + lane * O, to.weights, to.common);
  });
}
