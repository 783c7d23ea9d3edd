#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace pto::job {

// The location of a buffer that belongs to a domain.
struct WindowPlace {
  // Index into PreparedJob::domains.
  size_t domain = 0;
  uint32_t rank = 0;
  // Name of the buffer in the window; empty for the signals.
  std::string buffer;

  bool signals() const { return buffer.empty(); }
};

}  // namespace pto::job
