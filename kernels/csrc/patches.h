// What repeats in planes of zeros and ones: pixels of the same kind, and patches that are the same at the same place.

constexpr long kMostTaps = 64;  // of a patch; as in cells.py

// The pixels of a lane, each as the number of its kind: equal numbers, equal planes.
struct Kinds {
  const unsigned short* of;     // [H * W, B]; null: a pixel's planes are its number
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

// Whether the planes of a pixel are the number of its kind.
inline bool are_kinds(const Bits& c) { return c.planes() <= 7 && c.planes() * c.size * c.size <= 64; }

// `of` [H * W, B] of rows of pixels, where planes are kinds.
inline void number_rows(const Bits& c, const void* numbers, long lane, long first_row, long last_row,
                        unsigned short* of) {
  const long area = c.height * c.width, pixels = c.batch * area, end = c.lanes * pixels - 8;
  const bool behind = in_eight_bytes(c) && area * c.channels >= 8;  // an image is where eight bytes may be read
  const long sure = behind ? c.batch - 1 : 0;
  const unsigned char* bytes = static_cast<const unsigned char*>(numbers);
  for (long at = first_row * c.width; at < (last_row + 1) * c.width; ++at) {
    const long first = lane * pixels + at;
    unsigned short* to = of + at * c.batch;
    for (long b = 0; b < sure; ++b) to[b] = static_cast<unsigned short>(planes_of_bytes(c, bytes, first + b * area));
    for (long b = sure; b < c.batch; ++b)
      to[b] = static_cast<unsigned short>(planes_of(c, numbers, first + b * area, first + b * area >= end));
  }
}

// Numbers and planes of the kinds in a lane; `room` as large as `kinds_room`.
inline long kinds_room(const Bits& c) {  // in floats
  if (are_kinds(c)) return 256;
  const long pixels = c.batch * c.height * c.width;
  return pixels / 2 + 1 + 2 * pixels + power_of_two(2 * pixels) / 2 + 64;
}

inline Kinds find_kinds(const Bits& c, const void* numbers, long lane, float* room) {
  const long area = c.height * c.width, pixels = c.batch * area, taps = c.size * c.size, end = c.lanes * pixels - 8;
  unsigned long* planes = reinterpret_cast<unsigned long*>(room);
  if (are_kinds(c)) {
    const long count = 1L << c.planes();
    for (long kind = 0; kind < count; ++kind) planes[kind] = kind;
    return {nullptr, planes, count, c.planes()};
  }
  unsigned short* of = reinterpret_cast<unsigned short*>(planes + pixels);
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

// The different patches at one place. The first is one that many images have; the others say which do not.
struct Patches {
  long count;
  const unsigned short* kinds;   // [count, taps] of their pixels
  const unsigned short* others;  // all images without the first patch, by what patch they have
  const unsigned short* end;     // [count] of the images of each patch among the others; the first has none there
};

// Where the kinds [B] of every tap of a place are.
struct Taps {
  const unsigned short* of[kMostTaps];
};

inline Taps taps_of(const Bits& c, const unsigned short* of, long place) {
  const long columns = c.width - c.size + 1;
  const unsigned short* first = of + (place / columns * c.width + place % columns) * c.batch;
  Taps found;
  for (long y = 0, tap = 0; y < c.size; ++y)
    for (long x = 0; x < c.size; ++x) found.of[tap++] = first + (y * c.width + x) * c.batch;
  return found;
}

// key [B] = the kinds of all taps, one beside the other.
inline void exact_keys(const Bits& c, long width, const Taps& taps, unsigned long* __restrict key) {
  const long B = c.batch, count = c.size * c.size;
  long tap = 0;
  for (long b = 0; b < B; ++b) key[b] = 0;
  for (; tap + 3 <= count; tap += 3) {
    const unsigned short *__restrict x = taps.of[tap], *__restrict y = taps.of[tap + 1], *__restrict z = taps.of[tap + 2];
    for (long b = 0; b < B; ++b)
      key[b] = key[b] << 3 * width | static_cast<unsigned long>(x[b]) << 2 * width |
               static_cast<unsigned long>(y[b]) << width | z[b];
  }
  for (; tap < count; ++tap)
    for (long b = 0; b < B; ++b) key[b] = key[b] << width | taps.of[tap][b];
}

constexpr long kGuesses = 1 << 12;

inline long place_of(unsigned long key, long slots) { return static_cast<long>(mixed(key) >> 40) & (slots - 1); }

// Numbers for equal keys [count], in the order of their first: how many, or 0 where two keys share a place in a table
// and it must be done with more care. Nothing here depends on what the keys are, so the processor never guesses wrong.
inline long number_keys(long count, const unsigned long* __restrict key, unsigned short* __restrict of) {
  unsigned short* __restrict slot = reinterpret_cast<unsigned short*>(scratch(kGuessed, kGuesses / 2 + count));
  unsigned short *__restrict first = slot + count, *__restrict table = first + count;  // the table need not be clean
  for (long i = 0; i < count; ++i) slot[i] = static_cast<unsigned short>(place_of(key[i], kGuesses));
  for (long i = count - 1; i >= 0; --i) table[slot[i]] = static_cast<unsigned short>(i);
  for (long i = 0; i < count; ++i) first[i] = table[slot[i]];
  unsigned long wrong = 0;
  for (long i = 0; i < count; ++i) wrong |= key[i] ^ key[first[i]];
  if (wrong != 0) return 0;
  long found = 0;
  for (long i = 0; i < count; ++i) {
    of[i] = static_cast<unsigned short>(found);
    of[i] = of[first[i]];
    found += first[i] == i;
  }
  return found;
}

// The same with care: same(i, j) has the last word.
template <class Same>
inline long number_slowly(long count, const unsigned long* key, Same same, unsigned short* of) {
  const long slots = power_of_two(2 * count);
  unsigned short* table = reinterpret_cast<unsigned short*>(scratch(kGuessed, slots / 2 + count));  // 0: free
  unsigned short* first = table + slots;
  for (long slot = 0; slot < slots; ++slot) table[slot] = 0;
  long found = 0;
  for (long i = 0; i < count; ++i) {
    long slot = place_of(key[i], slots);
    while (table[slot] != 0 && !same(first[table[slot] - 1], i)) slot = (slot + 1) & (slots - 1);
    if (table[slot] == 0) {
      first[found] = static_cast<unsigned short>(i);
      table[slot] = static_cast<unsigned short>(++found);
    }
    of[i] = static_cast<unsigned short>(table[slot] - 1);
  }
  return found;
}

constexpr long kAsked = 4;  // images, for a patch that many have

// An image whose key many others have as well.
inline long common_key(long B, const unsigned long* __restrict key) {
  long found = 0, most = 0;
  for (long i = 0; i < kAsked; ++i) {
    const unsigned long asked = key[i * B / kAsked];
    long having = 0;
    for (long b = 0; b < B; ++b) having += key[b] == asked;
    if (having > most) most = having, found = i * B / kAsked;
  }
  return found;
}

// What is kept of a place: how many patches there are, and what `Patches` says of them.
inline long page_size(const Bits& c) { return rounded_up(1 + (2 + c.size * c.size) * c.batch, 32); }

inline Patches read_page(const Bits& c, const unsigned short* page) {
  return {page[0], page + 1 + 2 * c.batch, page + 1, page + 1 + c.batch};
}

// `of` [H * W, B]: the kinds of all pixels there.
inline void write_page(const Bits& c, long width, const unsigned short* of, long place, unsigned short* page) {
  const long taps = c.size * c.size, B = c.batch;
  unsigned short *others = page + 1, *end = others + B, *kinds = end + B;
  unsigned long* __restrict key = reinterpret_cast<unsigned long*>(scratch(kOnes, 6 * B + 1));
  unsigned long* __restrict key_of_other = key + B;
  unsigned short* __restrict other = reinterpret_cast<unsigned short*>(key_of_other + B);
  const Taps at = taps_of(c, of, place);
  const bool exact = width > 0;
  if (exact) {
    exact_keys(c, width, at, key);
  } else {
    for (long b = 0; b < B; ++b) key[b] = 0;
    for (long tap = 0; tap < taps; ++tap)
      for (long b = 0; b < B; ++b) key[b] = mixed(key[b] + at.of[tap][b] + 1);
  }
  const auto same = [&](long a, long b) {
    if (key[a] != key[b]) return false;
    for (long tap = 0; !exact && tap < taps; ++tap)
      if (at.of[tap][a] != at.of[tap][b]) return false;
    return true;
  };
  const long common = common_key(B, key);
  const auto keep = [&](long k, long b) {
    for (long tap = 0; tap < taps; ++tap) kinds[k * taps + tap] = at.of[tap][b];
  };
  keep(0, common);
  page[0] = 1, end[0] = 0;
  long left = 0;
  for (long b = 0; b < B; ++b) {
    other[left] = static_cast<unsigned short>(b);
    left += exact ? key[b] != key[common] : !same(b, common);
  }
  if (left == 0) return;
  for (long i = 0; i < left; ++i) key_of_other[i] = key[other[i]];
  unsigned short *number = other + B, *next = number + B;
  long count = exact ? number_keys(left, key_of_other, number) : 0;
  if (count == 0)
    count = number_slowly(left, key_of_other, [&](long i, long j) { return same(other[i], other[j]); }, number);
  page[0] = static_cast<unsigned short>(count + 1);
  for (long k = 1; k <= count; ++k) end[k] = 0;
  for (long i = 0; i < left; ++i) ++end[number[i] + 1];
  for (long k = 1; k <= count; ++k) end[k] = static_cast<unsigned short>(end[k] + end[k - 1]);
  for (long k = 0; k < count; ++k) next[k] = end[k];
  for (long i = 0; i < left; ++i) others[next[number[i]]++] = other[i];
  for (long k = 1; k <= count; ++k) keep(k, others[end[k - 1]]);
}

// All that is known of the numbers of a batch. The gradient looks at those that the values came from, and a second
// network at those of the first, so it is remembered.
struct Found {
  Kinds* kinds;           // [L]
  unsigned short* pages;  // [L, places], `page_size` each
  bool known;             // if not, pages are to be written

  unsigned short* page(const Bits& c, long lane, long place) const {
    return pages + (lane * c.pixels() + place) * page_size(c);
  }
};

inline Found find(const Bits& c, const void* numbers) {
  const long room = rounded_up(kinds_room(c), 16), places = c.lanes * c.pixels();
  const long table = rounded_up(c.lanes * static_cast<long>(sizeof(Kinds)) / 4, 16);
  const long shape[] = {kWidth, c.lanes, c.batch, c.height, c.width, c.channels, c.bits, c.size, c.bytes};
  const long bytes = c.lanes * c.batch * c.height * c.width * c.channels * (c.bytes ? 1 : 4);
  const Remembered memory =
      remember(shape, sizeof shape, numbers, bytes, c.lanes * room + table + places * page_size(c) / 2);
  Kinds* kinds = reinterpret_cast<Kinds*>(memory.room + c.lanes * room);
  unsigned short* pages = reinterpret_cast<unsigned short*>(memory.room + c.lanes * room + table);
  if (!memory.known)
    each(c.lanes, [=](long lane) { kinds[lane] = find_kinds(c, numbers, lane, memory.room + lane * room); });
  return {kinds, pages, memory.known};
}
