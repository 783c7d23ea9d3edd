#pragma once

#include <memory>
#include <string>

#include "absl/types/span.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/host/host_keeper.h"

namespace pto::host {

// The lane to a kernel host. The last kernel that uses it ends the host.
class HostLane final : public engine::Lane {
 public:
  explicit HostLane(std::shared_ptr<HostKeeper> keeper) : keeper_(std::move(keeper)) {}
  ~HostLane() override { keeper_->Stop(); }

  std::string name() const override { return keeper_->name(); }
  void Open(std::shared_ptr<engine::LaneReports> reports) override {
    keeper_->Open(std::move(reports));
  }
  void Post(absl::Span<const engine::LanePost* const> posts) override { keeper_->Post(posts); }
  void Cancel(absl::Span<const engine::PostId> ids) override { keeper_->Cancel(ids); }
  void EndRun(uint64_t run) override { keeper_->EndRun(run); }
  void Resume(const engine::LaneAnswer& answer) override { keeper_->Resume(answer); }
  bool BeginPoll() override { return keeper_->BeginPoll(); }
  void Poll() override { keeper_->Poll(); }
  void EndPoll() override { keeper_->EndPoll(); }
  void Kill() override { keeper_->Kill(); }

 private:
  const std::shared_ptr<HostKeeper> keeper_;
};

}  // namespace pto::host
