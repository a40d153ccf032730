// What XLA calls: each handler reads shapes, and goes to the kernels for the instructions that this processor has.
#include <atomic>
#include <cstring>

#include "ffi.h"
#include "pool.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define MASP_DISPATCH 1
#endif

#ifdef MASP_DISPATCH
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512bw,fma,prefer-vector-width=512")
#endif
namespace masp::avx512 {
constexpr long kWidth = 16, kTotal = 24;
#include "kernels.h"
}  // namespace masp::avx512
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace masp::avx2 {
constexpr long kWidth = 8, kTotal = 12;
#include "kernels.h"
}  // namespace masp::avx2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

namespace masp::plain {
constexpr long kWidth = 4, kTotal = 12;
#include "kernels.h"
}  // namespace masp::plain

namespace masp {
namespace {

// The best instructions that this processor has and nobody forbade: 0 plain, 1 AVX2, 2 AVX-512.
std::atomic<int> most_instructions{2};

int instructions() {
  int found = 0;
#ifdef MASP_DISPATCH
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found = 1;
  if (found == 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    found = 2;
#endif
  const int most = most_instructions.load(std::memory_order_relaxed);
  return found < most ? found : most;
}

#ifdef MASP_DISPATCH
#define MASP_CALL(make, call)      \
  switch (instructions()) {        \
    case 2: {                      \
      using namespace avx512;      \
      make;                        \
      call;                        \
      break;                       \
    }                              \
    case 1: {                      \
      using namespace avx2;        \
      make;                        \
      call;                        \
      break;                       \
    }                              \
    default: {                     \
      using namespace plain;       \
      make;                        \
      call;                        \
    }                              \
  }
#else
#define MASP_CALL(make, call) \
  {                           \
    using namespace plain;    \
    make;                     \
    call;                     \
  }
#endif

void* attribute(const CallFrame* frame, const char* name) {
  for (int64_t i = 0; i < frame->attributes.size; ++i) {
    const Name* known = frame->attributes.names[i];
    if (known->length == std::strlen(name) && std::memcmp(known->text, name, known->length) == 0)
      return frame->attributes.at[i]->value;
  }
  return nullptr;
}

int64_t whole(const CallFrame* frame, const char* name) { return *static_cast<int64_t*>(attribute(frame, name)); }
float number(const CallFrame* frame, const char* name) { return *static_cast<float*>(attribute(frame, name)); }

}  // namespace
}  // namespace masp

using namespace masp;

// Images [L, B, H, W, C] and kernels [L, k, k, C, F] where they are, pixels [L, B, H', W', F].
#define MASP_SHAPES(images, kernel)                                                                          \
  const int64_t *i = images, *k = kernel;                                                                    \
  const Convolution c = {i[0], i[1], i[2], i[3], i[4], k[1], static_cast<long>(whole(frame, "stride")), k[4]}

extern "C" {

int masp_instructions() { return instructions(); }
void masp_limit_instructions(int most) { most_instructions = most; }  // so that tests reach all kernels
int masp_threads() { return threads(); }

// (images, kernel) -> pixels
void* masp_convolve(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  MASP_CALL(MASP_SHAPES(shape(frame, 0), shape(frame, 1)),
            convolve(c, argument(frame, 0), argument(frame, 1), result(frame, 0)));
  return nullptr;
}

// (images, pixels) -> kernel
void* masp_convolve_to_kernel(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  MASP_CALL(MASP_SHAPES(shape(frame, 0), result_shape(frame, 0)),
            convolve_to_kernel(c, argument(frame, 0), argument(frame, 1), result(frame, 0)));
  return nullptr;
}

// (pixels, kernel) -> images
void* masp_convolve_to_images(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  MASP_CALL(MASP_SHAPES(result_shape(frame, 0), shape(frame, 1)),
            convolve_to_images(c, argument(frame, 0), argument(frame, 1), result(frame, 0)));
  return nullptr;
}

#define MASP_WEIGHTS                                                                                            \
  const int64_t* w = shape(frame, 1);                                                                           \
  const Linear l = {w[0], shape(frame, 0)[1], w[2], w[1]};                                                      \
  const Weights weights = {argument(frame, 1), noisy ? argument(frame, 2) : nullptr,                            \
                           noisy ? argument(frame, 3) : nullptr, noisy ? argument(frame, 4) : nullptr}

// (x [L, B, I], kernel [L, O, I][, sigma, noise_in [L, I], noise_out [L, O]]) -> [L, B, O]
void* masp_linear(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const bool noisy = frame->arguments.size > 2;
  MASP_CALL(MASP_WEIGHTS, linear(l, argument(frame, 0), weights, result(frame, 0)));
  return nullptr;
}

// (gradient [L, B, O], kernel [L, O, I][, sigma, noise_in, noise_out]) -> [L, B, I]
void* masp_linear_to_inputs(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const bool noisy = frame->arguments.size > 2;
  MASP_CALL(MASP_WEIGHTS, linear_to_inputs(l, argument(frame, 0), weights, result(frame, 0)));
  return nullptr;
}

// (gradient [L, B, O], x [L, B, I][, noise_in, noise_out]) -> kernel [L, O, I][, sigma]
void* masp_linear_to_weights(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const bool noisy = frame->arguments.size > 2;
  const int64_t *g = shape(frame, 0), *x = shape(frame, 1);
  MASP_CALL(const Linear l = (Linear{g[0], g[1], x[2], g[2]}),
            linear_to_weights(l, argument(frame, 0), argument(frame, 1), noisy ? argument(frame, 2) : nullptr,
                              noisy ? argument(frame, 3) : nullptr, result(frame, 0),
                              noisy ? result(frame, 1) : nullptr));
  return nullptr;
}

// (logits [lanes..., ..., atoms], support [lanes..., atoms]) -> probabilities [..., atoms], values [...]
void* masp_softmax(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const int64_t rank = frame->arguments.at[0]->rank, atoms = shape(frame, 0)[rank - 1];
  int64_t rows = 1, lanes = 1;
  for (int64_t d = 0; d + 1 < rank; ++d) rows *= shape(frame, 0)[d];
  for (int64_t d = 0; d + 1 < frame->arguments.at[1]->rank; ++d) lanes *= shape(frame, 1)[d];
  MASP_CALL(, softmax(lanes, rows, atoms, argument(frame, 0), argument(frame, 1), result(frame, 0), result(frame, 1)));
  return nullptr;
}

// (corrections [lanes..., 2], n gradients, n means, n squares, n params) -> n means, n squares, n params in place, norm
void* masp_adam(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const int64_t count = (frame->arguments.size - 1) / 4, rank = frame->arguments.at[0]->rank;
  int64_t lanes = 1;
  for (int64_t d = 0; d + 1 < rank; ++d) lanes *= shape(frame, 0)[d];
  const auto size = [&](int64_t i) {
    const Buffer* buffer = frame->arguments.at[1 + i];
    int64_t product = 1;
    for (int64_t d = 0; d < buffer->rank; ++d) product *= buffer->dims[d];
    return product / lanes;
  };
  constexpr int64_t kMost = 256;
  if (count > kMost) return nullptr;  // the caller sees to it that there are fewer
  const float rate = number(frame, "learning_rate"), b1 = number(frame, "b1"), b2 = number(frame, "b2");
  const float eps = number(frame, "eps"), eps_root = number(frame, "eps_root"), most = number(frame, "max_norm");
  MASP_CALL(
      Leaf leaves[kMost]; for (int64_t i = 0; i < count; ++i) leaves[i] = (Leaf{
          argument(frame, 1 + i), result(frame, i), result(frame, count + i), result(frame, 2 * count + i), size(i)});
      const Step step = (Step{lanes, count, leaves, argument(frame, 0), rate, b1, b2, eps, eps_root, most}),
      adam(step, result(frame, 3 * count)));
  return nullptr;
}

}  // extern "C"
