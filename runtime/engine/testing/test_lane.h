#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_reports.h"

namespace pto::engine::testing {

// A lane that answers when it is told to, well or badly. It runs the kernels' own functions, on the
// thread that tells it. Thread-safe.
class TestLane final : public Lane {
 public:
  // How often it misbehaves: one of so many times; 0: never.
  struct Quirks {
    size_t fails = 0;       // a post ends with an error
    size_t drops = 0;       // a post is never answered
    size_t duplicates = 0;  // an answer is given twice
    size_t unknown = 0;     // an answer for no post
    size_t dies = 0;        // the lane reports its death
    size_t late = 0;        // after Kill, an answer is given all the same
  };
  // Returns a number below its argument.
  using Chooser = std::function<size_t(size_t count)>;

  explicit TestLane(std::string name) : TestLane(std::move(name), Quirks()) {}
  TestLane(std::string name, const Quirks& quirks) : name_(std::move(name)), quirks_(quirks) {}

  // ---- for the engine
  std::string name() const override { return name_; }
  void Open(std::shared_ptr<LaneReports> reports) override;
  void Post(absl::Span<const LanePost* const> posts) override;
  void Cancel(absl::Span<const PostId> ids) override;
  void Kill() override;

  // ---- for the test
  // Whether Act would do something.
  bool CanAct();
  // Answers one or more posts, or misbehaves.
  void Act(const Chooser& choose);
  // Blocks until CanAct, or until Stop was called. Returns false after Stop.
  bool AwaitAct();
  void Stop();

  // The posts that wait for an answer, in order.
  std::vector<const LanePost*> held();
  // Runs the kernels of these posts and answers them, all at once.
  void Finish(absl::Span<const LanePost* const> posts);
  void Finish() { Finish(held()); }
  const std::shared_ptr<LaneReports>& reports() const { return reports_; }

  struct Seen {
    // The sizes of the batches.
    std::vector<size_t> posts;
    std::vector<PostId> cancels;
    uint32_t kills = 0;
    uint32_t calls_after_kill = 0;
    uint32_t broken_gangs = 0;  // their blocks did not come together
    uint64_t answers = 0;       // all that were given, also bad ones
  };
  Seen seen();

 private:
  // Calls the kernel of a post.
  static absl::Status Run(const LanePost& post);
  void Answer(std::vector<LaneResult> results);

  const std::string name_;
  const Quirks quirks_;
  std::shared_ptr<LaneReports> reports_;
  // Held while a kernel runs, so that Kill waits for it.
  Mutex mutex_;
  CondVar changed_;
  std::vector<const LanePost*> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<PostId> again_ ABSL_GUARDED_BY(mutex_);  // to be answered although they must not be
  bool killed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Seen seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::engine::testing
