// Thread-local cache of tables that depend on a batch of data only, keyed by the bytes of the batch.
#pragma once

#include "integers.h"

namespace masp {

struct Cached {
  float* tables;  // of the requested size, aligned to 64 bytes
  bool valid;     // whether the tables are filled in; if not, the caller must do it
};

// The tables of `data`, interpreted as `kind` says. Keys are compared byte by byte, so a hit is never a hash collision.
// Each thread keeps the last few entries.
Cached cached(const void* kind, size_t kind_bytes, const void* data, size_t data_bytes, size_t floats);

}  // namespace masp
