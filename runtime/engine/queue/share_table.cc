#include "runtime/engine/queue/share_table.h"

#include <algorithm>

#include "runtime/base/ticks.h"

namespace pto::engine {

bool ShareTable::Forgettable(const Share& share) const {
  return share.flows == 0 && share.cores == 0 && (active_ == 0 || share.used_ns <= least_used_ns_);
}

void ShareTable::Sweep() {
  for (auto it = shares_.begin(); it != shares_.end();) {
    const auto share = it++;
    if (!Forgettable(*share->second)) continue;
    if (last_ == share->second.get()) last_ = nullptr;
    AddToCoreTime(*share->second);
    shares_.erase(share);
  }
}

Share& ShareTable::Create(const std::shared_ptr<Account>& account) {
  Sweep();
  auto share = std::make_unique<Share>();
  share->account = account;
  if (account != nullptr) {
    share->weight = account->weight();
    share->core_time = account->core_time();
  }
  share->used_ns = least_used_ns_;
  Share& created = *share;
  shares_[account.get()] = std::move(share);
  if (shares_.size() == 2) {
    // Start to measure the cores that the only account so far already has.
    const int64_t now = clock_.NowNanos();
    for (Use& use : uses_) {
      if (use.share == nullptr || use.timed) continue;
      use.timed = true;
      use.expected_ns = 0;
      use.since_ns = now;
    }
  }
  return created;
}

Share& ShareTable::Of(const std::shared_ptr<Account>& account) {
  if (last_ != nullptr && last_->account == account) return *last_;
  const auto it = shares_.find(account.get());
  last_ = it != shares_.end() ? it->second.get() : &Create(account);
  return *last_;
}

void ShareTable::Enter(Share& share) {
  if (share.flows++ > 0) return;
  share.used_ns = std::max(share.used_ns, least_used_ns_);
  if (share.cores == 0) ++active_;
}

void ShareTable::Leave(Share& share) {
  if (--share.flows == 0 && share.cores == 0) --active_;
}

Share& ShareTable::AddGang(const std::shared_ptr<Account>& account) {
  Share& share = Of(account);
  // The account's next gang waits while its last one runs, and other tasks are served meanwhile.
  // This is not a pause, so it keeps its lag, but the lag is limited.
  const double used_ns = share.cores > 0 ? share.used_ns : 0;
  Enter(share);
  if (used_ns > 0) share.used_ns = std::max(used_ns, least_used_ns_ - kMostCreditNs);
  return share;
}

void ShareTable::RemoveGang(Share& share) { Leave(share); }

void ShareTable::Add(Flow& flow, const std::shared_ptr<Account>& account, Line line) {
  Share& share = Of(account);
  flow.share = &share;
  Enter(share);
  if (share.rings[line].empty()) {
    waiting_[line].push_back(&share);
    lines_ |= 1u << line;
  }
  share.rings[line].Add(flow);
}

void ShareTable::Remove(Flow& flow, Line line) {
  Share& share = *flow.share;
  flow.share = nullptr;
  share.rings[line].Remove(flow);
  if (share.rings[line].empty()) {
    std::vector<Share*>& waiting = waiting_[line];
    waiting.erase(std::find(waiting.begin(), waiting.end(), &share));
    if (waiting.empty()) lines_ &= ~(1u << line);
  }
  Leave(share);
}

Share* ShareTable::Least(Line line) const {
  const std::vector<Share*>& waiting = waiting_[line];
  if (waiting.size() == 1) return waiting[0];
  return *std::min_element(waiting.begin(), waiting.end(),
                           [](const Share* a, const Share* b) { return a->used_ns < b->used_ns; });
}

void ShareTable::Serve(Flow& flow, Line line) {
  Share& share = *flow.share;
  least_used_ns_ = std::max(least_used_ns_, share.used_ns);
  FlowRing& ring = share.rings[line];
  if (ring.current() == &flow) ring.Rotate();
}

bool ShareTable::OthersWait(const Run& run, uint32_t lines) const {
  for (Line line = 0; line < kLineCount; ++line) {
    if ((lines & lines_ & 1u << line) == 0) continue;
    if (waiting_[line].size() > 1) return true;
    const Flow* flow = waiting_[line][0]->rings[line].current();
    if (flow->run != &run || flow->next->run != &run) return true;
  }
  return false;
}

bool ShareTable::AnyWaits(absl::FunctionRef<bool(const Account*)> select) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const std::vector<Share*>& line) {
    return std::any_of(line.begin(), line.end(),
                       [&](const Share* share) { return select(share->account.get()); });
  });
}

void ShareTable::Take(Share& share, uint32_t core, pto_core kind, From from, double part) {
  Use& use = uses_[core];
  use.share = &share;
  use.timed = shares_.size() > 1;
  use.cores = (kind == PTO_MIX ? 3 : 1) * part;
  use.since_ns = kNotBegun;
  if (share.core_time != nullptr) {
    use.width = kind == PTO_MIX ? 3 : 1;
    use.since_ticks = Ticks();
  }
  if (share.cores++ == 0 && share.flows == 0) ++active_;
  if (!use.timed) return;
  use.expected_ns = share.typical_ns;
  if (from == From::kNow) use.since_ns = clock_.NowNanos();
  share.used_ns += use.expected_ns * use.cores / share.weight;
}

void ShareTable::Begin(uint32_t core) {
  Use& use = uses_[core];
  if (use.timed && use.since_ns == kNotBegun) use.since_ns = clock_.NowNanos();
}

void ShareTable::CountHeld() {
  const int64_t now = clock_.NowNanos();
  for (Use& use : uses_) {
    if (use.share == nullptr || !use.timed || use.since_ns == kNotBegun) continue;
    const auto took = static_cast<double>(now - use.since_ns);
    if (took <= use.expected_ns) continue;
    use.share->used_ns += (took - use.expected_ns) * use.cores / use.share->weight;
    use.expected_ns = took;
  }
}

void ShareTable::SettleCoreTime() {
  const uint64_t now = Ticks();
  for (Use& use : uses_) {
    if (use.share != nullptr && use.share->core_time != nullptr) CountTicks(use, now);
  }
  for (const auto& [account, share] : shares_) AddToCoreTime(*share);
}

void ShareTable::Return(uint32_t core) {
  Use& use = uses_[core];
  if (use.share == nullptr) return;
  Share& share = *use.share;
  if (share.core_time != nullptr) CountTicks(use, Ticks());
  use.share = nullptr;
  if (use.timed) {
    const int64_t took_ns = use.since_ns == kNotBegun ? 0 : clock_.NowNanos() - use.since_ns;
    const auto took = static_cast<double>(took_ns);
    share.used_ns += (took - use.expected_ns) * use.cores / share.weight;
    share.typical_ns += (took - share.typical_ns) / 8;
  }
  if (--share.cores == 0 && share.flows == 0) --active_;
  // Keep the share of a single account: in most cases it comes back.
  if (use.timed && active_ <= 1 && shares_.size() > 1) Sweep();
}

}  // namespace pto::engine
