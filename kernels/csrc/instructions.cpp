// The kernels, compiled once for each instruction set, and which of them this processor can run.
#include <atomic>

#include "memory.h"
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
std::atomic<int> most_instructions{2};
}

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

void limit_instructions(int most) { most_instructions = most; }

const Kernels& kernels() {
#ifdef MASP_DISPATCH
  const int which = instructions();
  if (which > 0) return which == 2 ? avx512::kKernels : avx2::kKernels;
#endif
  return plain::kKernels;
}

}  // namespace masp
