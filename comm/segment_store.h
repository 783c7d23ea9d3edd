#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto::comm {

// Memory that several ranks see. Gone for this rank when destroyed.
class Segment {
 public:
  virtual ~Segment() = default;
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 protected:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Where ranks find segments by name, and who they are. This is all that the "local" and the "shm"
// backend differ in. Thread-safe.
class SegmentStore {
 public:
  virtual ~SegmentStore() = default;

  // Makes a segment of zeros, lets `fill` write to it, and only then gives it its name.
  // Errors: ALREADY_EXISTS, NO_MEMORY, SYSTEM.
  virtual absl::StatusOr<std::unique_ptr<Segment>> Publish(
      absl::string_view name, size_t bytes, absl::FunctionRef<void(std::byte*)> fill) = 0;

  // Errors: NOT_FOUND, SYSTEM.
  virtual absl::StatusOr<std::unique_ptr<Segment>> Open(absl::string_view name) = 0;

  // Takes the name away if it is still that of this very segment. Best effort.
  virtual void Remove(absl::string_view name, const Segment& segment) = 0;

  // Removes what dead ranks have left behind.
  virtual void Sweep() = 0;

  // Who the caller is, never 0, and whether such a one still lives.
  virtual uint64_t Identity() const = 0;
  virtual bool Alive(uint64_t identity) const = 0;
  // "pid 4711"
  virtual std::string Describe(uint64_t identity) const = 0;
};

// What every segment begins with.
struct SegmentPrefix {
  static constexpr uint64_t kMagic = 0x6d6d6f636f747000;  // "\0ptocomm"
  static constexpr uint32_t kVersion = 3;
  enum Kind : uint32_t { kJob = 1, kWindow = 2 };

  uint64_t magic;
  uint32_t version;
  uint32_t kind;
  uint64_t bytes;    // of the whole segment
  uint64_t creator;  // Identity() of who made it
};

// Whether a segment is one of ours, of this version and kind, and as long as it says.
absl::Status CheckPrefix(absl::string_view name, const Segment& segment, SegmentPrefix::Kind kind,
                         size_t at_least);

// Whether nobody who lives has to do with it any more.
bool IsAbandoned(const Segment& segment, const SegmentStore& store);

}  // namespace pto::comm
