#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/clock.h"
#include "runtime/base/core_time.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/run/flow.h"
#include "runtime/engine/run/priority.h"

namespace pto::engine {

// The queue of tasks of one class for one kind of core. Lines with smaller numbers are served
// first: higher classes first, then clusters before single cores.
using Line = uint32_t;
inline constexpr Line kLineCount = 9;
inline constexpr uint32_t kClassCount = 3;
inline Line LineOf(Priority priority, pto_core kind) {
  return (2 - static_cast<uint32_t>(priority)) * 3 + static_cast<uint32_t>(kind) % 3;
}
inline pto_core KindOf(Line line) {
  return line % 3 == 0 ? PTO_MIX : static_cast<pto_core>(line % 3);
}

// The class of a line, as a number. Higher classes have smaller numbers.
inline uint32_t ClassOf(Line line) { return line / 3; }
inline uint32_t ClassOf(Priority priority) { return ClassOf(LineOf(priority, PTO_MIX)); }

// The ready tasks of one account on one chip, and the core time that it has used.
struct Share {
  std::shared_ptr<Account> account;  // nullptr: shared by all runs without an account
  double weight = 1;
  double used_ns = 0;             // core time, divided by weight
  double typical_ns = 10'000;     // recent average time on a core
  uint32_t flows = 0;             // with ready tasks, plus waiting gangs
  uint32_t cores = 0;             // held now; a cluster counts as one
  CoreTime* core_time = nullptr;  // of the account; nullptr: it counts none
  uint64_t core_ticks = 0;        // for that, and not added yet
  std::array<FlowRing, kLineCount> rings;
};

// Decides which account and run is next on one chip, by weighted fair queueing on core time: next
// is the account that has used least for its weight. A core counts at once with the account's
// typical time, and is corrected when it is released. An account that returns after a pause starts
// with the use of the account that was served last, so pauses earn no credit. The runs of one
// account take turns.
//
// Clocks are read only while there is more than one account, so a single account pays nothing.
// What an account counts in its CoreTime is measured always, in ticks. Not thread-safe: the owner
// locks.
class ShareTable {
 public:
  // `cores` is one more than the largest core number.
  ShareTable(uint32_t cores, const Clock& clock) : clock_(clock), uses_(cores) {}

  // A flow got its first ready task, or lost its last one.
  void Add(Flow& flow, const std::shared_ptr<Account>& account, Line line);
  void Remove(Flow& flow, Line line);

  // Bit i: tasks wait in line i.
  uint32_t lines() const { return lines_; }
  // The flow that is next in a line that is not empty. It remains next until it is served.
  Flow& Next(Line line) const { return *Least(line)->rings[line].current(); }
  // A task of the flow is handed out: the next flow gets the turn. Call it before the task is
  // removed.
  void Serve(Flow& flow, Line line);
  // Whether the flow's account is next.
  bool IsNext(const Flow& flow, Line line) const { return flow.share == Least(line); }
  // The account with the least use among those that wait in a line that is not empty.
  Share* Least(Line line) const;
  // Whether other runs wait in one of these lines.
  bool OthersWait(const Run& run, uint32_t lines) const;

  // Whether tasks of an account wait for which `select` is true.
  bool AnyWaits(absl::FunctionRef<bool(const Account*)> select) const;

  // When the time of a core starts to count: at once, or at Begin.
  enum class From { kNow, kBegin };
  // An account takes or returns a core, or for PTO_MIX a cluster. `part`: the fraction of the time
  // that counts, for tasks that use fewer threads than cores.
  void Take(Share& share, uint32_t core, pto_core kind, From from = From::kNow, double part = 1);
  void Begin(uint32_t core);
  void Return(uint32_t core);
  // Counts the time of the cores that are held now, up to now, so that an account that keeps its
  // cores for long is not next all the time.
  void CountHeld();
  // Adds the time of cores, also of those that are held now, to the CoreTime of their accounts,
  // which many tables share and so is not touched each time that a core is returned.
  void SettleCoreTime();

  // A gang of the account starts or stops to wait for cores. It counts like a flow.
  Share& AddGang(const std::shared_ptr<Account>& account);
  void RemoveGang(Share& share);
  // The gang gets its cores. Accounts that come later start with at least its use.
  void ServeGang(const Share& share) { least_used_ns_ = std::max(least_used_ns_, share.used_ns); }
  // The share of the account, created if needed. May be erased once the account has no flows and no
  // cores.
  Share& Of(const std::shared_ptr<Account>& account);

  size_t size() const { return shares_.size(); }

 private:
  static constexpr int64_t kNotBegun = -1;
  // The core time by which an account may lag when its gangs follow one another.
  static constexpr double kMostCreditNs = 1e9;
  struct Use {
    Share* share = nullptr;
    bool timed = false;
    double cores = 1;
    double expected_ns = 0;
    int64_t since_ns = kNotBegun;
    uint32_t width = 1;  // cores, whatever part of them counts for the share
    uint64_t since_ticks = 0;
  };

  // Counts the time of a core of a share with a CoreTime.
  static void CountTicks(Use& use, uint64_t now_ticks) {
    // The counters of two processors may differ a little.
    if (now_ticks <= use.since_ticks) return;
    use.share->core_ticks += (now_ticks - use.since_ticks) * use.width;
    use.since_ticks = now_ticks;
  }
  static void AddToCoreTime(Share& share) {
    if (share.core_ticks == 0) return;
    share.core_time->Add(share.core_ticks);
    share.core_ticks = 0;
  }
  // Counts one more or one less waiting flow or gang of the share.
  void Enter(Share& share);
  void Leave(Share& share);
  Share& Create(const std::shared_ptr<Account>& account);
  // Erases all forgettable shares.
  void Sweep();
  // Whether a new share for the account would be the same.
  bool Forgettable(const Share& share) const;

  const Clock& clock_;
  std::vector<Use> uses_;  // by core
  uint32_t lines_ = 0;
  std::array<std::vector<Share*>, kLineCount> waiting_;
  absl::flat_hash_map<const Account*, std::unique_ptr<Share>> shares_;
  Share* last_ = nullptr;     // the last one looked up
  double least_used_ns_ = 0;  // use of the share that was served last
  uint32_t active_ = 0;       // shares with flows or cores
};

}  // namespace pto::engine
