// Sampling from a replay ring: descent of the sum tree, and the frames of the sampled rows.
#include <cstring>

#include "ffi.h"
#include "pool.h"

namespace masp {
namespace {

constexpr int64_t kBranching = 32;  // BRANCHING in masp/ops/sampling.py

const int32_t* integers(const CallFrame* frame, int i) { return static_cast<int32_t*>(frame->arguments.at[i]->data); }
uint8_t* bytes(const CallFrame* frame, int i) { return static_cast<uint8_t*>(frame->results.at[i]->data); }

constexpr int64_t kInterleaved = 8;  // samples descended together, to hide the latency of the additions

// For each node, the child [0, 32) at which the running sum first exceeds `mass`; `mass` becomes the remainder. Sums
// all children, because an early exit would be an unpredictable branch.
template <int64_t N>
void find_children(const float* const* family, float* mass, int32_t* child) {
  float ends[N][kBranching], end[N] = {};
  for (int64_t i = 0; i < kBranching; ++i)
    for (int64_t n = 0; n < N; ++n) ends[n][i] = end[n] += family[n][i];
  for (int64_t n = 0; n < N; ++n) {
    int32_t index = 0;
    for (int64_t i = 0; i < kBranching; ++i) index += !(ends[n][i] > mass[n]);
    if (index == kBranching)  // rounding: choose the last child with a positive priority
      for (--index; index > 0 && !(family[n][index] > 0.0f);) --index;
    const float before = index > 0 ? ends[n][index - 1] : 0.0f;
    mass[n] = mass[n] > before ? mass[n] - before : 0.0f;
    child[n] = index;
  }
}

// Interleaves four frames of single bytes, as Atari has; a zero byte of `mask` clears its frame.
void interleave(const uint8_t* const* from, uint32_t mask, int64_t count, uint8_t* to) {
  const uint8_t *a = from[0], *b = from[1], *c = from[2], *d = from[3];
  uint32_t* __restrict four = reinterpret_cast<uint32_t*>(to);
  for (int64_t i = 0; i < count; ++i)
    four[i] = (a[i] | b[i] << 8 | c[i] << 16 | static_cast<uint32_t>(d[i]) << 24) & mask;
}

// A ring of rows [L, T, N] with a frame of `size` bytes each. `draw` writes the newest `stack` frames, newest last,
// interleaved in pieces of `piece` bytes; frames before the episode are zeros.
struct Ring {
  const uint8_t *frames, *age;
  int64_t ticks, envs, size, stack, piece;

  Ring(const CallFrame* call, int first, int64_t stack, int64_t piece) : stack(stack), piece(piece) {
    frames = static_cast<const uint8_t*>(call->arguments.at[first]->data);
    age = static_cast<const uint8_t*>(call->arguments.at[first + 1]->data);
    const int64_t* shape = masp::shape(call, first);
    ticks = shape[1], envs = shape[2], size = shape[3] * integer_attribute(call, "item_bytes");
  }

  int64_t at(int64_t lane, int64_t row, int64_t env) const { return (lane * ticks + row) * envs + env; }

  void prefetch(int64_t lane, int64_t row, int64_t env) const {
    const uint8_t* frame = frames + at(lane, row, env) * size;
    for (int64_t i = 0; i < smaller(size, 1024); i += 64) __builtin_prefetch(frame + i);
  }

  void draw(int64_t lane, int64_t row, int64_t env, uint8_t* to) const {
    const int64_t frames_before = age[at(lane, row, env)], cells = size / piece;
    const auto frame_of = [&](int64_t back) { return frames + at(lane, (row + ticks - back) % ticks, env) * size; };
    if (stack == 4 && piece == 1) {
      const uint8_t* from[] = {frame_of(3), frame_of(2), frame_of(1), frame_of(0)};
      uint32_t mask = 0;
      for (int64_t n = 0; n < 4; ++n) mask |= 3 - n <= frames_before ? 255u << 8 * n : 0u;
      interleave(from, mask, cells, to);
      return;
    }
    if (stack == 1) {
      std::memcpy(to, frame_of(0), size);
      return;
    }
    for (int64_t s = 0; s < stack; ++s, to += piece) {
      const int64_t back = stack - 1 - s;
      const uint8_t* from = frame_of(back);
      for (int64_t cell = 0; cell < cells; ++cell, from += piece) {
        if (back <= frames_before) std::memcpy(to + cell * stack * piece, from, piece);
        else std::memset(to + cell * stack * piece, 0, piece);
      }
    }
  }

 private:
  static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
};

}  // namespace
}  // namespace masp

using namespace masp;

extern "C" {

// (mass [L, B], levels [L, n] of the tree from the leaves up) -> leaf [L, B] int32
void* masp_find_leaves(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const int64_t lanes = shape(frame, 0)[0], batch = shape(frame, 0)[1];
  int32_t* leaf = static_cast<int32_t*>(frame->results.at[0]->data);
  float* left = scratch(kPacked, lanes * batch);
  for (int64_t i = 0; i < lanes * batch; ++i) left[i] = argument(frame, 0)[i], leaf[i] = 0;
  // Level by level, so that samples are independent.
  for (int64_t level = frame->arguments.size - 1; level > 0; --level) {
    const int64_t size = shape(frame, static_cast<int>(level))[1];
    const float* families = argument(frame, static_cast<int>(level));
    const float* family[kInterleaved];
    int32_t child[kInterleaved];
    for (int64_t i = 0; i < lanes * batch;) {
      const int64_t count = lanes * batch - i >= kInterleaved ? kInterleaved : 1;
      for (int64_t n = 0; n < count; ++n) family[n] = families + (i + n) / batch * size + leaf[i + n] * kBranching;
      count == 1 ? find_children<1>(family, left + i, child) : find_children<kInterleaved>(family, left + i, child);
      for (int64_t n = 0; n < count; ++n, ++i) leaf[i] = static_cast<int32_t>(leaf[i] * kBranching + child[n]);
    }
  }
  return nullptr;
}

// (observations [L, T, N, D], age [L, T, N] bytes, row and env [L, B]) -> [L, B, D / channels, stack, channels] frames
void* masp_stack_frames(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const int64_t* out = result_shape(frame, 0);
  const Ring ring(frame, 0, out[3], out[4] * integer_attribute(frame, "item_bytes"));
  const auto *row = integers(frame, 2), *env = integers(frame, 3);
  uint8_t* to = bytes(frame, 0);
  for (int64_t i = 0; i < out[0] * out[1]; ++i)
    ring.draw(i / out[1], row[i], env[i], to + i * ring.stack * ring.size);
  return nullptr;
}

// (observations [L, T, N, D], age bytes, action, reward, discount, span [L, T, N], leaf [L, B]) -> frames of the row of
// each leaf and of the row its window ends at, [L, B, D / channels, stack, channels] both; its action, reward, discount
void* masp_gather_windows(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const int64_t* out = result_shape(frame, 0);
  const int64_t batch = out[1], count = out[0] * batch;
  const Ring ring(frame, 0, out[3], out[4] * integer_attribute(frame, "item_bytes"));
  const int32_t *span = integers(frame, 5), *leaf = integers(frame, 6);
  const auto row = [&](int64_t i) { return leaf[i] / ring.envs; };
  const auto env = [&](int64_t i) { return leaf[i] % ring.envs; };
  for (int64_t i = 0; i < count; ++i) ring.prefetch(i / batch, row(i), env(i));
  int32_t* following = reinterpret_cast<int32_t*>(scratch(kPacked, count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = ring.at(i / batch, row(i), env(i));
    following[i] = static_cast<int32_t>((row(i) + span[at]) % ring.ticks);
    ring.prefetch(i / batch, following[i], env(i));
    static_cast<int32_t*>(frame->results.at[2]->data)[i] = integers(frame, 2)[at];
    result(frame, 3)[i] = argument(frame, 3)[at];
    result(frame, 4)[i] = argument(frame, 4)[at];
  }
  const int64_t size = ring.stack * ring.size;
  for (int64_t i = 0; i < count; ++i) {
    ring.draw(i / batch, row(i), env(i), bytes(frame, 0) + i * size);
    ring.draw(i / batch, following[i], env(i), bytes(frame, 1) + i * size);
  }
  return nullptr;
}

}  // extern "C"
