#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pto::comm {

// Memory that several ranks share. The destructor unmaps it for this rank.
class Segment {
 public:
  virtual ~Segment() = default;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 protected:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Finds segments by name and identifies ranks. This is the only difference between the "local" and
// the "shm" backend. Thread-safe.
class SegmentStore {
 public:
  virtual ~SegmentStore() = default;

  // Creates a zeroed segment, lets `fill` write to it, and then makes it visible under its name.
  // Errors: ALREADY_EXISTS, NO_MEMORY, SYSTEM.
  virtual absl::StatusOr<std::unique_ptr<Segment>> Publish(
      absl::string_view name, size_t bytes, absl::FunctionRef<void(std::byte*)> fill) = 0;

  // Reads the start of the segment into `head`, lets `check` compare it with the size of the
  // segment, and then maps it. Errors: those of `check`; NOT_FOUND, SYSTEM.
  virtual absl::StatusOr<std::unique_ptr<Segment>> Open(
      absl::string_view name, absl::Span<std::byte> head,
      absl::FunctionRef<absl::Status(size_t size)> check) = 0;

  // Removes the name if it still refers to this segment. Best effort.
  virtual void Remove(absl::string_view name, const Segment& segment) = 0;

  // Removes segments that dead ranks have left behind.
  virtual void Sweep() = 0;

  // The identity of the caller, never 0; and whether the owner of an identity is alive.
  virtual uint64_t Identity() const = 0;
  virtual bool Alive(uint64_t identity) const = 0;
  // "pid 4711"
  virtual std::string Describe(uint64_t identity) const = 0;
};

// The start of every segment.
struct SegmentPrefix {
  static constexpr uint64_t kMagic = 0x6d6d6f636f747000;  // "\0ptocomm"
  static constexpr uint32_t kVersion = 4;
  enum Kind : uint32_t { kJob = 1, kWindow = 2 };

  uint64_t magic;
  uint32_t version;
  uint32_t kind;
  uint64_t bytes;    // of the whole segment
  uint64_t creator;  // Identity() of the creator
};

// The start of a segment, as the bytes that Open reads.
template <typename Head>
absl::Span<std::byte> BytesOf(Head& head) {
  static_assert(std::is_trivially_copyable_v<Head>);
  return {reinterpret_cast<std::byte*>(&head), sizeof(Head)};
}

// Whether a segment of `size` bytes is long enough for its head.
absl::Status CheckHead(absl::string_view name, size_t size, size_t head);

// Checks that a segment of `size` bytes is ours, of this version and kind, as long as it says, and
// as long as this kind requires.
absl::Status CheckPrefix(absl::string_view name, const SegmentPrefix& prefix, size_t size,
                         SegmentPrefix::Kind kind, size_t expected);

// The same for a segment of any kind.
absl::Status CheckAnyPrefix(absl::string_view name, const SegmentPrefix& prefix, size_t size);

// Whether no living rank uses the segment. Its prefix must have been checked.
bool IsAbandoned(const Segment& segment, const SegmentStore& store);

}  // namespace pto::comm
