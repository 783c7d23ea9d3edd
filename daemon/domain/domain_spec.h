#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/graph/slot_use.h"

namespace pto::daemon {

struct WindowBufferSpec {
  std::string name;
  uint32_t dtype = 0;  // pto_dtype
  // Elements, and their size. Either may be left zero, to be derived from the other.
  uint64_t count = 0;
  uint64_t bytes = 0;
  // Each use of the domain's signals begins with zeros in it, too.
  bool zero_before_run = false;

  bool operator==(const WindowBufferSpec&) const = default;
};

// What a domain is to be. The position of a chip is its rank.
struct DomainSpec {
  static constexpr size_t kMaxRanks = 64;
  static constexpr size_t kMaxBuffers = 1024;
  static constexpr uint32_t kMaxSignals = 65'536;
  // Of a buffer's place in a window: a cache line, so that nobody shares one with another.
  static constexpr uint64_t kAlignment = 64;

  std::vector<uint32_t> chips;
  uint64_t window_bytes = 0;  // 0 means as many as are needed
  std::vector<WindowBufferSpec> buffers;
  uint32_t signal_count = 0;

  bool operator==(const DomainSpec&) const = default;
};

// Where things are in each window of a domain.
struct WindowLayout {
  std::vector<engine::ByteRange> buffers;  // in order of the spec's
  engine::ByteRange signals;
  uint64_t bytes = 0;  // of the window
};

// Checks everything but whether there are such chips, and fills in what `spec` says of a buffer by
// its count or its bytes alone, so that specs that mean the same are equal. Errors name the fields
// of a CreateDomainRequest: FIELD_INVALID, ID_INVALID, BUFFER_TOO_LARGE for windows of more than
// `max_bytes`.
absl::StatusOr<WindowLayout> PlanWindow(DomainSpec& spec, uint64_t max_bytes);

}  // namespace pto::daemon
