// Fixed-width integers under their short names.
#pragma once

#include <cstddef>
#include <cstdint>

namespace masp {

using std::int32_t;
using std::int64_t;
using std::size_t;
using std::uint16_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

}  // namespace masp
