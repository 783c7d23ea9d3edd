#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/ascend/chip_host.h"
#include "runtime/chip/ascend/lane/ascend_kernel.h"
#include "runtime/engine/lane/lane.h"

namespace pto::ascend {

// Runs blocks on one Ascend chip. Blocks of one gang become one launch, in which none starts before
// all have cores; other posts become a launch each. The tensors of posts have addresses of the
// chip's memory in place of pointers.
//
// A kernel that does not end cannot be stopped on its own: when a cancelled post does not end
// within `grace`, the chip's host is killed, and all posts of the chip fail. Thread-safe, see
// engine::Lane.
class AscendLane final : public engine::Lane {
 public:
  struct Options {
    // Less than the grace of the engine, which would give up the lane for good.
    absl::Duration grace = absl::Seconds(2);
    // Of the engine, for deadlines of posts.
    const Clock* clock = &Clock::Real();
  };

  AscendLane(std::shared_ptr<ChipHost> host, Options options)
      : options_(options), shared_(std::make_shared<Shared>(std::move(host))) {}

  std::string name() const override { return shared_->host->name(); }
  void Open(std::shared_ptr<engine::LaneReports> reports) override;
  void Post(absl::Span<const engine::LanePost* const> posts) override;
  void Cancel(absl::Span<const engine::PostId> ids) override;
  // Code on a device calls nothing, so there is nothing to answer.
  void Resume(const engine::LaneAnswer& /*answer*/) override {}
  void Kill() override;

 private:
  // A launch, and the posts that it answers.
  struct Launch {
    Request request;
    std::vector<std::pair<engine::PostId, uint32_t>> posts;  // and their first blocks
    bool ended = false;
  };
  // A kernel in the chip, of one epoch.
  struct Loaded {
    bool ready = false;
    uint32_t id = 0;
    absl::Status error;
    std::vector<Launch> waiting;  // until it is loaded
  };
  // What answers need, which may come after the lane has gone.
  struct Shared : public std::enable_shared_from_this<Shared> {
    explicit Shared(std::shared_ptr<ChipHost> chip_host) : host(std::move(chip_host)) {}

    void Begin(const AscendKernel& kernel, Launch launch);
    void Send(Launch launch, uint32_t kernel);
    void Load(const AscendKernel& kernel, const std::string& key);
    void End(Launch& launch, const absl::Status& status);

    const std::shared_ptr<ChipHost> host;
    Mutex mutex;
    std::shared_ptr<engine::LaneReports> reports ABSL_GUARDED_BY(mutex);
    bool killed ABSL_GUARDED_BY(mutex) = false;
    uint64_t epoch ABSL_GUARDED_BY(mutex) = 0;
    std::map<std::string, Loaded> kernels ABSL_GUARDED_BY(mutex);
    // The posts that have no answer yet, and their requests: kUnsent while their kernel is being
    // loaded, kCancelled if they were cancelled meanwhile.
    absl::flat_hash_map<engine::PostId, uint64_t> sent ABSL_GUARDED_BY(mutex);
    uint32_t next_stream ABSL_GUARDED_BY(mutex) = 0;
  };

  // FIELD_INVALID or NOT_AVAILABLE, with what the chip cannot do.
  absl::Status Fill(const engine::LanePost& post, Launch* launch) const;

  const Options options_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace pto::ascend
