#include "cache.h"

#include <cstdlib>
#include <cstring>

namespace masp {
namespace {

constexpr int kEntries = 4;  // batches that one update reads

struct Block {
  uint8_t* data = nullptr;
  size_t size = 0, used = 0;

  ~Block() { std::free(data); }

  void* reserve(size_t bytes) {
    if (size < bytes) {
      std::free(data);
      size = (bytes + 4095) / 4096 * 4096;
      data = static_cast<uint8_t*>(std::aligned_alloc(64, size));
    }
    used = bytes;
    return data;
  }

  void copy(const void* from, size_t bytes) { std::memcpy(reserve(bytes), from, bytes); }
  bool holds(const void* what, size_t bytes) const { return used == bytes && std::memcmp(data, what, bytes) == 0; }
};

struct Entry {
  Block kind, data, tables;
};

}  // namespace

Cached cached(const void* kind, size_t kind_bytes, const void* data, size_t data_bytes, size_t floats) {
  static thread_local Entry entries[kEntries];
  static thread_local int oldest = 0;
  for (Entry& entry : entries)
    if (entry.kind.holds(kind, kind_bytes) && entry.data.holds(data, data_bytes))
      return {reinterpret_cast<float*>(entry.tables.data), true};
  Entry& entry = entries[oldest];
  oldest = (oldest + 1) % kEntries;
  entry.kind.copy(kind, kind_bytes);
  entry.data.copy(data, data_bytes);
  return {static_cast<float*>(entry.tables.reserve(floats * sizeof(float))), false};
}

}  // namespace masp
