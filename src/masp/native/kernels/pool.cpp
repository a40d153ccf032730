#include "pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace masp {
namespace {

// Numbers too small for full precision count as zero, on every thread: XLA sets this for its own threads.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// One piece of work at a time; a second caller does its own alone meanwhile. Callers take chunks like workers do, so
// work ends even if no worker ever comes.
class Pool {
 public:
  explicit Pool(int workers) : workers_(workers) {
    for (int i = 0; i < workers; ++i) std::thread([this] { work(); }).detach();
  }

  int threads() const { return workers_ + 1; }

  void run(long chunks, void (*body)(void*, long), void* data) {
    std::unique_lock<std::mutex> mine(turn_, std::try_to_lock);
    if (chunks < 2 || workers_ == 0 || !mine.owns_lock()) {
      for (long i = 0; i < chunks; ++i) body(data, i);
      return;
    }
    body_ = body, data_ = data, chunks_ = chunks;
    done_.store(0, std::memory_order_relaxed);
    // The number of the job is in the upper half, so that a worker that comes late takes no chunk of the next one.
    const uint64_t job = (next_.load(std::memory_order_relaxed) >> 32) + 1;
    next_.store(job << 32, std::memory_order_release);
    if (asleep_.load(std::memory_order_seq_cst) > 0) {
      std::lock_guard<std::mutex> lock(sleep_);
      wake_.notify_all();
    }
    take(job, chunks);
    for (int spins = 0; done_.load(std::memory_order_acquire) < chunks; ++spins) {
      if (spins < 2000) pause(); else std::this_thread::yield();
    }
  }

 private:
  void take(uint64_t job, long chunks) {
    for (;;) {
      uint64_t seen = next_.load(std::memory_order_acquire);
      if (seen >> 32 != job || static_cast<long>(seen & 0xffffffffu) >= chunks) return;
      if (!next_.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) continue;
      body_(data_, static_cast<long>(seen & 0xffffffffu));
      done_.fetch_add(1, std::memory_order_release);
    }
  }

  void work() {
    FlushDenormals flush;
    uint64_t last = 0;
    for (;;) {
      for (int spins = 0; next_.load(std::memory_order_acquire) >> 32 == last; ++spins) {
        if (spins < kSpins) { pause(); continue; }
        if (spins < kSpins + kYields) { std::this_thread::yield(); continue; }
        std::unique_lock<std::mutex> lock(sleep_);
        asleep_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return next_.load(std::memory_order_seq_cst) >> 32 != last; });
        asleep_.fetch_sub(1, std::memory_order_seq_cst);
      }
      last = next_.load(std::memory_order_acquire) >> 32;
      const long chunks = chunks_.load(std::memory_order_relaxed);
      take(last, chunks);
    }
  }

  // A worker that sleeps takes tens of microseconds to come, as long as a small product. So it stays awake from one
  // product of an update to the next, for a fraction of a millisecond, and gives its core to whoever else wants it.
  static constexpr int kSpins = 500, kYields = 2000;
  const int workers_;
  std::mutex turn_, sleep_;
  std::condition_variable wake_;
  void (*volatile body_)(void*, long) = nullptr;
  void* volatile data_ = nullptr;
  std::atomic<long> chunks_{0}, done_{0};
  std::atomic<uint64_t> next_{0};
  std::atomic<int> asleep_{0};
};

// Cores that this process may run on.
int cores() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Pool& pool() {
  // Never destroyed: its threads live as long as the process.
  static Pool* only = new Pool(cores() - 1);
  return *only;
}

}  // namespace

void parallel(long chunks, void (*body)(void*, long), void* data) {
  FlushDenormals flush;
  pool().run(chunks, body, data);
}

int threads() { return pool().threads(); }

float* scratch(Slot slot, size_t floats) {
  struct Block {
    float* data = nullptr;
    size_t size = 0;
    ~Block() { std::free(data); }
  };
  static thread_local Block blocks[kSlots];
  Block& block = blocks[slot];
  if (block.size < floats) {
    std::free(block.data);
    block.size = (floats + 1023) / 1024 * 1024;
    block.data = static_cast<float*>(std::aligned_alloc(64, block.size * sizeof(float)));
  }
  return block.data;
}

}  // namespace masp
