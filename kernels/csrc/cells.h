// Planes of zeros and ones through a convolution with ReLU and a linear layer, in one. A batch has few different
// patches at any one place of the image: those that are the same there are multiplied once, or, on the way back, their
// gradients are added before they are multiplied. Most images have the same one: what it comes to is added to all of
// them at once, and what differs from it to the others; on the way back, its images are all but the others. Features
// and outputs are whole vectors of every instruction set; the linear weights are [L, inputs, outputs], of which the last
// multiply what all images have in common; inputs between those and the pixels take no part.

constexpr int64_t kFew = kTotal > 16 ? 6 : 3;  // patches at a time

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

// summed [count, O]: the gradients [B, O] of the images that have each patch, of which `total` [O] is the sum.
inline void sum_patches(const Patches& patches, const float* gradient, const float* total, int64_t O, float* summed) {
  for (int64_t k = 1; k < patches.count; ++k) {
    const uint16_t* images = patches.others + patches.end[k - 1];
    const int64_t count = patches.end[k] - patches.end[k - 1];
    add_rows(count, [=](int64_t i) { return gradient + images[i] * O; }, O, summed + k * O);
  }
  add_rows(patches.count - 1, [=](int64_t i) { return summed + (i + 1) * O; }, O, summed);
  for (int64_t o = 0; o < O; o += kWidth) store(summed + o, load(total + o) - load(summed + o));
}

// And the other way: what the patches [count, O] came to, less the first of them, to the sums [B, O] of the others.
inline void spread_patches(const Patches& patches, const float* made, int64_t O, float* sums) {
  for (int64_t k = 1; k < patches.count; ++k)
    for (int64_t i = patches.end[k - 1]; i < patches.end[k]; ++i) add_to(made + k * O, O, sums + patches.others[i] * O);
}

// [taps, kinds, F] sums of the rows of weights [depth, F] that a kind of pixel has ones for.
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

// And back: rows of weights += what their kinds were sent.
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

// bias + planes * kernel of the patches, one after the other, from `add_kinds`.
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

// Adds what the patches were sent to [taps, kinds, F] and, behind them, to the bias.
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

constexpr int64_t kShares = 2;  // of the places of an image: each sums for itself, and the sums are added in order

// Some of the places: two runs of them, because games have most of their patches at one end of the image.
struct Share {
  int64_t lane, count, first, split, second;

  int64_t place(int64_t p) const { return p < split ? first + p : second + p - split; }
};

inline Share share_of(const Bits& c, int64_t chunk) {
  const auto begin = [&](int64_t run) { return run * c.pixels() / (2 * kShares); };
  const int64_t share = chunk % kShares;
  const int64_t a = from_both_ends(2 * share, 2 * kShares), b = from_both_ends(2 * share + 1, 2 * kShares);
  const int64_t split = begin(a + 1) - begin(a);
  return {chunk / kShares, split + begin(b + 1) - begin(b), begin(a), split, begin(b)};
}

// total[0..size) += all other shares, `size` apart.
inline void add_shares(float* total, int64_t size) {
  for (int64_t i = 0; i < size; i += kWidth) {
    Vector sum = load(total + i);
    for (int64_t share = 1; share < kShares; ++share) sum += load(total + share * size + i);
    store(total + i, sum);
  }
}

// The weights [F, O] of one place, in [L, inputs, O].
inline int64_t weights_of(const Hidden& h, int64_t lane, int64_t place) {
  return (lane * h.inputs + place * h.planes.features) * h.outputs;
}

// The product with M rows at a time, as wide as registers allow.
template <int64_t M, bool kStep1>
inline void multiply_wide(int64_t count, const Left& left, Right right, int64_t vectors, float* to, int64_t stride, bool add) {
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
  for (int64_t k = 0; k < count; k += kFew) {
    const int64_t rows = least(kFew, count - k);
    Left left = {{}, 1, 0, F, 1};
    for (int64_t m = 0; m < rows; ++m) left.rows[m] = features + (k + m) * F;
    multiply_wide<kFew, true>(rows, left, {weights, O}, O / kWidth, to + k * O, O, add);
  }
}

// to [F, O]: the sums over patches of features [count, F] times gradients [count, O].
inline void multiply_outer(const Hidden& h, int64_t count, const float* features, const float* gradients, float* to) {
  const int64_t F = h.planes.features, O = h.outputs;
  for (int64_t f = 0; f < F; f += kFew) {
    const int64_t rows = least(kFew, F - f);
    Left left = {{}, 1, 0, count, F};
    for (int64_t m = 0; m < rows; ++m) left.rows[m] = features + f + m;
    multiply_wide<kFew, false>(rows, left, {gradients, O}, O / kWidth, to + f * O, O, false);
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
      store(to + k * F + f, sums_of(products));
    }
}

// Rows [count, F] but the first, less the first.
inline void subtract_first(int64_t count, int64_t F, float* rows) {
  for (int64_t i = F; i < count * F; i += kWidth) store(rows + i, load(rows + i) - load(rows + i % F));
}

// What a share needs before it looks at its places. Each makes it for itself: what one core writes and another reads
// travels from cache to cache, which takes longer than this.
struct Prepared {
  const uint16_t* of;     // [H * W, B] kinds of the pixels of its places, where pages are to be written
  const float *kernel, *change;  // `add_kinds` of both
};

inline int64_t prepared_room(const Bits& c, int64_t kinds) {  // in floats
  return c.depth() * c.features + 2 * c.size * c.size * kinds * c.features + c.height * c.width * c.batch / 2 + 1;
}

inline Prepared prepare(const Bits& c, const Found& found, const Share& share, const void* numbers, const float* kernel,
                        const float* change, float* room) {
  const Kinds& kinds = found.kinds[share.lane];
  const int64_t weights = c.depth() * c.features, columns = c.width - c.size + 1;
  float *packed = room, *sums = packed + weights, *changes = sums + c.size * c.size * kinds.count * c.features;
  pack_by_depth(c, kernel + share.lane * weights, c.features, packed);
  add_kinds(c, kinds, packed, sums);
  if (change != nullptr) {
    pack_by_depth(c, change + share.lane * weights, c.features, packed);
    add_kinds(c, kinds, packed, changes);
  }
  if (found.known || kinds.of != nullptr) return {kinds.of, sums, changes};
  uint16_t* of = reinterpret_cast<uint16_t*>(changes + c.size * c.size * kinds.count * c.features);
  for (int64_t run = 0; run < 2; ++run) {
    const int64_t first = run == 0 ? 0 : share.split, last = (run == 0 ? share.split : share.count) - 1;
    if (first <= last)
      number_rows(c, numbers, share.lane, share.place(first) / columns, share.place(last) / columns + c.size - 1, of);
  }
  return {of, sums, changes};
}

// The patches of a place; found now, unless they are known.
inline Patches patches_of(const Bits& c, const Found& found, const Share& share, const Prepared& ready, int64_t place) {
  uint16_t* page = found.page(c, share.lane, place);
  if (!found.known) write_page(c, found.kinds[share.lane].width, ready.of, place, page);
  return read_page(c, page);
}

inline Vector rectified(Vector v) { return v < 0.0f ? Vector{} : v; }  // NaN stays NaN

// Features [count, F] to ReLU of them; the changes of all that are above 0 stay, others become 0.
inline void gate(int64_t numbers, float* features, float* changes) {
  for (int64_t i = 0; i < numbers; i += kWidth) {
    const Vector v = load(features + i);
    if (changes != nullptr) store(changes + i, where_above_0(v, load(changes + i)));
    store(features + i, rectified(v));
  }
}

// to [O] += what is common times the last rows of the weights of a lane.
inline void add_common(const Hidden& h, int64_t lane, const float* weights, const float* common, float* to) {
  const float* last = weights + ((lane + 1) * h.inputs - h.common) * h.outputs;
  for (int64_t e = 0; e < h.common; ++e)
    for (int64_t o = 0; o < h.outputs; ++o) to[o] += last[e * h.outputs + o] * common[lane * h.common + e];
}

// And back, from the sum [O] of a lane's gradient over its images.
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

// out [L, B, O] = offset + weights times ReLU(bias + planes * kernel) and what is common, with ReLU where that is
// wanted; with a change of the weights, the change of that, where `before` is the result itself.
inline void cells(const Hidden& h, const void* numbers, const HiddenWeights& w, const float* before,
                  const HiddenWeights* changed, float* out) {
  const Bits& c = h.planes;
  const int64_t F = c.features, O = h.outputs, B = c.batch, partial = (B + 1) * O;
  const Found found = find(c, numbers);
  float* sums = scratch(kShared, c.lanes * kShares * partial);  // of each image, and behind them of all
  each(c.lanes * kShares, [=](int64_t chunk) {
    const Share share = share_of(c, chunk);
    const int64_t kinds = found.kinds[share.lane].count;
    float* features = scratch(kTile, 2 * B * F + B * O + prepared_room(c, kinds));
    float *made = features + 2 * B * F, *room = made + B * O, *its = sums + chunk * partial;
    float* changes = changed == nullptr ? nullptr : features + B * F;
    const Prepared ready =
        prepare(c, found, share, numbers, w.kernel, changed == nullptr ? nullptr : changed->kernel, room);
    for (int64_t i = 0; i < partial; i += kWidth) store(its + i, Vector{});
    for (int64_t p = 0; p < share.count; ++p) {
      const int64_t place = share.place(p), there = weights_of(h, share.lane, place);
      const Patches patches = patches_of(c, found, share, ready, place);
      convolve_patches(c, kinds, patches, ready.kernel, w.bias + share.lane * F, features);
      if (changed != nullptr)
        convolve_patches(c, kinds, patches, ready.change, changed->bias + share.lane * F, changes);
      gate(patches.count * F, features, changes);
      subtract_first(patches.count, F, features);
      const float* factor = changed == nullptr ? w.weights : changed->weights;
      multiply_features(h, patches.count, features, factor + there, made, false);
      if (changed != nullptr) {
        subtract_first(patches.count, F, changes);
        multiply_features(h, patches.count, changes, w.weights + there, made, true);
      }
      add_to(made, O, its + B * O);
      spread_patches(patches, made, O, its);
    }
  });
  each(c.lanes, [=](int64_t lane) {
    float *total = sums + lane * kShares * partial, *same = total + B * O;
    add_shares(total, partial);
    const HiddenWeights& added = changed == nullptr ? w : *changed;
    add_to(added.offset + lane * O, O, same);
    add_common(h, lane, added.weights, w.common, same);
    if (changed != nullptr) add_common(h, lane, w.weights, changed->common, same);
    for (int64_t b = 0; b < B; ++b)
      for (int64_t o = 0; o < O; o += kWidth) {
        const int64_t at = (lane * B + b) * O + o;
        Vector v = load(total + b * O + o) + load(same + o);
        if (h.rectified) v = changed == nullptr ? rectified(v) : where_above_0(load(before + at), v);
        store(out + at, v);
      }
  });
}

// The gradients, from that of the outputs [L, B, O], of which `made` are the values.
inline void cells_to_weights(const Hidden& h, const void* numbers, const HiddenWeights& w, const float* made,
                       const float* gradient, const HiddenGradients& to) {
  const Bits& c = h.planes;
  const int64_t F = c.features, O = h.outputs, B = c.batch, depth = c.depth();
  const Found found = find(c, numbers);
  const int64_t taps = c.size * c.size;
  int64_t most = 0;
  for (int64_t lane = 0; lane < c.lanes; ++lane) most = found.kinds[lane].count > most ? found.kinds[lane].count : most;
  const int64_t partial = taps * most * F + F;  // `add_kinds` the other way round, and the bias
  float* sums = scratch(kShared, c.lanes * (kShares * partial + B * O));
  float* passed = sums + c.lanes * kShares * partial;  // [L, B, O] what came through ReLU
  for (int64_t i = 0; i < c.lanes * B * O; i += kWidth)
    store(passed + i, h.rectified ? where_above_0(load(made + i), load(gradient + i)) : load(gradient + i));
  for (int64_t lane = 0; lane < c.lanes; ++lane)
    add_rows(B, [=](int64_t b) { return passed + (lane * B + b) * O; }, O, to.offset + lane * O);
  each(c.lanes * kShares, [=](int64_t chunk) {
    const Share share = share_of(c, chunk);
    const int64_t kinds = found.kinds[share.lane].count;
    float* features = scratch(kTile, 2 * B * F + B * O + prepared_room(c, kinds));
    float *sent = features + B * F, *summed = sent + B * F, *to_kinds = sums + chunk * partial;
    const Prepared ready = prepare(c, found, share, numbers, w.kernel, nullptr, summed + B * O);
    for (int64_t i = 0; i < partial; i += kWidth) store(to_kinds + i, Vector{});
    for (int64_t p = 0; p < share.count; ++p) {
      const int64_t place = share.place(p), there = weights_of(h, share.lane, place);
      const Patches patches = patches_of(c, found, share, ready, place);
      convolve_patches(c, kinds, patches, ready.kernel, w.bias + share.lane * F, features);
      sum_patches(patches, passed + share.lane * B * O, to.offset + share.lane * O, O, summed);
      multiply_back(h, patches.count, summed, w.weights + there, sent);
      gate(patches.count * F, features, sent);
      multiply_outer(h, patches.count, features, summed, to.weights + there);
      send_patches(c, kinds, patches, sent, to_kinds);
    }
  });
  each(c.lanes, [=](int64_t lane) {
    float *total = sums + lane * kShares * partial, *rows = scratch(kTile, depth * F);
    const Kinds& kinds = found.kinds[lane];
    add_shares(total, partial);
    for (int64_t f = 0; f < F; ++f) to.bias[lane * F + f] = total[taps * kinds.count * F + f];
    for (int64_t i = 0; i < depth * F; i += kWidth) store(rows + i, Vector{});
    send_kinds(c, kinds, total, rows);
    unpack_by_depth(c, rows, F, to.kernel + lane * F * depth);
    send_common(h, lane, w.weights, w.common, to.offset + lane * O, to.weights, to.common);
  });
}
