#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "comm/backend.h"
#include "comm/job_layout.h"
#include "comm/segment_store.h"
#include "comm/waiting.h"

namespace pto::comm {

// One rank's membership in a job whose ranks share memory: the communicator of the "local" and the
// "shm" backend. Thread-safe.
class Job final : public Communicator {
 public:
  // Waits until all ranks have joined. `store` must outlive the job.
  static absl::StatusOr<std::unique_ptr<Communicator>> Join(std::shared_ptr<SegmentStore> store,
                                                            const JoinSpec& spec);
  ~Job() override;

  absl::StatusOr<std::unique_ptr<Window>> CreateWindow(const WindowSpec& spec,
                                                       int64_t deadline) override;
  absl::Status Barrier(int64_t deadline) override;
  void Abort(absl::string_view why) override;

  // Returns an error if one of these ranks has died or aborted. Call it before LeftError: others
  // may have left because of the rank that died.
  absl::Status CheckAlive(absl::Span<const uint32_t> ranks) const;
  // The error that names the ranks that have left `what`; OK if none has. It names all, because the
  // first one to leave caused the others to leave.
  absl::Status LeftError(absl::Span<const uint32_t> ranks, RankSet left,
                         absl::string_view what) const;
  bool HasLeft(uint32_t rank) const;

  SegmentStore& store() const { return *store_; }
  uint32_t rank() const { return spec_.rank; }
  // "rank 3 (pid 4711)"
  std::string DescribeRank(uint32_t rank) const;
  // The name of a window's segment.
  std::string WindowName(uint64_t id) const;
  // Rung when a window has been created.
  Bell& bell() const { return layout_->bell; }
  // FailWindow makes the creation of this window fail at all ranks. WindowFailure returns the error
  // of a rank that did so, otherwise OK.
  void FailWindow(uint64_t id, const absl::Status& error);
  absl::Status WindowFailure(uint64_t id) const;

 private:
  Job(std::shared_ptr<SegmentStore> store, const JoinSpec& spec);

  absl::StatusOr<std::unique_ptr<Segment>> OpenSegment() const;
  // Creates the segment or opens the existing one. Returns true if it can be joined.
  absl::StatusOr<bool> Attach();
  absl::StatusOr<bool> TakeSlot();
  absl::Status AwaitAll();
  // Takes this rank's arrival back and, with `close`, prevents others from joining forever. Returns
  // false if all have joined by now.
  bool Withdraw(bool close);
  // Returns an error if a rank that has joined is dead.
  absl::Status CheckPresent() const;

  const std::shared_ptr<SegmentStore> store_;
  const JoinSpec spec_;
  const uint64_t identity_;
  const Patience patience_;
  std::unique_ptr<Segment> segment_;
  JobLayout* layout_ = nullptr;
  bool joined_ = false;
  std::atomic<uint32_t> failed_windows_{0};
};

// "rank 1" or "ranks 1, 4 and 5".
std::string ListRanks(absl::Span<const uint32_t> ranks, RankSet set);

}  // namespace pto::comm
