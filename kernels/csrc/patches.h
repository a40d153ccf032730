// Repetition in 0/1 planes: pixels of the same kind, and equal patches at the same position of different images.

constexpr int64_t kMaxTaps = 64;  // of a patch; MAX_TAPS in cells.py

// The pixels of a lane by kind: two pixels have the same kind if their planes are equal.
struct Kinds {
  const uint16_t* of;     // [H * W, B]; null: the planes of a pixel are its kind
  const uint64_t* planes;  // [count] planes of each kind, as bits
  int64_t count;
  int64_t width;                   // bits per kind, if the kinds of a patch fit in one exact key; 0: keys are hashes
};

inline bool in_eight_bytes(const Bits& c) { return c.bytes && c.bits == 1 && c.channels <= 8; }

// The lowest bits of the bytes of a pixel, packed; reads eight bytes.
inline uint64_t planes_of_bytes(const Bits& c, const uint8_t* numbers, int64_t pixel) {
  uint64_t eight;
  __builtin_memcpy(&eight, numbers + pixel * c.channels, 8);
  return ((eight & 0x0101010101010101u) * 0x0102040810204080u >> 56) & ((uint64_t{1} << c.channels) - 1);
}

// The planes of a pixel as bits; `last`: eight bytes may not be readable there.
inline uint64_t planes_of(const Bits& c, const void* numbers, int64_t pixel, bool last) {
  if (in_eight_bytes(c) && !last) return planes_of_bytes(c, static_cast<const uint8_t*>(numbers), pixel);
  const uint32_t used = c.bits == 32 ? ~0u : (1u << c.bits) - 1;
  const uint8_t* bytes = static_cast<const uint8_t*>(numbers) + pixel * c.channels;
  const uint32_t* words = static_cast<const uint32_t*>(numbers) + pixel * c.channels;
  uint64_t found = 0;
  for (int64_t n = 0; n < c.channels; ++n)
    found |= static_cast<uint64_t>(used & (c.bytes ? bytes[n] : words[n])) << (n * c.bits);
  return found;
}

inline uint64_t mix(uint64_t key) { return (key ^ key >> 32) * 0x9E3779B97F4A7C15u; }

inline int64_t power_of_two(int64_t least_size) {
  int64_t found = 1;
  while (found < least_size) found *= 2;
  return found;
}

// Whether the planes of a pixel can serve as its kind.
inline bool planes_are_kinds(const Bits& c) { return c.planes() <= 7 && c.planes() * c.size * c.size <= 64; }

// Fills `of` [H * W, B] for some rows of pixels, where planes are kinds.
inline void number_rows(const Bits& c, const void* numbers, int64_t lane, int64_t first_row, int64_t last_row,
                        uint16_t* of) {
  const int64_t area = c.height * c.width, pixels = c.batch * area, end = c.lanes * pixels - 8;
  // Eight bytes are readable at all images but the last.
  const bool readable = in_eight_bytes(c) && area * c.channels >= 8;
  const int64_t unchecked = readable ? c.batch - 1 : 0;
  const uint8_t* bytes = static_cast<const uint8_t*>(numbers);
  for (int64_t at = first_row * c.width; at < (last_row + 1) * c.width; ++at) {
    const int64_t first = lane * pixels + at;
    uint16_t* to = of + at * c.batch;
    for (int64_t b = 0; b < unchecked; ++b) to[b] = static_cast<uint16_t>(planes_of_bytes(c, bytes, first + b * area));
    for (int64_t b = unchecked; b < c.batch; ++b)
      to[b] = static_cast<uint16_t>(planes_of(c, numbers, first + b * area, first + b * area >= end));
  }
}

// Kinds of a lane; `workspace` has `kinds_size` floats.
inline int64_t kinds_size(const Bits& c) {  // in floats
  if (planes_are_kinds(c)) return 256;
  const int64_t pixels = c.batch * c.height * c.width;
  return pixels / 2 + 1 + 2 * pixels + power_of_two(2 * pixels) / 2 + 64;
}

inline Kinds number_kinds(const Bits& c, const void* numbers, int64_t lane, float* workspace) {
  const int64_t area = c.height * c.width, pixels = c.batch * area, taps = c.size * c.size, end = c.lanes * pixels - 8;
  uint64_t* planes = reinterpret_cast<uint64_t*>(workspace);
  if (planes_are_kinds(c)) {
    const int64_t count = int64_t{1} << c.planes();
    for (int64_t kind = 0; kind < count; ++kind) planes[kind] = kind;
    return {nullptr, planes, count, c.planes()};
  }
  uint16_t* of = reinterpret_cast<uint16_t*>(planes + pixels);
  const int64_t slots = power_of_two(2 * pixels);
  uint16_t* table = of + rounded_up(pixels, 2);  // kind + 1; 0: free
  for (int64_t slot = 0; slot < slots; ++slot) table[slot] = 0;
  int64_t count = 0;
  for (int64_t b = 0; b < c.batch; ++b) {
    uint16_t kind = 0;
    for (int64_t at = 0; at < area; ++at) {
      const int64_t pixel = lane * pixels + b * area + at;
      const uint64_t here = planes_of(c, numbers, pixel, pixel >= end);
      if (at == 0 || planes[kind] != here) {  // most pixels equal the one before
        int64_t slot = static_cast<int64_t>(mix(here) >> 40) & (slots - 1);
        while (table[slot] != 0 && planes[table[slot] - 1] != here) slot = (slot + 1) & (slots - 1);
        if (table[slot] == 0) planes[count] = here, table[slot] = static_cast<uint16_t>(++count);
        kind = static_cast<uint16_t>(table[slot] - 1);
      }
      of[at * c.batch + b] = kind;
    }
  }
  int64_t width = 1;
  while ((int64_t{1} << width) < count) ++width;
  return {of, planes, count, width * taps <= 64 ? width : 0};
}

// The distinct patches at one position. Patch 0 is a common one; only images with another patch are listed.
struct Patches {
  int64_t count;
  const uint16_t* kinds;   // [count, taps] kinds of their pixels
  const uint16_t* others;  // all images without patch 0, sorted by patch
  const uint16_t* end;     // [count] end of the images of each patch in `others`; 0 for patch 0
};

// Pointers to the kinds [B] of every tap of a position.
struct Taps {
  const uint16_t* of[kMaxTaps];
};

inline Taps taps_of(const Bits& c, const uint16_t* of, int64_t position) {
  const int64_t columns = c.width - c.size + 1;
  const uint16_t* first = of + (position / columns * c.width + position % columns) * c.batch;
  Taps found;
  for (int64_t y = 0, tap = 0; y < c.size; ++y)
    for (int64_t x = 0; x < c.size; ++x) found.of[tap++] = first + (y * c.width + x) * c.batch;
  return found;
}

// key [B] = the concatenated kinds of all taps.
inline void exact_keys(const Bits& c, int64_t width, const Taps& taps, uint64_t* __restrict key) {
  const int64_t B = c.batch, count = c.size * c.size;
  int64_t tap = 0;
  for (int64_t b = 0; b < B; ++b) key[b] = 0;
  for (; tap + 3 <= count; tap += 3) {
    const uint16_t *__restrict x = taps.of[tap], *__restrict y = taps.of[tap + 1], *__restrict z = taps.of[tap + 2];
    for (int64_t b = 0; b < B; ++b)
      key[b] = key[b] << 3 * width | static_cast<uint64_t>(x[b]) << 2 * width |
               static_cast<uint64_t>(y[b]) << width | z[b];
  }
  for (; tap < count; ++tap)
    for (int64_t b = 0; b < B; ++b) key[b] = key[b] << width | taps.of[tap][b];
}

constexpr int64_t kTableSlots = 1 << 12;

inline int64_t slot_of(uint64_t key, int64_t slots) { return static_cast<int64_t>(mix(key) >> 40) & (slots - 1); }

// Numbers the distinct keys [count] in order of first occurrence. Returns how many there are, or 0 if two keys collide
// in the table; then call `number_keys_exactly`. Free of data-dependent branches.
inline int64_t number_keys(int64_t count, const uint64_t* __restrict key, uint16_t* __restrict of) {
  uint16_t* __restrict slot = reinterpret_cast<uint16_t*>(scratch(kGuessed, kTableSlots / 2 + count));
  uint16_t *__restrict first = slot + count, *__restrict table = first + count;  // the table need not be initialised
  for (int64_t i = 0; i < count; ++i) slot[i] = static_cast<uint16_t>(slot_of(key[i], kTableSlots));
  for (int64_t i = count - 1; i >= 0; --i) table[slot[i]] = static_cast<uint16_t>(i);
  for (int64_t i = 0; i < count; ++i) first[i] = table[slot[i]];
  uint64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) wrong |= key[i] ^ key[first[i]];
  if (wrong != 0) return 0;
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    of[i] = static_cast<uint16_t>(found);
    of[i] = of[first[i]];
    found += first[i] == i;
  }
  return found;
}

// The same with collision handling: same(i, j) decides equality.
template <class Same>
inline int64_t number_keys_exactly(int64_t count, const uint64_t* key, Same same, uint16_t* of) {
  const int64_t slots = power_of_two(2 * count);
  uint16_t* table = reinterpret_cast<uint16_t*>(scratch(kGuessed, slots / 2 + count));  // 0: free
  uint16_t* first = table + slots;
  for (int64_t slot = 0; slot < slots; ++slot) table[slot] = 0;
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t slot = slot_of(key[i], slots);
    while (table[slot] != 0 && !same(first[table[slot] - 1], i)) slot = (slot + 1) & (slots - 1);
    if (table[slot] == 0) {
      first[found] = static_cast<uint16_t>(i);
      table[slot] = static_cast<uint16_t>(++found);
    }
    of[i] = static_cast<uint16_t>(table[slot] - 1);
  }
  return found;
}

constexpr int64_t kCandidates = 4;  // images that are tried as the common patch

// An image whose key many other images share.
inline int64_t common_key(int64_t B, const uint64_t* __restrict key) {
  int64_t found = 0, most = 0;
  for (int64_t i = 0; i < kCandidates; ++i) {
    const uint64_t candidate = key[i * B / kCandidates];
    int64_t matches = 0;
    for (int64_t b = 0; b < B; ++b) matches += key[b] == candidate;
    if (matches > most) most = matches, found = i * B / kCandidates;
  }
  return found;
}

// uint16 entries of the stored form of `Patches` of one position.
inline int64_t page_size(const Bits& c) { return rounded_up(1 + (2 + c.size * c.size) * c.batch, 32); }

inline Patches read_page(const Bits& c, const uint16_t* page) {
  return {page[0], page + 1 + 2 * c.batch, page + 1, page + 1 + c.batch};
}

// Finds the patches of a position and stores them. `of` [H * W, B]: the kinds of all pixels.
inline void write_page(const Bits& c, int64_t width, const uint16_t* of, int64_t position, uint16_t* page) {
  const int64_t taps = c.size * c.size, B = c.batch;
  uint16_t *others = page + 1, *end = others + B, *kinds = end + B;
  uint64_t* __restrict key = reinterpret_cast<uint64_t*>(scratch(kOnes, 6 * B + 1));
  uint64_t* __restrict key_of_other = key + B;
  uint16_t* __restrict other = reinterpret_cast<uint16_t*>(key_of_other + B);
  const Taps at = taps_of(c, of, position);
  const bool exact = width > 0;
  if (exact) {
    exact_keys(c, width, at, key);
  } else {
    for (int64_t b = 0; b < B; ++b) key[b] = 0;
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t b = 0; b < B; ++b) key[b] = mix(key[b] + at.of[tap][b] + 1);
  }
  const auto same = [&](int64_t a, int64_t b) {
    if (key[a] != key[b]) return false;
    for (int64_t tap = 0; !exact && tap < taps; ++tap)
      if (at.of[tap][a] != at.of[tap][b]) return false;
    return true;
  };
  const int64_t common = common_key(B, key);
  const auto keep = [&](int64_t k, int64_t b) {
    for (int64_t tap = 0; tap < taps; ++tap) kinds[k * taps + tap] = at.of[tap][b];
  };
  keep(0, common);
  page[0] = 1, end[0] = 0;
  int64_t left = 0;
  for (int64_t b = 0; b < B; ++b) {
    other[left] = static_cast<uint16_t>(b);
    left += exact ? key[b] != key[common] : !same(b, common);
  }
  if (left == 0) return;
  for (int64_t i = 0; i < left; ++i) key_of_other[i] = key[other[i]];
  uint16_t *number = other + B, *next = number + B;
  int64_t count = exact ? number_keys(left, key_of_other, number) : 0;
  if (count == 0)
    count = number_keys_exactly(left, key_of_other, [&](int64_t i, int64_t j) { return same(other[i], other[j]); },
                                number);
  page[0] = static_cast<uint16_t>(count + 1);
  for (int64_t k = 1; k <= count; ++k) end[k] = 0;
  for (int64_t i = 0; i < left; ++i) ++end[number[i] + 1];
  for (int64_t k = 1; k <= count; ++k) end[k] = static_cast<uint16_t>(end[k] + end[k - 1]);
  for (int64_t k = 0; k < count; ++k) next[k] = end[k];
  for (int64_t i = 0; i < left; ++i) others[next[number[i]]++] = other[i];
  for (int64_t k = 1; k <= count; ++k) keep(k, others[end[k - 1]]);
}

// Kinds and patches of a batch. Cached, because the gradient and a second network read the same batch.
struct PatchTables {
  Kinds* kinds;           // [L]
  uint16_t* pages;  // [L, positions], `page_size` each
  bool valid;             // whether pages are already written

  uint16_t* page(const Bits& c, int64_t lane, int64_t position) const {
    return pages + (lane * c.pixels() + position) * page_size(c);
  }
};

inline PatchTables patch_tables(const Bits& c, const void* numbers) {
  const int64_t room = rounded_up(kinds_size(c), 16), positions = c.lanes * c.pixels();
  const int64_t table = rounded_up(c.lanes * static_cast<int64_t>(sizeof(Kinds)) / 4, 16);
  const int64_t shape[] = {kWidth, c.lanes, c.batch, c.height, c.width, c.channels, c.bits, c.size, c.bytes};
  const int64_t bytes = c.lanes * c.batch * c.height * c.width * c.channels * (c.bytes ? 1 : 4);
  const Cached memory =
      cached(shape, sizeof shape, numbers, bytes, c.lanes * room + table + positions * page_size(c) / 2);
  Kinds* kinds = reinterpret_cast<Kinds*>(memory.tables + c.lanes * room);
  uint16_t* pages = reinterpret_cast<uint16_t*>(memory.tables + c.lanes * room + table);
  if (!memory.valid)
    parallel_for(c.lanes, [=](int64_t lane) {
      kinds[lane] = number_kinds(c, numbers, lane, memory.tables + lane * room); });
  return {kinds, pages, memory.valid};
}
