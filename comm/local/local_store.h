#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/backend.h"
#include "comm/segment_store.h"
#include "runtime/base/mutex.h"

namespace pto::comm {

// Segments within this process: names in a table, memory from the heap.
class LocalStore final : public SegmentStore {
 public:
  struct Memory {
    std::shared_ptr<std::byte> data;
    size_t size = 0;
  };

  absl::StatusOr<std::unique_ptr<Segment>> Publish(
      absl::string_view name, size_t bytes, absl::FunctionRef<void(std::byte*)> fill) override;
  absl::StatusOr<std::unique_ptr<Segment>> Open(
      absl::string_view name, absl::Span<std::byte> head,
      absl::FunctionRef<absl::Status(size_t size)> check) override;
  void Remove(absl::string_view name, const Segment& segment) override;
  void Sweep() override {}
  uint64_t Identity() const override { return 1; }
  // A thread of this process cannot die alone; it can leave or abort.
  bool Alive(uint64_t) const override { return true; }
  std::string Describe(uint64_t) const override { return "of this process"; }

 private:
  Mutex mutex_;
  std::map<std::string, Memory, std::less<>> segments_ ABSL_GUARDED_BY(mutex_);
};

// The "local" backend: all jobs of this process meet in one store.
absl::StatusOr<std::unique_ptr<Communicator>> JoinLocal(const JoinSpec& spec);

}  // namespace pto::comm
