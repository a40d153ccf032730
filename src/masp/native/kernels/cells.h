// Planes of zeros and ones through a convolution with ReLU and a linear layer, in one. A batch has few different
// patches at any one place of the image: those that are the same there are multiplied once, their results added up or,
// on the way back, their gradients added before they are multiplied. Features and outputs are whole vectors of every
// instruction set; the linear weights are [L, inputs, outputs], of which the last multiply what all images have in common;
// inputs between those and the pixels take no part.

constexpr long kMostTaps = 64;            // of a patch; as in cells.py
constexpr long kFew = kTotal > 16 ? 6 : 3;  // patches at a time

// The pixels of a lane, each as the number of its kind: equal numbers, equal planes.
struct Kinds {
  const unsigned short* of;     // [H * W, B]
  const unsigned long* planes;  // [count] of each kind, as bits
  long count;
  long width;                   // bits of a number, if all numbers of a patch are one exact key; 0: keys are hashes
};

inline bool in_eight_bytes(const Bits& c) { return c.bytes && c.bits == 1 && c.channels <= 8; }

// The lowest bits of the bytes of a pixel, side by side; eight bytes are read.
inline unsigned long planes_of_bytes(const Bits& c, const unsigned char* numbers, long pixel) {
  unsigned long eight;
  __builtin_memcpy(&eight, numbers + pixel * c.channels, 8);
  return ((eight & 0x0101010101010101ul) * 0x0102040810204080ul >> 56) & ((1ul << c.channels) - 1);
}

// The planes of a pixel as bits; `last` pixels may not be read past their end.
inline unsigned long planes_of(const Bits& c, const void* numbers, long pixel, bool last) {
  if (in_eight_bytes(c) && !last) return planes_of_bytes(c, static_cast<const unsigned char*>(numbers), pixel);
  const unsigned used = c.bits == 32 ? ~0u : (1u << c.bits) - 1;
  const unsigned char* bytes = static_cast<const unsigned char*>(numbers) + pixel * c.channels;
  const unsigned* words = static_cast<const unsigned*>(numbers) + pixel * c.channels;
  unsigned long found = 0;
  for (long n = 0; n < c.channels; ++n)
    found |= static_cast<unsigned long>(used & (c.bytes ? bytes[n] : words[n])) << (n * c.bits);
  return found;
}

inline unsigned long mixed(unsigned long key) { return (key ^ key >> 32) * 0x9E3779B97F4A7C15ul; }

inline long power_of_two(long least_size) {
  long found = 1;
  while (found < least_size) found *= 2;
  return found;
}

// Numbers and planes of the kinds in a lane; `room` as large as `kinds_room`.
inline long kinds_room(const Bits& c) {  // in floats
  const long pixels = c.batch * c.height * c.width;
  return pixels / 2 + 1 + 2 * (pixels + 129) + power_of_two(2 * pixels) / 2 + 64;
}

inline Kinds find_kinds(const Bits& c, const void* numbers, long lane, float* room) {
  const long area = c.height * c.width, pixels = c.batch * area, taps = c.size * c.size, end = c.lanes * pixels - 8;
  unsigned long* planes = reinterpret_cast<unsigned long*>(room);
  unsigned short* of = reinterpret_cast<unsigned short*>(planes + pixels + 129);
  if (c.planes() <= 7 && c.planes() * taps <= 64) {  // a pixel is its own number
    const long count = 1L << c.planes();
    for (long kind = 0; kind < count; ++kind) planes[kind] = kind;
    const long sure = in_eight_bytes(c) ? c.batch - 1 : 0;  // images of which eight bytes can be read anywhere
    const unsigned char* bytes = static_cast<const unsigned char*>(numbers);
    for (long at = 0; at < area; ++at) {
      const long first = lane * pixels + at;
      unsigned short* to = of + at * c.batch;
      for (long b = 0; b < sure; ++b) to[b] = static_cast<unsigned short>(planes_of_bytes(c, bytes, first + b * area));
      for (long b = sure; b < c.batch; ++b)
        to[b] = static_cast<unsigned short>(planes_of(c, numbers, first + b * area, first + b * area >= end));
    }
    return {of, planes, count, c.planes()};
  }
  const long slots = power_of_two(2 * pixels);
  unsigned short* table = of + rounded_up(pixels, 2);  // number + 1; 0: free
  for (long slot = 0; slot < slots; ++slot) table[slot] = 0;
  long count = 0;
  for (long b = 0; b < c.batch; ++b) {
    unsigned short kind = 0;
    for (long at = 0; at < area; ++at) {
      const long pixel = lane * pixels + b * area + at;
      const unsigned long here = planes_of(c, numbers, pixel, pixel >= end);
      if (at == 0 || planes[kind] != here) {  // most are as the one before
        long slot = static_cast<long>(mixed(here) >> 40) & (slots - 1);
        while (table[slot] != 0 && planes[table[slot] - 1] != here) slot = (slot + 1) & (slots - 1);
        if (table[slot] == 0) planes[count] = here, table[slot] = static_cast<unsigned short>(++count);
        kind = static_cast<unsigned short>(table[slot] - 1);
      }
      of[at * c.batch + b] = kind;
    }
  }
  long width = 1;
  while ((1L << width) < count) ++width;
  return {of, planes, count, width * taps <= 64 ? width : 0};
}

// The different patches at one place: which of them each image has, and an image that has it.
struct Patches {
  long count;
  long *of, *image;       // [B], [count]
  unsigned long* key;     // [B]
  unsigned short* table;  // 2 B slots or more
};

inline long patches_room(const Bits& c) { return 6 * c.batch + power_of_two(2 * c.batch) / 2 + 64; }  // in floats

inline Patches patches_in(const Bits& c, float* room) {
  unsigned long* key = reinterpret_cast<unsigned long*>(room);
  long* of = reinterpret_cast<long*>(key + c.batch);
  return {0, of, of + c.batch, key, reinterpret_cast<unsigned short*>(of + 2 * c.batch)};
}

inline const unsigned short* kinds_at(const Bits& c, const Kinds& kinds, long place, long tap) {
  const long columns = c.width - c.size + 1, y = place / columns + tap / c.size, x = place % columns + tap % c.size;
  return kinds.of + (y * c.width + x) * c.batch;
}

inline void find_patches(const Bits& c, const Kinds& kinds, long place, Patches* found) {
  const long taps = c.size * c.size, slots = power_of_two(2 * c.batch), B = c.batch;
  unsigned long* __restrict key = found->key;
  long *__restrict of = found->of, *__restrict image = found->image;
  for (long b = 0; b < B; ++b) key[b] = 0, of[b] = -1;
  for (long tap = 0; tap < taps; ++tap) {
    const unsigned short* __restrict kind = kinds_at(c, kinds, place, tap);
    if (kinds.width > 0)
      for (long b = 0; b < B; ++b) key[b] = key[b] << kinds.width | kind[b];
    else
      for (long b = 0; b < B; ++b) key[b] = mixed(key[b] + kind[b] + 1);
  }
  long b = 0, count = 0;
  constexpr long kCommon = 16;  // patches that are compared with all images at once
  while (kinds.width > 0 && count < kCommon && b < B) {
    const unsigned long here = key[b];
    for (long i = 0; i < B; ++i) of[i] = key[i] == here ? count : of[i];
    image[count++] = b;
    while (b < B && of[b] >= 0) ++b;
  }
  if (b < B) {
    const auto same = [&](long a, long b) {
      if (key[a] != key[b]) return false;
      for (long tap = 0; kinds.width == 0 && tap < taps; ++tap)
        if (kinds_at(c, kinds, place, tap)[a] != kinds_at(c, kinds, place, tap)[b]) return false;
      return true;
    };
    for (long slot = 0; slot < slots; ++slot) found->table[slot] = 0;
    for (; b < B; ++b) {
      if (of[b] >= 0) continue;
      long slot = static_cast<long>(mixed(key[b]) >> 40) & (slots - 1);
      while (found->table[slot] != 0 && !same(image[found->table[slot] - 1], b)) slot = (slot + 1) & (slots - 1);
      if (found->table[slot] == 0) {
        image[count] = b;
        found->table[slot] = static_cast<unsigned short>(++count);
      }
      of[b] = found->table[slot] - 1;
    }
  }
  found->count = count;
}

// summed [count, O]: the gradients [B, O] of the images that have each patch.
inline void sum_patches(const Bits& c, const Patches& patches, const float* gradient, long O, float* summed) {
  // Images in the order of their patches; `key` and `table` have done their work.
  int *order = reinterpret_cast<int*>(patches.key), *end = order + c.batch;
  for (long k = 0; k < patches.count; ++k) end[k] = 0;
  for (long b = 0; b < c.batch; ++b) ++end[patches.of[b]];
  for (long k = 1; k < patches.count; ++k) end[k] += end[k - 1];
  for (long b = c.batch - 1; b >= 0; --b) order[--end[patches.of[b]]] = static_cast<int>(b);  // now where each begins
  constexpr long kAtOnce = kTotal / 3;  // vectors
  for (long k = 0; k < patches.count; ++k) {
    const long first = end[k], last = k + 1 < patches.count ? end[k + 1] : c.batch;
    long o = 0;
    for (; o + kAtOnce * kWidth <= O; o += kAtOnce * kWidth) {
      Vector sum[kAtOnce] = {};
      for (long i = first; i < last; ++i)
        for (long n = 0; n < kAtOnce; ++n) sum[n] += load(gradient + order[i] * O + o + n * kWidth);
      for (long n = 0; n < kAtOnce; ++n) store(summed + k * O + o + n * kWidth, sum[n]);
    }
    for (; o < O; o += kWidth) {
      Vector sum = {};
      for (long i = first; i < last; ++i) sum += load(gradient + order[i] * O + o);
      store(summed + k * O + o, sum);
    }
  }
}

// [taps, kinds, F] sums of the rows of weights [depth, F] that a kind of pixel has ones for.
inline void add_kinds(const Bits& c, const Kinds& kinds, const float* weights, float* sums) {
  for (long tap = 0; tap < c.size * c.size; ++tap)
    for (long kind = 0; kind < kinds.count; ++kind)
      for (long n = 0; n < c.features; n += kWidth) {
        Vector sum = {};
        for (unsigned long left = kinds.planes[kind]; left != 0; left &= left - 1)
          sum += load(weights + (tap * c.planes() + __builtin_ctzl(left)) * c.features + n);
        store(sums + (tap * kinds.count + kind) * c.features + n, sum);
      }
}

// And back: rows of weights += what their kinds were sent.
inline void send_kinds(const Bits& c, const Kinds& kinds, const float* sums, float* weights) {
  for (long tap = 0; tap < c.size * c.size; ++tap)
    for (long kind = 0; kind < kinds.count; ++kind)
      for (long n = 0; n < c.features; n += kWidth) {
        const Vector sent = load(sums + (tap * kinds.count + kind) * c.features + n);
        for (unsigned long left = kinds.planes[kind]; left != 0; left &= left - 1) {
          float* to = weights + (tap * c.planes() + __builtin_ctzl(left)) * c.features + n;
          store(to, load(to) + sent);
        }
      }
}

// bias + planes * kernel of the patches, one after the other, from `add_kinds`.
inline void convolve_patches(const Bits& c, const Kinds& kinds, long place, const Patches& patches, const float* sums,
                             const float* bias, float* to) {
  const long F = c.features, taps = c.size * c.size;
  const unsigned short* of[kMostTaps];
  for (long tap = 0; tap < taps; ++tap) of[tap] = kinds_at(c, kinds, place, tap);
  for (long patch = 0; patch < patches.count; ++patch)
    for (long n = 0; n < F; n += kWidth) {
      Vector sum = load(bias + n);
      for (long tap = 0; tap < taps; ++tap)
        sum += load(sums + (tap * kinds.count + of[tap][patches.image[patch]]) * F + n);
      store(to + patch * F + n, sum);
    }
}

// Adds what the patches were sent to [taps, kinds, F] and, behind them, to the bias.
inline void send_patches(const Bits& c, const Kinds& kinds, long place, const Patches& patches, const float* sent,
                         float* to) {
  const long F = c.features, taps = c.size * c.size;
  const unsigned short* of[kMostTaps];
  for (long tap = 0; tap < taps; ++tap) of[tap] = kinds_at(c, kinds, place, tap);
  for (long n = 0; n < F; n += kWidth) {
    float* bias = to + taps * kinds.count * F + n;
    Vector total = load(bias);
    for (long patch = 0; patch < patches.count; ++patch) {
      const Vector passed = load(sent + patch * F + n);
      for (long tap = 0; tap < taps; ++tap) {
        float* sum = to + (tap * kinds.count + of[tap][patches.image[patch]]) * F + n;
        store(sum, load(sum) + passed);
      }
      total += passed;
    }
    store(bias, total);
  }
}

constexpr long kShares = 4;  // of the places of an image: each sums for itself, and the sums are added in order

// Some of the places.
struct Share {
  long lane, begin, count;
};

inline Share share_of(const Bits& c, long chunk) {
  const long share = chunk % kShares, begin = share * c.pixels() / kShares;
  return {chunk / kShares, begin, (share + 1) * c.pixels() / kShares - begin};
}

// total[0..size) += all other shares, `size` apart.
inline void add_shares(float* total, long size) {
  for (long i = 0; i < size; i += kWidth) {
    Vector sum = load(total + i);
    for (long share = 1; share < kShares; ++share) sum += load(total + share * size + i);
    store(total + i, sum);
  }
}

// The weights [F, O] of one place, in [L, inputs, O].
inline long weights_of(const Hidden& h, long lane, long place) {
  return (lane * h.inputs + place * h.planes.features) * h.outputs;
}

// The product with M rows at a time, as wide as registers allow.
template <long M, bool kStep1>
inline void multiply_wide(long count, const Left& left, Right right, long vectors, float* to, long stride, bool add) {
  if constexpr (M > 1) {
    if (count < M) return multiply_wide<M - 1, kStep1>(count, left, right, vectors, to, stride, add);
  }
  constexpr long kWide = 8 * M <= kTotal ? 8 : 4;
  long n = 0;
  for (; n + kWide <= vectors; n += kWide)
    multiply_rows<M, kWide, kStep1>(left, {right.data + n * kWidth, right.stride}, to + n * kWidth, stride, add);
  for (; n < vectors; ++n)
    multiply_rows<M, 1, kStep1>(left, {right.data + n * kWidth, right.stride}, to + n * kWidth, stride, add);
}

// to [count, O] = (or +=) features [count, F] times weights [F, O].
inline void multiply_features(const Hidden& h, long count, const float* features, const float* weights, float* to,
                              bool add) {
  const long F = h.planes.features, O = h.outputs;
  for (long k = 0; k < count; k += kFew) {
    const long rows = least(kFew, count - k);
    Left left = {{}, 1, 0, F, 1};
    for (long m = 0; m < rows; ++m) left.rows[m] = features + (k + m) * F;
    multiply_wide<kFew, true>(rows, left, {weights, O}, O / kWidth, to + k * O, O, add);
  }
}

// to [F, O]: the sums over patches of features [count, F] times gradients [count, O].
inline void multiply_outer(const Hidden& h, long count, const float* features, const float* gradients, float* to) {
  const long F = h.planes.features, O = h.outputs;
  for (long f = 0; f < F; f += kFew) {
    const long rows = least(kFew, F - f);
    Left left = {{}, 1, 0, count, F};
    for (long m = 0; m < rows; ++m) left.rows[m] = features + f + m;
    multiply_wide<kFew, false>(rows, left, {gradients, O}, O / kWidth, to + f * O, O, false);
  }
}

// to [count, F]: gradients [count, O] times weights [F, O].
inline void multiply_back(const Hidden& h, long count, const float* gradients, const float* weights, float* to) {
  const long F = h.planes.features, O = h.outputs;
  for (long f = 0; f < F; f += kWidth)
    for (long k = 0; k < count; ++k) {
      Vector products[kWidth] = {};
      for (long o = 0; o < O; o += kWidth) {
        const Vector gradient = load(gradients + k * O + o);
        for (long i = 0; i < kWidth; ++i) products[i] += gradient * load(weights + (f + i) * O + o);
      }
      store(to + k * F + f, sums_of(products));
    }
}

// What every lane needs before its places are looked at: kinds of pixels, and `add_kinds` of the kernel and its change.
struct Prepared {
  const Kinds* kinds;            // [L]
  const float *kernel, *change;  // [L] of `size`
  long size;
};

inline Prepared prepare(const Hidden& h, const void* numbers, const float* kernel, const float* change) {
  const Bits& c = h.planes;
  const long weights = c.depth() * c.features, room = rounded_up(kinds_room(c), 16);
  float* memory = scratch(kKinds, c.lanes * (room + sizeof(Kinds) / 4 + 2));
  Kinds* kinds = reinterpret_cast<Kinds*>(memory + c.lanes * room);
  each(c.lanes, [=](long lane) { kinds[lane] = find_kinds(c, numbers, lane, memory + lane * room); });
  long most = 0;
  for (long lane = 0; lane < c.lanes; ++lane) most = kinds[lane].count > most ? kinds[lane].count : most;
  const long size = c.size * c.size * most * c.features;
  float* sums = scratch(kPacked, 2 * c.lanes * size);
  each(c.lanes, [=](long lane) {
    float* packed = scratch(kTile, weights);
    pack_by_depth(c, kernel + lane * weights, c.features, packed);
    add_kinds(c, kinds[lane], packed, sums + lane * size);
    if (change == nullptr) return;
    pack_by_depth(c, change + lane * weights, c.features, packed);
    add_kinds(c, kinds[lane], packed, sums + (c.lanes + lane) * size);
  });
  return {kinds, sums, sums + c.lanes * size, size};
}

// Features [count, F] to ReLU of them; the changes of all that are above 0 stay, others become 0.
inline void gate(long numbers, float* features, float* changes) {
  for (long i = 0; i < numbers; i += kWidth) {
    const Vector v = load(features + i);
    if (changes != nullptr) store(changes + i, where_above_0(v, load(changes + i)));
    store(features + i, v < 0.0f ? Vector{} : v);  // NaN stays NaN
  }
}

// to [O] += what is common times the last rows of the weights of a lane.
inline void add_common(const Hidden& h, long lane, const float* weights, const float* common, float* to) {
  const float* last = weights + ((lane + 1) * h.inputs - h.common) * h.outputs;
  for (long e = 0; e < h.common; ++e)
    for (long o = 0; o < h.outputs; ++o) to[o] += last[e * h.outputs + o] * common[lane * h.common + e];
}

// And back, from the gradient [B, O] of a lane.
inline void send_common(const Hidden& h, long lane, const float* weights, const float* common, const float* gradient,
                        float* to_weights, float* to_common) {
  const long O = h.outputs, E = h.common, used = h.planes.pixels() * h.planes.features;
  float* to = to_weights + lane * h.inputs * O;
  for (long i = used * O; i < (h.inputs - E) * O; ++i) to[i] = 0.0f;
  if (E == 0) return;
  float* sum = scratch(kTile, O);
  for (long o = 0; o < O; ++o) sum[o] = 0.0f;
  for (long b = 0; b < h.planes.batch; ++b)
    for (long o = 0; o < O; ++o) sum[o] += gradient[(lane * h.planes.batch + b) * O + o];
  for (long e = 0; e < E; ++e) {
    const long row = (h.inputs - E + e) * O;
    float sent = 0.0f;
    for (long o = 0; o < O; ++o) {
      to[row + o] = sum[o] * common[lane * E + e];
      sent += sum[o] * weights[lane * h.inputs * O + row + o];
    }
    to_common[lane * E + e] = sent;
  }
}

// out [L, B, O] = weights times ReLU(bias + planes * kernel) and what is common [L, E]; with a change of them, the change
// of that: `changed` are kernel, bias, weights and common, or null.
inline void cells(const Hidden& h, const void* numbers, const float* kernel, const float* bias, const float* weights,
                  const float* common, const float* const* changed, float* out) {
  const Bits& c = h.planes;
  const long F = c.features, O = h.outputs, B = c.batch, partial = B * O;
  const Prepared ready = prepare(h, numbers, kernel, changed == nullptr ? nullptr : changed[0]);
  float* sums = scratch(kShared, c.lanes * kShares * partial);
  each(c.lanes * kShares, [=](long chunk) {
    const Share share = share_of(c, chunk);
    const Kinds& kinds = ready.kinds[share.lane];
    const float* kernel_sums = ready.kernel + share.lane * ready.size;
    float* whole_numbers = scratch(kOnes, patches_room(c) + share.count * B);
    Patches patches = patches_in(c, whole_numbers);
    int* chosen = reinterpret_cast<int*>(whole_numbers + patches_room(c));  // [places, B]
    float* features = scratch(kTile, 2 * B * F + share.count * B * O);
    float *changes = changed == nullptr ? nullptr : features + B * F, *made = features + 2 * B * F;
    long count = 0;
    for (long p = 0; p < share.count; ++p) {
      const long place = share.begin + p, there = weights_of(h, share.lane, place);
      find_patches(c, kinds, place, &patches);
      convolve_patches(c, kinds, place, patches, kernel_sums, bias + share.lane * F, features);
      if (changed != nullptr)
        convolve_patches(c, kinds, place, patches, ready.change + share.lane * ready.size,
                         changed[1] + share.lane * F, changes);
      gate(patches.count * F, features, changes);
      const float* factor = changed == nullptr ? weights : changed[2];
      multiply_features(h, patches.count, features, factor + there, made + count * O, false);
      if (changed != nullptr) multiply_features(h, patches.count, changes, weights + there, made + count * O, true);
      for (long b = 0; b < B; ++b) chosen[p * B + b] = static_cast<int>(count + patches.of[b]);
      count += patches.count;
    }
    for (long b = 0; b < B; ++b)
      for (long o = 0; o < O; o += kWidth) {
        Vector sum = {};
        for (long p = 0; p < share.count; ++p) sum += load(made + chosen[p * B + b] * O + o);
        store(sums + chunk * partial + b * O + o, sum);
      }
  });
  each(c.lanes, [=](long lane) {
    float* total = sums + lane * kShares * partial;
    add_shares(total, partial);
    float* same = total + partial;  // of another share, which has done its work
    for (long o = 0; o < O; ++o) same[o] = 0.0f;
    add_common(h, lane, changed == nullptr ? weights : changed[2], common, same);
    if (changed != nullptr) add_common(h, lane, weights, changed[3], same);
    for (long b = 0; b < B; ++b)
      for (long o = 0; o < O; o += kWidth)
        store(out + lane * partial + b * O + o, load(total + b * O + o) + load(same + o));
  });
}

// Gradients of kernel [L, F, depth], bias [L, F], weights [L, inputs, O] and what is common [L, E], from that of the
// outputs [L, B, O].
inline void cells_back(const Hidden& h, const void* numbers, const float* kernel, const float* bias,
                       const float* weights, const float* common, const float* gradient, float* to_kernel,
                       float* to_bias, float* to_weights, float* to_common) {
  const Bits& c = h.planes;
  const long F = c.features, O = h.outputs, B = c.batch, depth = c.depth();
  const Prepared ready = prepare(h, numbers, kernel, nullptr);
  const long partial = ready.size + F;  // `add_kinds` the other way round, and the bias
  float* sums = scratch(kShared, c.lanes * kShares * partial);
  each(c.lanes * kShares, [=](long chunk) {
    const Share share = share_of(c, chunk);
    const Kinds& kinds = ready.kinds[share.lane];
    Patches patches = patches_in(c, scratch(kOnes, patches_room(c)));
    float* features = scratch(kTile, 2 * B * F + B * O);
    float *sent = features + B * F, *summed = sent + B * F, *to_kinds = sums + chunk * partial;
    for (long i = 0; i < partial; i += kWidth) store(to_kinds + i, Vector{});
    for (long p = 0; p < share.count; ++p) {
      const long place = share.begin + p, there = weights_of(h, share.lane, place);
      find_patches(c, kinds, place, &patches);
      convolve_patches(c, kinds, place, patches, ready.kernel + share.lane * ready.size, bias + share.lane * F,
                       features);
      sum_patches(c, patches, gradient + share.lane * B * O, O, summed);
      multiply_back(h, patches.count, summed, weights + there, sent);
      gate(patches.count * F, features, sent);
      multiply_outer(h, patches.count, features, summed, to_weights + there);
      send_patches(c, kinds, place, patches, sent, to_kinds);
    }
  });
  each(c.lanes, [=](long lane) {
    float *total = sums + lane * kShares * partial, *rows = scratch(kTile, depth * F);
    const Kinds& kinds = ready.kinds[lane];
    add_shares(total, partial);
    for (long f = 0; f < F; ++f) to_bias[lane * F + f] = total[c.size * c.size * kinds.count * F + f];
    for (long i = 0; i < depth * F; i += kWidth) store(rows + i, Vector{});
    send_kinds(c, kinds, total, rows);
    unpack_by_depth(c, rows, F, to_kernel + lane * F * depth);
    send_common(h, lane, weights, common, gradient, to_weights, to_common);
  });
}
