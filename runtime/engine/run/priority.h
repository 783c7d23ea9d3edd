#pragma once

#include <cstdint>

namespace pto::engine {

// Ready tasks of a higher class go first.
enum class Priority : uint8_t { kLow, kNormal, kHigh };

}  // namespace pto::engine
