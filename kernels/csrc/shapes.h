// Operands of the kernels, and the table of kernels that each instruction set fills in.
#pragma once

#include "integers.h"

namespace masp {

// Images [L, B, H, W, C], kernels [L, k, k, C, F], pixels [L, B, H', W', F].
struct Convolution {
  int64_t lanes, batch, height, width, channels, size, stride, features;

  int64_t out_height() const { return (height - size) / stride + 1; }
  int64_t out_width() const { return (width - size) / stride + 1; }
  int64_t pixels() const { return out_height() * out_width(); }
  int64_t run() const { return size * channels; }
  int64_t depth() const { return size * run(); }
  int64_t image() const { return height * width * channels; }
  int64_t activations() const { return pixels() * features; }

  // Offsets in the images of a lane at which the patches of `count` output pixels (of the whole batch) begin.
  void patches(int64_t pixel, int64_t count, int64_t* to) const {
    const int64_t columns = out_width(), rows = out_height();
    int64_t b = pixel / (rows * columns), y = pixel / columns % rows, x = pixel % columns;
    for (int64_t m = 0; m < count; ++m) {
      to[m] = b * image() + (y * width + x) * stride * channels;
      if (++x < columns) continue;
      x = 0;
      if (++y < rows) continue;
      y = 0, ++b;
    }
  }
};

constexpr int64_t kMaxLayers = 4;  // of a torso; MAX_LAYERS in torso.py

// Convolutions with ReLU over images [B, H, W, C] of bytes; features are a multiple of the panel of every instruction
// set.
struct Torso {
  int64_t layers;
  Convolution layer[kMaxLayers];
  const uint8_t* images;
  const float *kernel[kMaxLayers], *bias[kMaxLayers];

  int64_t batch() const { return layer[0].batch; }
  // Floats of one image and all its activations.
  int64_t workspace() const {
    int64_t total = layer[0].image();
    for (int64_t i = 0; i < layers; ++i) total += layer[i].activations();
    return total;
  }
};

// kernel + noise_out * sigma * noise_in; the kernel alone where sigma is null.
struct Weights {
  const float *kernel, *sigma, *noise_in, *noise_out;  // [L, O, I] twice, [L, I], [L, O]
};

// [L, B, I] -> [L, B, O]
struct Linear {
  int64_t lanes, batch, inputs, outputs;
};

// 0/1 planes, packed as the lowest `bits` bits of each integer of [L, B, H, W, C]: a byte or 32 bits.
struct Bits {
  int64_t lanes, batch, height, width, channels, bits, size, features;
  bool bytes;

  int64_t pixels() const { return (height - size + 1) * (width - size + 1); }
  int64_t planes() const { return channels * bits; }
  int64_t depth() const { return size * size * planes(); }
};

// A linear layer [L, inputs, outputs] behind a convolution; all images of a lane share its last `common` inputs.
struct Hidden {
  Bits planes;
  int64_t outputs, inputs, common;
  bool rectified;  // followed by ReLU
};

// Weights of both layers, or their tangents; `offset` is the bias of the linear layer.
struct HiddenWeights {
  const float *kernel, *bias, *weights, *common, *offset;  // [L, F, depth], [L, F], [L, I, O], [L, E], [L, O]
};

// Gradients of the same.
struct HiddenGradients {
  float *kernel, *bias, *weights, *common, *offset;
};

struct Leaf {
  const float* gradient;
  float *mean, *square, *params;  // in place
  int64_t size;                      // of one lane; lanes are contiguous
};

struct Step {
  int64_t lanes, leaves;
  const Leaf* leaf;
  const float* corrections;  // [L, 2] Adam's bias corrections 1 - b1^t and 1 - b2^t
  float learning_rate, b1, b2, eps, eps_root, max_norm;  // max_norm 0: no clipping
};

struct Kernels {
  void (*convolve)(const Convolution&, const float* images, const float* kernel, float* pixels);
  void (*convolve_to_kernel)(const Convolution&, const float* images, const float* pixels, float* kernel);
  void (*convolve_to_images)(const Convolution&, const float* pixels, const float* kernel, float* images);
  void (*torso)(const Torso&, float* const* activations);
  void (*torso_tangent)(const Torso&, const float* const* activations, const float* const* d_kernel,
                        const float* const* d_bias, float* out);
  void (*torso_to_weights)(const Torso&, const float* const* activations, const float* gradient,
                           float* const* d_kernel, float* const* d_bias);
  void (*linear)(const Linear&, const float* x, const Weights&, float* out);
  void (*linear_to_inputs)(const Linear&, const float* gradient, const Weights&, float* out);
  void (*linear_to_weights)(const Linear&, const float* gradient, const float* x, const float* noise_in,
                            const float* noise_out, float* kernel, float* sigma);
  void (*adam)(const Step&, float* norm);
  void (*adam_vjp)(const Step&);
  void (*softmax)(int64_t lanes, int64_t rows, int64_t atoms, const float* logits, const float* support,
                  float* probabilities,
                  float* values);
  void (*bits_convolve)(const Bits&, const void* numbers, const float* kernel, const float* bias, const float* gate,
                        float* pixels);
  void (*bits_to_kernel)(const Bits&, const void* numbers, const float* pixels, const float* gate, float* kernel,
                         float* bias);
  void (*cells)(const Hidden&, const void* numbers, const HiddenWeights&, const float* outputs,
                const HiddenWeights* tangents, float* out);
  void (*cells_to_weights)(const Hidden&, const void* numbers, const HiddenWeights&, const float* outputs,
                     const float* gradient, const HiddenGradients&);
};

// 0 baseline, 1 AVX2, 2 AVX-512: the best that this processor supports, up to a limit that tests set.
int32_t instruction_set();
void limit_instruction_set(int32_t highest);
const Kernels& kernels();

}  // namespace masp
