#include "pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
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

// Flushes denormals to zero, as XLA does on its own threads.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  uint32_t before_;
#endif
};

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// One job at a time; a concurrent second caller runs its job alone. The caller takes chunks like the workers, so a job
// finishes even if no worker wakes up. Every thread begins with the same share in every call, because its earlier
// results are in its cache, and then steals from the others.
class Pool {
 public:
  explicit Pool(int workers) : workers_(workers) {
    for (int i = 0; i < workers; ++i) std::thread([this, i] { work(i + 1); }).detach();
  }

  int threads() const { return workers_ + 1; }

  void run(int64_t chunks, void (*body)(void*, int64_t), void* data) {
    std::unique_lock<std::mutex> mine(turn_, std::try_to_lock);
    if (chunks < 2 || workers_ == 0 || !mine.owns_lock()) {
      for (int64_t i = 0; i < chunks; ++i) body(data, i);
      return;
    }
    const int64_t parallel_for = (chunks + kMaxGroups - 1) / kMaxGroups,
        groups = (chunks + parallel_for - 1) / parallel_for;
    body_ = body, data_ = data, chunks_ = chunks, each_ = parallel_for;
    done_.store(0, std::memory_order_relaxed);
    const uint64_t job = job_.load(std::memory_order_relaxed) + 1;
    // A late worker sees another job number here and takes no chunk of the next job.
    for (int64_t i = 0; i < groups; ++i) open_[i].store(job, std::memory_order_relaxed);
    groups_.store(groups, std::memory_order_relaxed);
    job_.store(job, std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_seq_cst) > 0) {
      std::lock_guard<std::mutex> lock(sleep_);
      wake_.notify_all();
    }
    take(job, groups, 0);
    for (int spins = 0; done_.load(std::memory_order_acquire) < groups; ++spins) {
      if (spins < 2000) pause(); else std::this_thread::yield();
    }
  }

 private:
  void take(uint64_t job, int64_t groups, int thread) {
    const int64_t first = thread * groups / threads();
    for (int64_t n = 0; n < groups; ++n) {
      std::atomic<uint64_t>& open = open_[(first + n) % groups];
      uint64_t seen = open.load(std::memory_order_relaxed);
      if (seen != job || !open.compare_exchange_strong(seen, 0, std::memory_order_acquire)) continue;
      const int64_t begin = (first + n) % groups * each_, end = std::min(begin + each_, static_cast<int64_t>(chunks_));
      for (int64_t i = begin; i < end; ++i) body_(data_, i);
      done_.fetch_add(1, std::memory_order_release);
    }
  }

  void work(int thread) {
    FlushDenormals flush;
    uint64_t last = 0;
    for (;;) {
      const auto idle_since = std::chrono::steady_clock::now();
      for (int spins = 0; job_.load(std::memory_order_acquire) == last; ++spins) {
        if (spins < kSpins) { pause(); continue; }
        if (std::chrono::steady_clock::now() - idle_since < kSpinTime) { std::this_thread::yield(); continue; }
        std::unique_lock<std::mutex> lock(sleep_);
        asleep_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return job_.load(std::memory_order_seq_cst) != last; });
        asleep_.fetch_sub(1, std::memory_order_seq_cst);
      }
      last = job_.load(std::memory_order_acquire);
      take(last, groups_.load(std::memory_order_relaxed), thread);
    }
  }

  // A worker that sleeps takes tens of microseconds to come, as int64_t as a small product. So it stays awake from one
  // product of an update to the next, for half a millisecond at most, and gives its core to whoever else wants it.
  static constexpr int kSpins = 500;
  static constexpr std::chrono::microseconds kSpinTime{500};
  static constexpr int64_t kMaxGroups = 1024;  // groups of chunks
  const int workers_;
  std::mutex turn_, sleep_;
  std::condition_variable wake_;
  void (*volatile body_)(void*, int64_t) = nullptr;
  void* volatile data_ = nullptr;
  volatile int64_t chunks_ = 0, each_ = 1;
  std::atomic<int64_t> groups_{0}, done_{0};
  std::atomic<uint64_t> job_{0};
  std::atomic<uint64_t> open_[kMaxGroups] = {};  // number of the job whose group is not taken yet
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
  // Never destroyed: its threads live as int64_t as the process.
  static Pool* only = new Pool(cores() - 1);
  return *only;
}

}  // namespace

void parallel(int64_t chunks, void (*body)(void*, int64_t), void* data) {
  FlushDenormals flush;
  pool().run(chunks, body, data);
}

int32_t num_threads() { return pool().threads(); }

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
