"""Operations of the agent, each defined in plain JAX; the only package that knows of faster implementations."""

from masp.ops.adam import Adam as Adam
from masp.ops.convolution import Convolution as Convolution
from masp.ops.convolution import ConvolutionStack as ConvolutionStack
from masp.ops.distribution import expected_values as expected_values
from masp.ops.kernels import kernels_status as kernels_status
from masp.ops.kernels import kernels_used as kernels_used
from masp.ops.linear import Linear as Linear
from masp.ops.linear import NoisyLinear as NoisyLinear
from masp.ops.linear import adapt_layout as adapt_layout
from masp.ops.ordering import after as after
from masp.ops.process import tune_this_process as tune_this_process
from masp.ops.program_cache import cache_programs as cache_programs
from masp.ops.sampling import find_leaves as find_leaves
from masp.ops.sampling import frames_to_channels as frames_to_channels
from masp.ops.sampling import gather_windows as gather_windows
from masp.ops.sampling import stack_frames as stack_frames
from masp.ops.small_convolution import Features as Features
from masp.ops.small_convolution import SmallConvolution as SmallConvolution
from masp.ops.small_convolution import append_constant as append_constant
from masp.ops.small_convolution import concatenate as concatenate
from masp.ops.small_convolution import pack_one_hot as pack_one_hot
from masp.ops.small_convolution import unpack_bits as unpack_bits
