// The kernels, compiled once for each instruction set, and which of them this processor can run.
#include <atomic>

#include "cache.h"
#include "pool.h"
#include "shapes.h"

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
constexpr int64_t kWidth = 16, kTotal = 24;
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
constexpr int64_t kWidth = 8, kTotal = 12;
#include "kernels.h"
}  // namespace masp::avx2
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

namespace masp::baseline {
constexpr int64_t kWidth = 4, kTotal = 12;
#include "kernels.h"
}  // namespace masp::baseline

namespace masp {
namespace {
std::atomic<int32_t> highest_allowed{2};
}

int32_t instruction_set() {
  int32_t supported = 0;
#ifdef MASP_DISPATCH
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) supported = 1;
  if (supported == 1 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    supported = 2;
#endif
  const int32_t highest = highest_allowed.load(std::memory_order_relaxed);
  return supported < highest ? supported : highest;
}

void limit_instruction_set(int32_t highest) { highest_allowed = highest; }

const Kernels& kernels() {
#ifdef MASP_DISPATCH
  const int32_t set = instruction_set();
  if (set > 0) return set == 2 ? avx512::kKernels : avx2::kKernels;
#endif
  return baseline::kKernels;
}

}  // namespace masp
