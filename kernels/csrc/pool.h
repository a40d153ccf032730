// Work on all cores, and memory for it.
#pragma once

#include "integers.h"

namespace masp {

// body(data, i) for i in 0..chunks-1, each once, on whichever core is free. Chunks are fixed by the caller and write to
// places of their own, so results do not depend on who does what.
void parallel(int64_t chunks, void (*body)(void* data, int64_t chunk), void* data);

// A block of at least `floats` numbers, aligned to 64 bytes; each thread has its own blocks, kept for the next call.
enum Slot { kPacked, kTile, kOnes, kGuessed, kShared, kSlots };
float* scratch(Slot slot, size_t floats);

// How many threads `parallel` may use, the caller's included.
int32_t num_threads();

}  // namespace masp
