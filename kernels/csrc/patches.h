// What repeats in planes of zeros and ones: pixels of the same kind, and patches that are the same at the same place.

constexpr int64_t kMostTaps = 64;  // of a patch; as in cells.py

// The pixels of a lane, each as the number of its kind: equal numbers, equal planes.
struct Kinds {
  const uint16_t* of;     // [H * W, B]; null: a pixel's planes are its number
  const uint64_t* planes;  // [count] of each kind, as bits
  int64_t count;
  int64_t width;                   // bits of a number, if all numbers of a patch are one exact key; 0: keys are hashes
};

inline bool in_eight_bytes(const Bits& c) { return c.bytes && c.bits == 1 && c.channels <= 8; }

// The lowest bits of the bytes of a pixel, side by side; eight bytes are read.
inline uint64_t planes_of_bytes(const Bits& c, const uint8_t* numbers, int64_t pixel) {
  uint64_t eight;
  __builtin_memcpy(&eight, numbers + pixel * c.channels, 8);
  return ((eight & 0x0101010101010101u) * 0x0102040810204080u >> 56) & ((uint64_t{1} << c.channels) - 1);
}

// The planes of a pixel as bits; `last` pixels may not be read past their end.
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

inline uint64_t mixed(uint64_t key) { return (key ^ key >> 32) * 0x9E3779B97F4A7C15u; }

inline int64_t power_of_two(int64_t least_size) {
  int64_t found = 1;
  while (found < least_size) found *= 2;
  return found;
}

// Whether the planes of a pixel are the number of its kind.
inline bool are_kinds(const Bits& c) { return c.planes() <= 7 && c.planes() * c.size * c.size <= 64; }

// `of` [H * W, B] of rows of pixels, where planes are kinds.
inline void number_rows(const Bits& c, const void* numbers, int64_t lane, int64_t first_row, int64_t last_row,
                        uint16_t* of) {
  const int64_t area = c.height * c.width, pixels = c.batch * area, end = c.lanes * pixels - 8;
  const bool behind = in_eight_bytes(c) && area * c.channels >= 8;  // an image is where eight bytes may be read
  const int64_t sure = behind ? c.batch - 1 : 0;
  const uint8_t* bytes = static_cast<const uint8_t*>(numbers);
  for (int64_t at = first_row * c.width; at < (last_row + 1) * c.width; ++at) {
    const int64_t first = lane * pixels + at;
    uint16_t* to = of + at * c.batch;
    for (int64_t b = 0; b < sure; ++b) to[b] = static_cast<uint16_t>(planes_of_bytes(c, bytes, first + b * area));
    for (int64_t b = sure; b < c.batch; ++b)
      to[b] = static_cast<uint16_t>(planes_of(c, numbers, first + b * area, first + b * area >= end));
  }
}

// Numbers and planes of the kinds in a lane; `room` as large as `kinds_room`.
inline int64_t kinds_room(const Bits& c) {  // in floats
  if (are_kinds(c)) return 256;
  const int64_t pixels = c.batch * c.height * c.width;
  return pixels / 2 + 1 + 2 * pixels + power_of_two(2 * pixels) / 2 + 64;
}

inline Kinds find_kinds(const Bits& c, const void* numbers, int64_t lane, float* room) {
  const int64_t area = c.height * c.width, pixels = c.batch * area, taps = c.size * c.size, end = c.lanes * pixels - 8;
  uint64_t* planes = reinterpret_cast<uint64_t*>(room);
  if (are_kinds(c)) {
    const int64_t count = int64_t{1} << c.planes();
    for (int64_t kind = 0; kind < count; ++kind) planes[kind] = kind;
    return {nullptr, planes, count, c.planes()};
  }
  uint16_t* of = reinterpret_cast<uint16_t*>(planes + pixels);
  const int64_t slots = power_of_two(2 * pixels);
  uint16_t* table = of + rounded_up(pixels, 2);  // number + 1; 0: free
  for (int64_t slot = 0; slot < slots; ++slot) table[slot] = 0;
  int64_t count = 0;
  for (int64_t b = 0; b < c.batch; ++b) {
    uint16_t kind = 0;
    for (int64_t at = 0; at < area; ++at) {
      const int64_t pixel = lane * pixels + b * area + at;
      const uint64_t here = planes_of(c, numbers, pixel, pixel >= end);
      if (at == 0 || planes[kind] != here) {  // most are as the one before
        int64_t slot = static_cast<int64_t>(mixed(here) >> 40) & (slots - 1);
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

// The different patches at one place. The first is one that many images have; the others say which do not.
struct Patches {
  int64_t count;
  const uint16_t* kinds;   // [count, taps] of their pixels
  const uint16_t* others;  // all images without the first patch, by what patch they have
  const uint16_t* end;     // [count] of the images of each patch among the others; the first has none there
};

// Where the kinds [B] of every tap of a place are.
struct Taps {
  const uint16_t* of[kMostTaps];
};

inline Taps taps_of(const Bits& c, const uint16_t* of, int64_t place) {
  const int64_t columns = c.width - c.size + 1;
  const uint16_t* first = of + (place / columns * c.width + place % columns) * c.batch;
  Taps found;
  for (int64_t y = 0, tap = 0; y < c.size; ++y)
    for (int64_t x = 0; x < c.size; ++x) found.of[tap++] = first + (y * c.width + x) * c.batch;
  return found;
}

// key [B] = the kinds of all taps, one beside the other.
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

constexpr int64_t kGuesses = 1 << 12;

inline int64_t place_of(uint64_t key, int64_t slots) { return static_cast<int64_t>(mixed(key) >> 40) & (slots - 1); }

// Numbers for equal keys [count], in the order of their first: how many, or 0 where two keys share a place in a table
// and it must be done with more care. Nothing here depends on what the keys are, so the processor never guesses wrong.
inline int64_t number_keys(int64_t count, const uint64_t* __restrict key, uint16_t* __restrict of) {
  uint16_t* __restrict slot = reinterpret_cast<uint16_t*>(scratch(kGuessed, kGuesses / 2 + count));
  uint16_t *__restrict first = slot + count, *__restrict table = first + count;  // the table need not be clean
  for (int64_t i = 0; i < count; ++i) slot[i] = static_cast<uint16_t>(place_of(key[i], kGuesses));
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

// The same with care: same(i, j) has the last word.
template <class Same>
inline int64_t number_slowly(int64_t count, const uint64_t* key, Same same, uint16_t* of) {
  const int64_t slots = power_of_two(2 * count);
  uint16_t* table = reinterpret_cast<uint16_t*>(scratch(kGuessed, slots / 2 + count));  // 0: free
  uint16_t* first = table + slots;
  for (int64_t slot = 0; slot < slots; ++slot) table[slot] = 0;
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t slot = place_of(key[i], slots);
    while (table[slot] != 0 && !same(first[table[slot] - 1], i)) slot = (slot + 1) & (slots - 1);
    if (table[slot] == 0) {
      first[found] = static_cast<uint16_t>(i);
      table[slot] = static_cast<uint16_t>(++found);
    }
    of[i] = static_cast<uint16_t>(table[slot] - 1);
  }
  return found;
}

constexpr int64_t kAsked = 4;  // images, for a patch that many have

// An image whose key many others have as well.
inline int64_t common_key(int64_t B, const uint64_t* __restrict key) {
  int64_t found = 0, most = 0;
  for (int64_t i = 0; i < kAsked; ++i) {
    const uint64_t asked = key[i * B / kAsked];
    int64_t having = 0;
    for (int64_t b = 0; b < B; ++b) having += key[b] == asked;
    if (having > most) most = having, found = i * B / kAsked;
  }
  return found;
}

// What is kept of a place: how many patches there are, and what `Patches` says of them.
inline int64_t page_size(const Bits& c) { return rounded_up(1 + (2 + c.size * c.size) * c.batch, 32); }

inline Patches read_page(const Bits& c, const uint16_t* page) {
  return {page[0], page + 1 + 2 * c.batch, page + 1, page + 1 + c.batch};
}

// `of` [H * W, B]: the kinds of all pixels there.
inline void write_page(const Bits& c, int64_t width, const uint16_t* of, int64_t place, uint16_t* page) {
  const int64_t taps = c.size * c.size, B = c.batch;
  uint16_t *others = page + 1, *end = others + B, *kinds = end + B;
  uint64_t* __restrict key = reinterpret_cast<uint64_t*>(scratch(kOnes, 6 * B + 1));
  uint64_t* __restrict key_of_other = key + B;
  uint16_t* __restrict other = reinterpret_cast<uint16_t*>(key_of_other + B);
  const Taps at = taps_of(c, of, place);
  const bool exact = width > 0;
  if (exact) {
    exact_keys(c, width, at, key);
  } else {
    for (int64_t b = 0; b < B; ++b) key[b] = 0;
    for (int64_t tap = 0; tap < taps; ++tap)
      for (int64_t b = 0; b < B; ++b) key[b] = mixed(key[b] + at.of[tap][b] + 1);
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
    count = number_slowly(left, key_of_other, [&](int64_t i, int64_t j) { return same(other[i], other[j]); }, number);
  page[0] = static_cast<uint16_t>(count + 1);
  for (int64_t k = 1; k <= count; ++k) end[k] = 0;
  for (int64_t i = 0; i < left; ++i) ++end[number[i] + 1];
  for (int64_t k = 1; k <= count; ++k) end[k] = static_cast<uint16_t>(end[k] + end[k - 1]);
  for (int64_t k = 0; k < count; ++k) next[k] = end[k];
  for (int64_t i = 0; i < left; ++i) others[next[number[i]]++] = other[i];
  for (int64_t k = 1; k <= count; ++k) keep(k, others[end[k - 1]]);
}

// All that is known of the numbers of a batch. The gradient looks at those that the values came from, and a second
// network at those of the first, so it is remembered.
struct Found {
  Kinds* kinds;           // [L]
  uint16_t* pages;  // [L, places], `page_size` each
  bool known;             // if not, pages are to be written

  uint16_t* page(const Bits& c, int64_t lane, int64_t place) const {
    return pages + (lane * c.pixels() + place) * page_size(c);
  }
};

inline Found find(const Bits& c, const void* numbers) {
  const int64_t room = rounded_up(kinds_room(c), 16), places = c.lanes * c.pixels();
  const int64_t table = rounded_up(c.lanes * static_cast<int64_t>(sizeof(Kinds)) / 4, 16);
  const int64_t shape[] = {kWidth, c.lanes, c.batch, c.height, c.width, c.channels, c.bits, c.size, c.bytes};
  const int64_t bytes = c.lanes * c.batch * c.height * c.width * c.channels * (c.bytes ? 1 : 4);
  const Remembered memory =
      remember(shape, sizeof shape, numbers, bytes, c.lanes * room + table + places * page_size(c) / 2);
  Kinds* kinds = reinterpret_cast<Kinds*>(memory.room + c.lanes * room);
  uint16_t* pages = reinterpret_cast<uint16_t*>(memory.room + c.lanes * room + table);
  if (!memory.known)
    each(c.lanes, [=](int64_t lane) { kinds[lane] = find_kinds(c, numbers, lane, memory.room + lane * room); });
  return {kinds, pages, memory.known};
}
