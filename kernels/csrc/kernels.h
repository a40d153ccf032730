// All kernels of one instruction set. The including file says kWidth and kTotal, and opens a namespace.
#include "tile.h"

#include "convolution.h"
#include "torso.h"
#include "torso_to_weights.h"
#include "linear.h"
#include "small_linear.h"
#include "adam.h"
#include "adam_vjp.h"
#include "softmax.h"
#include "bits.h"
#include "patches.h"
#include "cells.h"

// Layers of any size.
inline void any_linear(const Linear& l, const float* x, const Weights& w, float* out) {
  is_small(l, w) ? small_linear(l, x, w.kernel, out) : linear(l, x, w, out);
}

inline void any_to_weights(const Linear& l, const float* gradient, const float* x, const float* noise_in,
                           const float* noise_out, float* kernel, float* sigma) {
  is_small(l, {kernel, sigma, nullptr, nullptr}) ? small_to_weights(l, gradient, x, kernel)
                                                 : linear_to_weights(l, gradient, x, noise_in, noise_out, kernel,
                                                                     sigma);
}

const Kernels kKernels = {convolve,         convolve_to_kernel, convolve_to_images, torso, torso_tangent,
                          torso_to_weights, any_linear,         linear_to_inputs,   any_to_weights,
                          adam,             adam_vjp,          softmax,            bits_convolve,
                          bits_to_kernel,   cells,              cells_to_weights};
