#pragma once

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
  // Waits until all ranks have come. `store` outlives the job.
  static absl::StatusOr<std::unique_ptr<Communicator>> Join(std::shared_ptr<SegmentStore> store,
                                                            const JoinSpec& spec);
  ~Job() override;

  absl::StatusOr<std::unique_ptr<Window>> CreateWindow(const WindowSpec& spec,
                                                       int64_t deadline) override;
  absl::Status Barrier(int64_t deadline) override;
  void Abort(absl::string_view why) override;

  // An error when one of these ranks, given by their numbers in the job, has died or aborted, or
  // has left although it is one of the `needed`, given by their places in `ranks`.
  absl::Status CheckRanks(absl::Span<const uint32_t> ranks, RankSet needed) const;
  bool HasLeft(uint32_t rank) const;

  SegmentStore& store() const { return *store_; }
  uint32_t rank() const { return spec_.rank; }
  // "rank 3 (pid 4711)"
  std::string DescribeRank(uint32_t rank) const;
  // The name of a window's segment.
  std::string WindowName(uint64_t id) const;
  // Rung when a window has been made.
  Bell& bell() const { return layout_->bell; }
  // Says that this rank could not make a window, and asks whether another one could not.
  void SetWindowFailed(uint64_t id);
  bool WindowFailed(uint32_t rank, uint64_t id) const {
    return layout_->slots[rank].failed_window.load() == id + 1;
  }

 private:
  Job(std::shared_ptr<SegmentStore> store, const JoinSpec& spec);

  // Makes the segment or opens the one that is there; true with one that can be joined.
  absl::StatusOr<bool> Attach();
  absl::StatusOr<bool> TakeSlot();
  absl::Status AwaitAll();
  // Takes this rank's arrival back, and on `close` keeps all others out for ever; false when all
  // have come by now.
  bool Withdraw(bool close);
  // An error when a rank that has come is dead.
  absl::Status CheckPresent() const;

  const std::shared_ptr<SegmentStore> store_;
  const JoinSpec spec_;
  const uint64_t identity_;
  const Patience patience_;
  std::unique_ptr<Segment> segment_;
  JobLayout* layout_ = nullptr;
  bool joined_ = false;
};

// "rank 1" or "ranks 1, 4 and 5".
std::string ListRanks(absl::Span<const uint32_t> ranks, RankSet set);

}  // namespace pto::comm
