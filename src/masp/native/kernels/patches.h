// What repeats in planes of zeros and ones: pixels of the same kind, and patches that are the same at the same place.

constexpr long kMostTaps = 64;  // of a patch; as in cells.py

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
  const unsigned short *of, *image;  // [B], [count]
};

// Where the kinds [B] of every tap of a place are.
struct Taps {
  const unsigned short* of[kMostTaps];
};

inline Taps taps_of(const Bits& c, const Kinds& kinds, long place) {
  const long columns = c.width - c.size + 1;
  const unsigned short* first = kinds.of + (place / columns * c.width + place % columns) * c.batch;
  Taps found;
  for (long y = 0, tap = 0; y < c.size; ++y)
    for (long x = 0; x < c.size; ++x) found.of[tap++] = first + (y * c.width + x) * c.batch;
  return found;
}

// key [B] = the kinds of all taps, one beside the other.
inline void exact_keys(const Bits& c, const Kinds& kinds, const Taps& taps, unsigned long* __restrict key) {
  const long B = c.batch, count = c.size * c.size, width = kinds.width;
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

// Numbers for equal keys [B], in the order of their first image: how many, or 0 where two keys share a place in a table
// and it must be done with more care. Nothing here depends on what the keys are, so the processor never guesses wrong.
inline long number_keys(long B, const unsigned long* __restrict key, unsigned short* __restrict of,
                        unsigned short* __restrict image) {
  unsigned short* __restrict slot = reinterpret_cast<unsigned short*>(scratch(kGuessed, kGuesses / 2 + B));
  unsigned short *__restrict first = slot + B, *__restrict table = first + B;  // the table need not be clean
  for (long b = 0; b < B; ++b) slot[b] = static_cast<unsigned short>(place_of(key[b], kGuesses));
  for (long b = B - 1; b >= 0; --b) table[slot[b]] = static_cast<unsigned short>(b);
  for (long b = 0; b < B; ++b) first[b] = table[slot[b]];
  unsigned long wrong = 0;
  for (long b = 0; b < B; ++b) wrong |= key[b] ^ key[first[b]];
  if (wrong != 0) return 0;
  long count = 0;
  for (long b = 0; b < B; ++b) {
    image[count] = static_cast<unsigned short>(b);
    of[b] = static_cast<unsigned short>(count);
    of[b] = of[first[b]];
    count += first[b] == b;
  }
  return count;
}

// How many there are at a place; `of` [B] and `image` [B] are filled in.
inline long find_patches(const Bits& c, const Kinds& kinds, long place, unsigned short* of, unsigned short* image) {
  const long taps = c.size * c.size, slots = power_of_two(2 * c.batch), B = c.batch;
  unsigned long* __restrict key = reinterpret_cast<unsigned long*>(scratch(kOnes, 2 * B + slots / 2 + 1));
  const Taps at = taps_of(c, kinds, place);
  long count = 0;
  if (kinds.width > 0) {
    exact_keys(c, kinds, at, key);
    count = number_keys(B, key, of, image);
    if (count > 0) return count;
  } else {
    for (long b = 0; b < B; ++b) key[b] = 0;
    for (long tap = 0; tap < taps; ++tap)
      for (long b = 0; b < B; ++b) key[b] = mixed(key[b] + at.of[tap][b] + 1);
  }
  const auto same = [&](long a, long b) {
    if (key[a] != key[b]) return false;
    for (long tap = 0; kinds.width == 0 && tap < taps; ++tap)
      if (at.of[tap][a] != at.of[tap][b]) return false;
    return true;
  };
  unsigned short* table = reinterpret_cast<unsigned short*>(key + B);  // number + 1; 0: free
  for (long slot = 0; slot < slots; ++slot) table[slot] = 0;
  for (long b = 0; b < B; ++b) {
    long slot = place_of(key[b], slots);
    while (table[slot] != 0 && !same(image[table[slot] - 1], b)) slot = (slot + 1) & (slots - 1);
    if (table[slot] == 0) {
      image[count] = static_cast<unsigned short>(b);
      table[slot] = static_cast<unsigned short>(++count);
    }
    of[b] = static_cast<unsigned short>(table[slot] - 1);
  }
  return count;
}

// All that is known of the numbers of a batch. The gradient looks at those that the values came from, and a second
// network at those of the first, so it is remembered.
struct Found {
  Kinds* kinds;                       // [L]
  unsigned short *count, *of, *image;  // [L, places], [L, places, B] twice
  bool known;

  // Those of a place; found now, unless they are known.
  Patches patches(const Bits& c, long lane, long place) const {
    const long at = lane * c.pixels() + place;
    unsigned short *its_of = of + at * c.batch, *its_image = image + at * c.batch;
    if (!known) count[at] = static_cast<unsigned short>(find_patches(c, kinds[lane], place, its_of, its_image));
    return {count[at], its_of, its_image};
  }
};

inline Found find(const Bits& c, const void* numbers) {
  const long room = rounded_up(kinds_room(c), 16), places = c.lanes * c.pixels();
  const long table = rounded_up(c.lanes * static_cast<long>(sizeof(Kinds)) / 4, 16);
  const long shape[] = {kWidth, c.lanes, c.batch, c.height, c.width, c.channels, c.bits, c.size, c.bytes};
  const long bytes = c.lanes * c.batch * c.height * c.width * c.channels * (c.bytes ? 1 : 4);
  const Remembered memory =
      remember(shape, sizeof shape, numbers, bytes, c.lanes * room + table + places * (c.batch + 1) + 1);
  Kinds* kinds = reinterpret_cast<Kinds*>(memory.room + c.lanes * room);
  unsigned short* of = reinterpret_cast<unsigned short*>(memory.room + c.lanes * room + table);
  if (!memory.known)
    each(c.lanes, [=](long lane) { kinds[lane] = find_kinds(c, numbers, lane, memory.room + lane * room); });
  return {kinds, of + 2 * places * c.batch, of, of + places * c.batch, memory.known};
}
