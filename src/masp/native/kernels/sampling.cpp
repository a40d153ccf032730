// Drawing rows from the replay: down the sum tree, and the frames that were drawn.
#include <cstdint>
#include <cstring>

#include "ffi.h"

namespace masp {
namespace {

constexpr int64_t kBranching = 32;  // as in priorities.py

// The child [0, 32) at which the running sum of its family first exceeds `mass`, which becomes what is left of it.
int64_t child_of(const float* family, float* mass) {
  float end = 0.0f, before = 0.0f;
  int64_t last = 0;
  for (int64_t i = 0; i < kBranching; ++i) {
    const float next = end + family[i];
    if (family[i] > 0.0f) {
      last = i, before = end;
      if (next > *mass) break;  // rounding may leave it at the very end: then the last child with any priority is meant
    }
    end = next;
  }
  *mass = *mass > before ? *mass - before : 0.0f;
  return last;
}

// Four frames of single bytes side by side, as Atari has them, each in the place of a byte of `mask`; where that is 0
// there are zeros.
void interleave(const unsigned char* const* from, uint32_t mask, int64_t count, unsigned char* to) {
  const unsigned char *a = from[0], *b = from[1], *c = from[2], *d = from[3];
  uint32_t* __restrict four = reinterpret_cast<uint32_t*>(to);
  for (int64_t i = 0; i < count; ++i)
    four[i] = (a[i] | b[i] << 8 | c[i] << 16 | static_cast<uint32_t>(d[i]) << 24) & mask;
}

}  // namespace
}  // namespace masp

using namespace masp;

extern "C" {

// (mass [L, B], levels [L, n] of the tree from the leaves up) -> leaf [L, B] int32
void* masp_find(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const int64_t lanes = shape(frame, 0)[0], batch = shape(frame, 0)[1];
  int32_t* leaf = static_cast<int32_t*>(frame->results.at[0]->data);
  for (int64_t i = 0; i < lanes * batch; ++i) {
    float mass = argument(frame, 0)[i];
    int64_t index = 0;
    for (int64_t level = frame->arguments.size - 1; level > 0; --level) {
      const int64_t size = shape(frame, static_cast<int>(level))[1];
      const float* sums = argument(frame, static_cast<int>(level)) + i / batch * size;
      index = index * kBranching + child_of(sums + index * kBranching, &mass);
    }
    leaf[i] = static_cast<int32_t>(index);
  }
  return nullptr;
}

// (observations [L, T, N, D], age [L, T, N] bytes, row and env [L, B]) -> [L, B, D / channels, stack, channels]: the
// newest `stack` frames of each row, newest last, zeros before the episode.
void* masp_stacked(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const int64_t *ring = shape(frame, 0), *out = result_shape(frame, 0);
  const int64_t ticks = ring[1], envs = ring[2], batch = out[1], cells = out[2], stack = out[3];
  const int64_t bytes = whole(frame, "bytes"), piece = out[4] * bytes, size = ring[3] * bytes;
  const auto data = [&](int i) { return static_cast<const unsigned char*>(frame->arguments.at[i]->data); };
  const auto *row = reinterpret_cast<const int32_t*>(data(2)), *env = reinterpret_cast<const int32_t*>(data(3));
  unsigned char* to = static_cast<unsigned char*>(frame->results.at[0]->data);
  for (int64_t i = 0; i < ring[0] * batch; ++i) {
    const int64_t lane = i / batch * ticks * envs;
    const int64_t known = data(1)[lane + row[i] * envs + env[i]];
    const auto frame_of = [&](int64_t back) {
      return data(0) + (lane + (row[i] + ticks - back) % ticks * envs + env[i]) * size;
    };
    unsigned char* place = to + i * stack * size;
    if (stack == 4 && piece == 1) {
      const unsigned char* from[] = {frame_of(3), frame_of(2), frame_of(1), frame_of(0)};
      uint32_t mask = 0;
      for (int64_t n = 0; n < 4; ++n) mask |= 3 - n <= known ? 255u << 8 * n : 0u;
      interleave(from, mask, cells, place);
      continue;
    }
    if (stack == 1) {
      std::memcpy(place, frame_of(0), size);
      continue;
    }
    for (int64_t s = 0; s < stack; ++s, place += piece) {
      const int64_t back = stack - 1 - s;
      const unsigned char* from = frame_of(back);
      for (int64_t cell = 0; cell < cells; ++cell, from += piece) {
        if (back <= known) std::memcpy(place + cell * stack * piece, from, piece);
        else std::memset(place + cell * stack * piece, 0, piece);
      }
    }
  }
  return nullptr;
}

}  // extern "C"
