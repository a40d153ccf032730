// What was found out about some numbers, until the same numbers come again.
#pragma once

#include "integers.h"

namespace masp {

struct Remembered {
  float* room;  // as large as was asked for, aligned to 64 bytes
  bool known;   // whether it holds what its last owner wrote; if not, the caller is to write it
};

// Room for what there is to know about `data`, seen as `kind` says. The calling thread remembers a few of them; they
// are compared byte by byte, so nothing but the same data is taken for known.
Remembered remember(const void* kind, size_t kind_bytes, const void* data, size_t data_bytes, size_t floats);

}  // namespace masp
