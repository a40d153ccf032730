// Threefry-2x32 with 20 rounds (Salmon et al. 2011), the random bits of JAX, in one call instead of a loop of
// small operations.
#include "ffi.h"

namespace masp {
namespace {

inline uint32_t rotated(uint32_t x, int by) { return x << by | x >> (32 - by); }

// One word per element, or one for all.
struct Words {
  const uint32_t* data;
  bool scalar;
  uint32_t operator[](int64_t i) const { return data[scalar ? 0 : i]; }
};

struct Bits {
  uint32_t a, b;
};

inline Bits block(uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1) {
  constexpr int kTurns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t key[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  uint32_t a = c0 + k0, b = c1 + k1;
  for (uint32_t group = 0; group < 5; ++group) {
    for (int turn : kTurns[group % 2]) {
      a += b;
      b = rotated(b, turn) ^ a;
    }
    a += key[(group + 1) % 3];
    b += key[(group + 2) % 3] + group + 1;
  }
  return {a, b};
}

// Many blocks of one key; vectorises.
void threefry_one_key(int64_t count, uint32_t k0, uint32_t k1, const uint32_t* c0, const uint32_t* c1,
                uint32_t* __restrict out0, uint32_t* __restrict out1) {
  for (int64_t i = 0; i < count; ++i) {
    const Bits bits = block(k0, k1, c0[i], c1[i]);
    out0[i] = bits.a, out1[i] = bits.b;
  }
}

void threefry(int64_t count, Words k0, Words k1, Words c0, Words c1, uint32_t* out0, uint32_t* out1) {
  if (k0.scalar && k1.scalar && !c0.scalar && !c1.scalar) return threefry_one_key(count, k0[0], k1[0], c0.data,
                                                                                  c1.data, out0, out1);
  for (int64_t i = 0; i < count; ++i) {
    const Bits bits = block(k0[i], k1[i], c0[i], c1[i]);
    out0[i] = bits.a, out1[i] = bits.b;
  }
}

}  // namespace
}  // namespace masp

using namespace masp;

extern "C" {

// (two words of keys, two of counters, each of the shape of the results or one number) -> two words of random bits
void* masp_threefry(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const auto words = [&](int i) {
    const Buffer* given = frame->arguments.at[i];
    return Words{static_cast<const uint32_t*>(given->data), elements(given) == 1};
  };
  const auto results = [&](int i) { return static_cast<uint32_t*>(frame->results.at[i]->data); };
  threefry(elements(frame->results.at[0]), words(0), words(1), words(2), words(3), results(0), results(1));
  return nullptr;
}

}  // extern "C"
