#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/clock.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/run/flow.h"
#include "runtime/engine/run/priority.h"

namespace pto {

// Where tasks of one class wait for one kind of core. A line with a smaller number is served
// first: higher classes before lower ones, then clusters before single cores.
using Line = uint32_t;
inline constexpr Line kLineCount = 9;
inline constexpr uint32_t kClassCount = 3;
inline Line LineOf(Priority priority, pto_core kind) {
  return (2 - static_cast<uint32_t>(priority)) * 3 + static_cast<uint32_t>(kind) % 3;
}
inline pto_core KindOf(Line line) {
  return line % 3 == 0 ? PTO_MIX : static_cast<pto_core>(line % 3);
}

// The class of a line, as a number that is smaller for a higher class.
inline uint32_t ClassOf(Line line) { return line / 3; }
inline uint32_t ClassOf(Priority priority) { return ClassOf(LineOf(priority, PTO_MIX)); }

// What one account has ready on one chip, and what it has used of it.
struct Share {
  std::shared_ptr<Account> account;  // nullptr: the one for all that have none
  double weight = 1;
  double used_ns = 0;          // time of cores, by weight
  double typical_ns = 10'000;  // for which it keeps a core, of late
  uint32_t flows = 0;          // with ready tasks, and gangs that wait
  uint32_t cores = 0;          // that it holds; a cluster counts as one
  std::array<FlowRing, kLineCount> rings;
};

// Whose turn it is on one chip. Accounts with ready tasks are served by weighted fair queueing on
// the time for which they hold cores: next is the one that has used least for its weight. What
// it is given counts at once as it usually takes, and in the end as it took. An account that
// comes back from a pause has used as much as the one that was served last: it has saved up
// nothing. The runs of one account take turns.
//
// Times are only taken while there is more than one account, so one alone pays nothing for this.
// Not thread-safe: its owner locks.
class ShareTable {
 public:
  // `cores` is one more than the largest number of a core.
  ShareTable(uint32_t cores, const Clock& clock) : clock_(clock), uses_(cores) {}

  // A flow has got its first ready task, or has none left.
  void Add(Flow& flow, const std::shared_ptr<Account>& account, Line line);
  void Remove(Flow& flow, Line line);

  // Bit i: something waits in line i.
  uint32_t lines() const { return lines_; }
  // The flow whose turn it is in a line that is not empty. It keeps its turn until it is served.
  Flow& Next(Line line) const { return *Least(line)->rings[line].current(); }
  // A task of the flow is handed out: the turn passes on. While the flow still has it.
  void Serve(Flow& flow, Line line);
  // Whether the flow's account is the one whose turn it is.
  bool IsNext(const Flow& flow, Line line) const { return flow.share == Least(line); }
  // Of the accounts that wait in a line that is not empty, the one that has used least.
  Share* Least(Line line) const;
  // Whether other runs wait in one of these lines.
  bool OthersWait(const Run& run, uint32_t lines) const;

  // When the time of a core that is given to an account begins: at once, or with Begin.
  enum class From { kNow, kBegin };
  // A core, or for PTO_MIX a cluster, is given to an account, or comes back. `part`: the part of
  // the time that counts, where fewer threads than cores do the work.
  void Take(Share& share, uint32_t core, pto_core kind, From from = From::kNow, double part = 1);
  void Begin(uint32_t core);
  void Return(uint32_t core);

  // A gang of the account waits for cores, or waits no more. It counts like a flow.
  Share& AddGang(const std::shared_ptr<Account>& account);
  void RemoveGang(Share& share);
  // The gang gets its cores: accounts that come later have used no less.
  void ServeGang(const Share& share) { least_used_ns_ = std::max(least_used_ns_, share.used_ns); }
  // The account's share, which is made if need be. Stays only while the account has flows or
  // cores.
  Share& Of(const std::shared_ptr<Account>& account);

  size_t size() const { return shares_.size(); }

 private:
  static constexpr int64_t kNotBegun = -1;
  // Of core time, that an account can be behind when one of its gangs comes after another.
  static constexpr double kMostCreditNs = 1e9;
  struct Use {
    Share* share = nullptr;
    bool timed = false;
    double cores = 1;
    double expected_ns = 0;
    int64_t since_ns = kNotBegun;
  };

  // The share gets one thing more that waits, or has one less.
  void Enter(Share& share);
  void Leave(Share& share);
  Share& Create(const std::shared_ptr<Account>& account);
  // Forgets all of whom nothing has to be known.
  void Sweep();
  // Whether nothing would change if the account came as a new one.
  bool Forgettable(const Share& share) const;

  const Clock& clock_;
  std::vector<Use> uses_;  // by core
  uint32_t lines_ = 0;
  std::array<std::vector<Share*>, kLineCount> waiting_;
  absl::flat_hash_map<const Account*, std::unique_ptr<Share>> shares_;
  Share* last_ = nullptr;     // found last
  double least_used_ns_ = 0;  // of whoever was served last
  uint32_t active_ = 0;       // shares with flows or cores
};

}  // namespace pto
