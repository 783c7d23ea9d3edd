#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
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
// thread that tells it. What these would call the engine for is in a script. Thread-safe.
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
    size_t leaves = 0;      // a post ends although its call has no answer
    size_t twice = 0;       // a call is made although the one before has no answer
  };
  // The calls that the kernel of a post makes, one after the other, before its function runs. The
  // first that does not succeed is the last, and the post fails with its result.
  using Script = std::function<std::vector<LaneCall>(const LanePost& post)>;
  // Returns a number below its argument.
  using Chooser = std::function<size_t(size_t count)>;

  explicit TestLane(std::string name) : TestLane(std::move(name), Quirks()) {}
  TestLane(std::string name, const Quirks& quirks) : name_(std::move(name)), quirks_(quirks) {}

  // ---- for the engine
  std::string name() const override { return name_; }
  void Open(std::shared_ptr<LaneReports> reports) override;
  void Post(absl::Span<const LanePost* const> posts) override;
  void Cancel(absl::Span<const PostId> ids) override;
  void Resume(const LaneAnswer& answer) override;
  void EndRun(uint64_t run) override;
  // Acts, if PollWith was called.
  bool BeginPoll() override;
  void Poll() override;
  void EndPoll() override { polling_.store(false); }
  void Kill() override;

  // ---- for the test
  // Before the first post. The chooser of PollWith is used by one thread at a time.
  void SetScript(Script script) { script_ = std::move(script); }
  void PollWith(Chooser choose) { poll_choose_ = std::move(choose); }
  // Whether Act would do something.
  bool CanAct();
  // Answers one or more posts, makes the next call of one, or misbehaves.
  void Act(const Chooser& choose);
  // Blocks until CanAct, or until Stop was called. Returns false after Stop.
  bool AwaitAct();
  // Nobody acts for it when this returns.
  void Stop();

  // The posts that wait for an answer, in order.
  std::vector<const LanePost*> held();
  // Makes the next call of a post.
  void MakeCall(const LanePost& post);
  // Runs the kernels of these posts and answers them, all at once.
  void Finish(absl::Span<const LanePost* const> posts);
  void Finish() { Finish(held()); }
  // The same, but the kernels return 0, whatever became of their calls.
  void FinishWell();
  const std::shared_ptr<LaneReports>& reports() const { return reports_; }

  struct Seen {
    // The sizes of the batches.
    std::vector<size_t> posts;
    std::vector<PostId> cancels;
    std::vector<uint64_t> ended_runs;
    uint32_t kills = 0;
    uint32_t calls_after_kill = 0;
    uint32_t broken_gangs = 0;  // their blocks did not come together
    uint64_t answers = 0;       // all that were given, also bad ones
    uint64_t calls = 0;         // that were accepted
    uint64_t bad_calls = 0;
    std::map<pto_result, uint64_t> results;  // of the calls that were answered
    std::vector<LaneAnswer> last;            // the last answers of calls
    uint32_t wrong_answers = 0;              // for no call
  };
  Seen seen();

 private:
  struct Held {
    const LanePost* post = nullptr;
    std::deque<LaneCall> script;
    bool in_call = false;
    bool leaves = false;  // in the middle of its call
    pto_result result = PTO_OK;
  };

  // Calls the kernel of a post.
  static LaneResult Run(const Held& held);
  // Whether something can be done for the post.
  static bool CanAct(const Held& held) { return !held.in_call || held.leaves; }
  // Takes the post out, with the lock.
  Held TakeOut(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the next call of a post; without the lock.
  void Send(const LaneCall& call);
  void Answer(std::vector<LaneResult> results);

  const std::string name_;
  const Quirks quirks_;
  Script script_;
  Chooser poll_choose_;
  std::atomic<bool> polling_{false};
  std::shared_ptr<LaneReports> reports_;
  // Held while a kernel runs, so that Kill waits for it.
  Mutex mutex_;
  CondVar changed_;
  std::vector<Held> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<PostId> again_ ABSL_GUARDED_BY(mutex_);  // to be answered although they must not be
  bool killed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Seen seen_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::engine::testing
