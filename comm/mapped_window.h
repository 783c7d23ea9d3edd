#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comm/backend.h"
#include "comm/job.h"
#include "comm/waiting.h"
#include "comm/window_layout.h"

namespace pto::comm {

// A window whose members can all see each other's memory. Thread-safe, except that a member makes
// one barrier and one collective at a time.
class MappedWindow final : public Window {
 public:
  // `job` outlives the window.
  static absl::StatusOr<std::unique_ptr<Window>> Create(Job& job, const WindowSpec& spec,
                                                        int64_t deadline);
  ~MappedWindow() override;

  void* local() const override { return data(spec_.index); }
  absl::StatusOr<void*> Remote(uint32_t peer) const override { return data(peer); }
  absl::Status Put(uint32_t peer, uint64_t offset, const void* from, uint64_t bytes) override;
  absl::Status Get(uint32_t peer, uint64_t offset, void* to, uint64_t bytes) override;
  absl::Status Notify(uint32_t peer, uint32_t signal, pto_notify_op op, int64_t value) override;
  absl::Status Wait(uint32_t signal, pto_compare compare, int64_t value, int64_t deadline,
                    int64_t* seen) override;
  int64_t ReadSignal(uint32_t signal) const override;
  absl::Status Barrier(int64_t deadline) override;
  MappedWindow* mapped() override { return this; }

  // ---- for the collectives ------------------------------------------------------------------
  uint32_t index() const { return spec_.index; }
  uint32_t count() const { return static_cast<uint32_t>(spec_.ranks.size()); }
  const WindowSpec& spec() const { return spec_; }
  std::byte* data(uint32_t peer) const {
    return segment_->data() + layout_.data + peer * layout_.data_stride;
  }
  // The slot for the call that begins with this step.
  CallSlot& call_slot(uint32_t peer, uint64_t step) const {
    std::byte* place = scratch(peer) + step % MemberWords::kCalls * WindowLayout::kSlotStride;
    return *reinterpret_cast<CallSlot*>(place);
  }
  std::byte* staging(uint32_t peer) const { return scratch(peer) + WindowLayout::kSlotsTotal; }
  size_t staging_bytes() const { return spec_.scratch_bytes; }
  MemberWords& words(uint32_t peer) const { return header_->members[peer]; }
  WindowHeader& header() const { return *header_; }
  const Patience& patience() const { return patience_; }
  // A collective step that this member has seen all others reach.
  uint64_t all_reached() const { return all_reached_; }
  void set_all_reached(uint64_t step) { all_reached_ = std::max(all_reached_, step); }
  // A hash of this member's calls so far: CollectiveCall::history of the next one.
  uint64_t history() const { return history_; }
  void set_history(uint64_t history) { history_ = history; }
  // How this member first failed in a collective; OK if it has not.
  const absl::Status& failure() const { return failure_; }
  void set_failure(const absl::Status& status) { failure_ = status; }
  // Returns an error if a member has died or aborted, or has left although it is `needed`.
  absl::Status CheckMembers(RankSet needed) const;
  std::string List(RankSet members) const { return ListRanks(spec_.ranks, members); }
  std::string Name() const;
  // For example "rank 3".
  std::string RankName(uint32_t member) const { return List(Only(member)); }

 private:
  MappedWindow(Job& job, const WindowSpec& spec);

  absl::StatusOr<std::unique_ptr<Segment>> OpenSegment() const;
  absl::Status Attach(int64_t deadline);
  absl::Status CheckSame() const;
  absl::Status AwaitAttached(int64_t deadline);
  // The members that have left the window, or the whole job.
  RankSet Left() const;
  // Prevents all members from getting the window; returns false if all already have it.
  bool Close();

  std::byte* scratch(uint32_t peer) const {
    return segment_->data() + layout_.scratch + peer * layout_.scratch_stride;
  }
  std::atomic<int64_t>& signal(uint32_t peer, uint32_t index) const {
    auto* words = segment_->data() + layout_.signals + peer * layout_.signal_stride;
    return reinterpret_cast<std::atomic<int64_t>*>(words)[index];
  }

  Job& job_;
  const WindowSpec spec_;
  const WindowLayout layout_;
  const Patience patience_;
  std::unique_ptr<Segment> segment_;
  WindowHeader* header_ = nullptr;
  bool attached_ = false;
  uint64_t all_reached_ = 0;
  uint64_t history_ = 0;
  absl::Status failure_;
};

}  // namespace pto::comm
