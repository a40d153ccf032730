// The functions that XLA calls: each reads shapes and attributes and calls a kernel.
#include "ffi.h"
#include "pool.h"
#include "shapes.h"

namespace masp {
namespace {

// Product of all axes but the last `kept`.
int64_t product(const Buffer* buffer, int64_t kept) {
  int64_t size = 1;
  for (int64_t d = 0; d + kept < buffer->rank; ++d) size *= buffer->dims[d];
  return size;
}

Convolution convolution(const CallFrame* frame, const int64_t* images, const int64_t* kernel) {
  return {images[0], images[1], images[2], images[3], images[4], kernel[1], integer_attribute(frame, "stride"),
          kernel[4]};
}

// For calls that begin with (images, kernel and bias of every layer).
Torso torso(const CallFrame* frame, int64_t layers) {
  const int64_t* images = shape(frame, 0);
  Torso operands = {layers, {}, static_cast<const uint8_t*>(frame->arguments.at[0]->data), {}, {}};
  int64_t height = images[1], width = images[2];
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t* kernel = shape(frame, 1 + 2 * i);
    const char name[] = {'s', 't', 'r', 'i', 'd', 'e', '_', static_cast<char>('0' + i), 0};
    operands.layer[i] = {1, images[0], height, width, kernel[2], kernel[0], integer_attribute(frame, name), kernel[3]};
    operands.kernel[i] = argument(frame, 1 + 2 * i), operands.bias[i] = argument(frame, 2 + 2 * i);
    height = operands.layer[i].out_height(), width = operands.layer[i].out_width();
  }
  return operands;
}

// For calls whose second argument is the kernel; noise comes after it.
bool noisy(const CallFrame* frame) { return frame->arguments.size > 2; }

Linear through_weights(const CallFrame* frame) {
  const int64_t* kernel = shape(frame, 1);
  return {kernel[0], shape(frame, 0)[1], kernel[2], kernel[1]};
}

// For calls whose first argument are the numbers.
Bits planes(const CallFrame* frame, int64_t features) {
  const int64_t* n = shape(frame, 0);
  const int32_t dtype = frame->arguments.at[0]->dtype;
  const bool bytes = dtype == kBool || dtype == kUint8;
  return {n[0], n[1], n[2], n[3], n[4], integer_attribute(frame, "bits"), integer_attribute(frame, "size"), features,
          bytes};
}

// For calls with (numbers, kernel, bias, weights, common).
Hidden hidden(const CallFrame* frame) {
  const int64_t* weights = shape(frame, 3);
  return {planes(frame, shape(frame, 1)[1]), weights[2], weights[1], shape(frame, 4)[1],
          integer_attribute(frame, "rectified") != 0};
}

HiddenWeights hidden_weights(const CallFrame* frame, int first) {
  return {argument(frame, first), argument(frame, first + 1), argument(frame, first + 2), argument(frame, first + 3),
          argument(frame, first + 4)};
}

Weights weights(const CallFrame* frame) {
  if (!noisy(frame)) return {argument(frame, 1), nullptr, nullptr, nullptr};
  return {argument(frame, 1), argument(frame, 2), argument(frame, 3), argument(frame, 4)};
}

constexpr int64_t kMaxLeaves = 256;  // MAX_LEAVES in adam.py, which never passes more

// For calls with (corrections, gradients, ...); fills in the sizes of the leaves.
Step step(const CallFrame* frame, int64_t count, Leaf* leaves) {
  const int64_t lanes = product(frame->arguments.at[0], 1);
  for (int64_t i = 0; i < count && i < kMaxLeaves; ++i) leaves[i].size = product(frame->arguments.at[1 + i], 0) / lanes;
  return {lanes,
          count,
          leaves,
          argument(frame, 0),
          float_attribute(frame, "learning_rate"),
          float_attribute(frame, "b1"),
          float_attribute(frame, "b2"),
          float_attribute(frame, "eps"),
          float_attribute(frame, "eps_root"),
          float_attribute(frame, "max_norm")};
}

}  // namespace
}  // namespace masp

using namespace masp;

extern "C" {

int32_t masp_instruction_set() { return instruction_set(); }
void masp_limit_instruction_set(int32_t highest) { limit_instruction_set(highest); }
int32_t masp_num_threads() { return num_threads(); }

// (images, kernel) -> pixels
void* masp_convolve(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  kernels().convolve(convolution(frame, shape(frame, 0), shape(frame, 1)), argument(frame, 0), argument(frame, 1),
                     result(frame, 0));
  return nullptr;
}

// (images, pixels) -> kernel
void* masp_convolve_to_kernel(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  kernels().convolve_to_kernel(convolution(frame, shape(frame, 0), result_shape(frame, 0)), argument(frame, 0),
                               argument(frame, 1), result(frame, 0));
  return nullptr;
}

// (pixels, kernel) -> images
void* masp_convolve_to_images(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  kernels().convolve_to_images(convolution(frame, result_shape(frame, 0), shape(frame, 1)), argument(frame, 0),
                               argument(frame, 1), result(frame, 0));
  return nullptr;
}

// (images [B, H, W, C] bytes, kernel and bias of every layer) -> activations of all layers, or of the last one
void* masp_torso(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const int64_t layers = (frame->arguments.size - 1) / 2, first = layers - frame->results.size;
  float* activations[kMaxLayers] = {};
  for (int64_t i = first; i < layers; ++i) activations[i] = result(frame, i - first);
  kernels().torso(torso(frame, layers), activations);
  return nullptr;
}

// (images, kernel and bias of every layer, activations, tangents of kernels and biases) -> tangent of the last
// activation
void* masp_torso_tangent(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const int64_t layers = (frame->arguments.size - 1) / 5;
  const float *activations[kMaxLayers], *d_kernel[kMaxLayers], *d_bias[kMaxLayers];
  for (int64_t i = 0; i < layers; ++i) {
    activations[i] = argument(frame, 1 + 2 * layers + i);
    d_kernel[i] = argument(frame, 1 + 3 * layers + 2 * i), d_bias[i] = argument(frame, 2 + 3 * layers + 2 * i);
  }
  kernels().torso_tangent(torso(frame, layers), activations, d_kernel, d_bias, result(frame, 0));
  return nullptr;
}

// (images, kernel and bias of every layer, activations, gradient of the last one) -> those of kernels and biases
void* masp_torso_to_weights(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const int64_t layers = (frame->arguments.size - 2) / 3;
  const float* activations[kMaxLayers];
  float *d_kernel[kMaxLayers], *d_bias[kMaxLayers];
  for (int64_t i = 0; i < layers; ++i) {
    activations[i] = argument(frame, 1 + 2 * layers + i);
    d_kernel[i] = result(frame, 2 * i), d_bias[i] = result(frame, 2 * i + 1);
  }
  kernels().torso_to_weights(torso(frame, layers), activations, argument(frame, 1 + 3 * layers), d_kernel, d_bias);
  return nullptr;
}

// (x [L, B, I], kernel [L, O, I][, sigma, noise_in [L, I], noise_out [L, O]]) -> [L, B, O]
void* masp_linear(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  kernels().linear(through_weights(frame), argument(frame, 0), weights(frame), result(frame, 0));
  return nullptr;
}

// (gradient [L, B, O], kernel [L, O, I][, sigma, noise_in, noise_out]) -> [L, B, I]
void* masp_linear_to_inputs(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  kernels().linear_to_inputs(through_weights(frame), argument(frame, 0), weights(frame), result(frame, 0));
  return nullptr;
}

// (gradient [L, B, O], x [L, B, I][, noise_in, noise_out]) -> kernel [L, O, I][, sigma]
void* masp_linear_to_weights(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const int64_t *g = shape(frame, 0), *x = shape(frame, 1);
  const bool also = noisy(frame);
  kernels().linear_to_weights({g[0], g[1], x[2], g[2]}, argument(frame, 0), argument(frame, 1),
                              also ? argument(frame, 2) : nullptr, also ? argument(frame, 3) : nullptr,
                              result(frame, 0), also ? result(frame, 1) : nullptr);
  return nullptr;
}

// (numbers [L, B, H, W, C], kernel [L, F, depth], bias [L, F][, gate]) -> pixels [L, B, H', W', F]
void* masp_bits_convolve(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  kernels().bits_convolve(planes(frame, shape(frame, 1)[1]), argument(frame, 0), argument(frame, 1), argument(frame, 2),
                          frame->arguments.size > 3 ? argument(frame, 3) : nullptr, result(frame, 0));
  return nullptr;
}

// (numbers, pixels, gate) -> kernel, bias
void* masp_bits_to_kernel(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  kernels().bits_to_kernel(planes(frame, shape(frame, 1)[4]), argument(frame, 0), argument(frame, 1),
                           argument(frame, 2), result(frame, 0), result(frame, 1));
  return nullptr;
}

// (numbers [L, B, H, W, C], kernel [L, F, depth], bias [L, F], weights [L, I, O], common [L, E], offset [L, O]) ->
// [L, B, O]; or, with this output and tangents of the five weights as further arguments, its tangent
void* masp_cells(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const bool tangent = frame->arguments.size > 6;
  const HiddenWeights tangents = tangent ? hidden_weights(frame, 7) : HiddenWeights{};
  kernels().cells(hidden(frame), argument(frame, 0), hidden_weights(frame, 1), tangent ? argument(frame, 6) : nullptr,
                  tangent ? &tangents : nullptr, result(frame, 0));
  return nullptr;
}

// (numbers, kernel, bias, weights, common, offset, values [L, B, O], their gradient) -> gradients of the five weights
void* masp_cells_to_weights(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  kernels().cells_to_weights(hidden(frame), argument(frame, 0), hidden_weights(frame, 1), argument(frame, 6),
                       argument(frame, 7),
                       {result(frame, 0), result(frame, 1), result(frame, 2), result(frame, 3), result(frame, 4)});
  return nullptr;
}

// (logits [lanes..., ..., atoms], support [lanes..., atoms]) -> probabilities [..., atoms], values [...]
void* masp_softmax(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  const Buffer *logits = frame->arguments.at[0], *support = frame->arguments.at[1];
  kernels().softmax(product(support, 1), product(logits, 1), logits->dims[logits->rank - 1], argument(frame, 0),
                    argument(frame, 1), result(frame, 0), result(frame, 1));
  return nullptr;
}

// (corrections [lanes..., 2], n gradients, n means, n squares, n params) -> n means, n squares, n params in place, norm
void* masp_adam(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  Leaf leaves[kMaxLeaves];
  const int64_t count = (frame->arguments.size - 1) / 4;
  for (int64_t i = 0; i < count && i < kMaxLeaves; ++i)
    leaves[i] = {argument(frame, 1 + i), result(frame, i), result(frame, count + i), result(frame, 2 * count + i), 0};
  kernels().adam(step(frame, count, leaves), result(frame, 3 * count));
  return nullptr;
}

// (corrections [lanes..., 2], n gradients, n means, n squares, n cotangents) -> n cotangents in place
void* masp_adam_vjp(CallFrame* frame) {
  if (is_version_query(frame)) return nullptr;
  Leaf leaves[kMaxLeaves];
  const int64_t count = (frame->arguments.size - 1) / 4;
  for (int64_t i = 0; i < count && i < kMaxLeaves; ++i)
    leaves[i] = {argument(frame, 1 + i), argument(frame, 1 + count + i), argument(frame, 1 + 2 * count + i),
                 result(frame, i), 0};
  kernels().adam_vjp(step(frame, count, leaves));
  return nullptr;
}

}  // extern "C"
