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
#include "absl/types/optional.h"
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
// A post that is cancelled ends alone: what has not started is dropped, and a kernel that runs is
// ended with its stream. Only if the chip cannot do that within `grace`, its host is killed, and
// all posts of the chip fail. Thread-safe, see engine::Lane.
//
// Tensors carry the epoch of their memory in their addresses (epoch_address.h). A post with memory
// or a kernel of a former epoch fails with DEVICE_FAILED, and does not reach the chip.
class AscendLane final : public engine::Lane {
 public:
  struct Options {
    // How long a cancelled post may take before the chip's host is killed. Less than the grace of
    // the engine, which would give up the lane for good.
    absl::Duration grace = absl::Seconds(2);
    // Kernels that stay loaded while nothing runs them. More are unloaded, the oldest first.
    size_t idle_kernels = 128;
    // Of the engine, for deadlines of posts.
    const Clock* clock = &Clock::Real();
  };

  AscendLane(std::shared_ptr<ChipHost> host, Options options)
      : options_(options), shared_(std::make_shared<Shared>(std::move(host), options)) {}

  std::string name() const override { return shared_->host->name(); }
  void Open(std::shared_ptr<engine::LaneReports> reports) override;
  void Post(absl::Span<const engine::LanePost* const> posts) override;
  void Cancel(absl::Span<const engine::PostId> ids) override;
  // Code on a device calls nothing, so there is nothing to answer.
  void Resume(const engine::LaneAnswer& /*answer*/) override {}
  void Kill() override;

 private:
  struct Loaded;
  // A launch, and the posts that it answers.
  struct Launch {
    Request request;
    std::shared_ptr<Loaded> kernel;                          // set when it uses it
    std::vector<std::pair<engine::PostId, uint32_t>> posts;  // and their first blocks
    bool ended = false;
  };
  // A kernel in the chip, of one epoch.
  struct Loaded {
    bool ready = false;
    uint32_t id = 0;
    absl::Status error;
    std::vector<Launch> waiting;  // until it is loaded
    uint32_t uses = 0;            // launches that have not ended
    uint64_t last_use = 0;
  };
  // What answers need, as long as the lane is there.
  struct Shared : public std::enable_shared_from_this<Shared> {
    Shared(std::shared_ptr<ChipHost> chip_host, const Options& lane_options)
        : host(std::move(chip_host)), options(lane_options) {}

    void Begin(const AscendKernel& kernel, Launch launch);
    void Send(Launch launch, uint32_t kernel);
    void Load(const AscendKernel& kernel, uint64_t of_epoch, const std::string& key,
              const std::shared_ptr<Loaded>& loaded);
    void End(Launch& launch, const absl::Status& status);
    void Cancel(uint64_t request);
    // Forgets the kernel that was used least lately, if there are too many. Returns the request to
    // unload it.
    absl::optional<Request> TakeOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

    const std::shared_ptr<ChipHost> host;
    const Options options;
    Mutex mutex;
    std::shared_ptr<engine::LaneReports> reports ABSL_GUARDED_BY(mutex);
    bool killed ABSL_GUARDED_BY(mutex) = false;
    uint64_t epoch ABSL_GUARDED_BY(mutex) = 0;  // of the kernels
    std::map<std::string, std::shared_ptr<Loaded>> kernels ABSL_GUARDED_BY(mutex);
    uint64_t last_use ABSL_GUARDED_BY(mutex) = 0;
    // The request of each post; 0: it is not sent yet.
    absl::flat_hash_map<engine::PostId, uint64_t> sent ABSL_GUARDED_BY(mutex);
  };

  // FIELD_INVALID, NOT_AVAILABLE, with what the chip cannot do, or DEVICE_FAILED.
  absl::Status Fill(const engine::LanePost& post, uint64_t epoch, Launch* launch) const;

  const Options options_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace pto::ascend
