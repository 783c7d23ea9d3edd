#pragma once

#include <memory>
#include <string>

#include "comm/backend.h"
#include "comm/segment_store.h"

namespace pto::comm {

// Segments that the processes of one user share: files in a directory of an in-memory file system,
// named ptod@<uid>@<pid namespace>@<name>. The pid namespace is in the name because liveness of
// pids can only be checked within it. A file gets its name only when it is complete. The name is
// removed under a lock, after checking that it still refers to that file.
class ShmStore final : public SegmentStore {
 public:
  explicit ShmStore(absl::string_view directory);

  absl::StatusOr<std::unique_ptr<Segment>> Publish(
      absl::string_view name, size_t bytes, absl::FunctionRef<void(std::byte*)> fill) override;
  absl::StatusOr<std::unique_ptr<Segment>> Open(
      absl::string_view name, absl::Span<std::byte> head,
      absl::FunctionRef<absl::Status(size_t size)> check) override;
  void Remove(absl::string_view name, const Segment& segment) override;
  void Sweep() override;
  uint64_t Identity() const override;
  bool Alive(uint64_t identity) const override;
  std::string Describe(uint64_t identity) const override;

 private:
  std::string PathOf(absl::string_view name) const;

  const std::string directory_;
  const std::string prefix_;  // of the names of this user's files in this pid namespace
};

// The "shm" backend.
absl::StatusOr<std::unique_ptr<Communicator>> JoinShm(const JoinSpec& spec);

}  // namespace pto::comm
