// A thread pool, and scratch memory for its threads.
#pragma once

#include "integers.h"

namespace masp {

// Calls body(data, i) once for each i in 0..chunks-1, on any thread. Chunks write to disjoint memory, so results do not
// depend on scheduling.
void parallel(int64_t chunks, void (*body)(void* data, int64_t chunk), void* data);

// Thread-local memory of at least `floats` floats, aligned to 64 bytes, reused by the next call with the same slot.
enum Slot { kPacked, kTile, kOnes, kGuessed, kShared, kSlots };
float* scratch(Slot slot, size_t floats);

// How many threads `parallel` may use, the caller's included.
int32_t num_threads();

}  // namespace masp
