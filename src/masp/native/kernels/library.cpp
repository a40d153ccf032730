// What XLA calls: each handler reads shapes and hands over to a kernel.
#include "ffi.h"
#include "pool.h"
#include "shapes.h"

namespace masp {
namespace {

// Of all axes but the last `kept`.
long product(const Buffer* buffer, int64_t kept) {
  long found = 1;
  for (int64_t d = 0; d + kept < buffer->rank; ++d) found *= buffer->dims[d];
  return found;
}

Convolution convolution(const CallFrame* frame, const int64_t* images, const int64_t* kernel) {
  return {images[0], images[1], images[2], images[3], images[4], kernel[1], whole(frame, "stride"), kernel[4]};
}

// Of calls whose second argument is the kernel; noise comes after it.
bool noisy(const CallFrame* frame) { return frame->arguments.size > 2; }

Linear through_weights(const CallFrame* frame) {
  const int64_t* kernel = shape(frame, 1);
  return {kernel[0], shape(frame, 0)[1], kernel[2], kernel[1]};
}

// Of calls whose first argument are the numbers.
Bits planes(const CallFrame* frame, long features) {
  const int64_t* n = shape(frame, 0);
  const int32_t dtype = frame->arguments.at[0]->dtype;
  const bool bytes = dtype == kTruth || dtype == kByte;
  return {n[0], n[1], n[2], n[3], n[4], whole(frame, "bits"), whole(frame, "size"), features, bytes};
}

Weights weights(const CallFrame* frame) {
  if (!noisy(frame)) return {argument(frame, 1), nullptr, nullptr, nullptr};
  return {argument(frame, 1), argument(frame, 2), argument(frame, 3), argument(frame, 4)};
}

}  // namespace
}  // namespace masp

using namespace masp;

extern "C" {

int masp_instructions() { return instructions(); }
void masp_limit_instructions(int most) { limit_instructions(most); }
int masp_threads() { return threads(); }

// (images, kernel) -> pixels
void* masp_convolve(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  kernels().convolve(convolution(frame, shape(frame, 0), shape(frame, 1)), argument(frame, 0), argument(frame, 1),
                     result(frame, 0));
  return nullptr;
}

// (images, pixels) -> kernel
void* masp_convolve_to_kernel(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  kernels().convolve_to_kernel(convolution(frame, shape(frame, 0), result_shape(frame, 0)), argument(frame, 0),
                               argument(frame, 1), result(frame, 0));
  return nullptr;
}

// (pixels, kernel) -> images
void* masp_convolve_to_images(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  kernels().convolve_to_images(convolution(frame, result_shape(frame, 0), shape(frame, 1)), argument(frame, 0),
                               argument(frame, 1), result(frame, 0));
  return nullptr;
}

// (x [L, B, I], kernel [L, O, I][, sigma, noise_in [L, I], noise_out [L, O]]) -> [L, B, O]
void* masp_linear(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  kernels().linear(through_weights(frame), argument(frame, 0), weights(frame), result(frame, 0));
  return nullptr;
}

// (gradient [L, B, O], kernel [L, O, I][, sigma, noise_in, noise_out]) -> [L, B, I]
void* masp_linear_to_inputs(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  kernels().linear_to_inputs(through_weights(frame), argument(frame, 0), weights(frame), result(frame, 0));
  return nullptr;
}

// (gradient [L, B, O], x [L, B, I][, noise_in, noise_out]) -> kernel [L, O, I][, sigma]
void* masp_linear_to_weights(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const int64_t *g = shape(frame, 0), *x = shape(frame, 1);
  const bool also = noisy(frame);
  kernels().linear_to_weights({g[0], g[1], x[2], g[2]}, argument(frame, 0), argument(frame, 1),
                              also ? argument(frame, 2) : nullptr, also ? argument(frame, 3) : nullptr,
                              result(frame, 0), also ? result(frame, 1) : nullptr);
  return nullptr;
}

// (numbers [L, B, H, W, C], kernel [L, F, depth], bias [L, F][, gate]) -> pixels [L, B, H', W', F]
void* masp_bits_convolve(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  kernels().bits_convolve(planes(frame, shape(frame, 1)[1]), argument(frame, 0), argument(frame, 1), argument(frame, 2),
                          frame->arguments.size > 3 ? argument(frame, 3) : nullptr, result(frame, 0));
  return nullptr;
}

// (numbers, pixels, gate) -> kernel, bias
void* masp_bits_to_kernel(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  kernels().bits_to_kernel(planes(frame, shape(frame, 1)[4]), argument(frame, 0), argument(frame, 1),
                           argument(frame, 2), result(frame, 0), result(frame, 1));
  return nullptr;
}

// (logits [lanes..., ..., atoms], support [lanes..., atoms]) -> probabilities [..., atoms], values [...]
void* masp_softmax(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  const Buffer *logits = frame->arguments.at[0], *support = frame->arguments.at[1];
  kernels().softmax(product(support, 1), product(logits, 1), logits->dims[logits->rank - 1], argument(frame, 0),
                    argument(frame, 1), result(frame, 0), result(frame, 1));
  return nullptr;
}

// (corrections [lanes..., 2], n gradients, n means, n squares, n params) -> n means, n squares, n params in place, norm
void* masp_adam(CallFrame* frame) {
  if (answered_version(frame)) return nullptr;
  constexpr int64_t kMost = 256;  // as in adam.py, which sees to it that there are no more
  Leaf leaves[kMost];
  const int64_t count = (frame->arguments.size - 1) / 4;
  const long lanes = product(frame->arguments.at[0], 1);
  for (int64_t i = 0; i < count && i < kMost; ++i)
    leaves[i] = {argument(frame, 1 + i), result(frame, i), result(frame, count + i), result(frame, 2 * count + i),
                 product(frame->arguments.at[1 + i], 0) / lanes};
  kernels().adam({lanes, count, leaves, argument(frame, 0), number(frame, "learning_rate"), number(frame, "b1"),
                  number(frame, "b2"), number(frame, "eps"), number(frame, "eps_root"), number(frame, "max_norm")},
                 result(frame, 3 * count));
  return nullptr;
}

}  // extern "C"
