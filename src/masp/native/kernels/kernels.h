// All kernels of one instruction set. The including file says kWidth and kTotal, and opens a namespace.
#include "tile.h"

#include "convolution.h"
#include "torso.h"
#include "torso_back.h"
#include "linear.h"
#include "adam.h"
#include "adam_back.h"
#include "softmax.h"

const Kernels kKernels = {convolve,         convolve_to_kernel, convolve_to_images, torso, torso_tangent,
                          torso_to_weights, linear,             linear_to_inputs,   linear_to_weights,
                          adam,             adam_back,          softmax};
