// All kernels of one instruction set. The including file says kWidth and kTotal, and opens a namespace.
#include "tile.h"

#include "convolution.h"
#include "linear.h"
#include "adam.h"
#include "softmax.h"
#include "bits.h"

const Kernels kKernels = {convolve,          convolve_to_kernel, convolve_to_images, linear,
                          linear_to_inputs, linear_to_weights,  adam,               softmax,
                          bits_convolve,    bits_to_kernel};
