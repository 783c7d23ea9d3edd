#include "daemon/chip/chip_leases.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// How often to check whether the runs that delay a lease have ended.
constexpr int64_t kLookNs = 5'000'000;

}  // namespace

absl::StatusOr<ChipLeases::Lease> ChipLeases::Ask(const std::string& session, uint32_t count,
                                                  absl::string_view owner, uint32_t limit) {
  {
    MutexLock lock(mutex_);
    if (const Entry* entry = FindLocked(session)) {
      if (entry->wanted == count) return DescribeLocked(*entry);
      return Error(reason::kIdConflict, absl::StrCat("session '", session, "' has asked for ",
                                                     entry->wanted, " chips, not ", count))
          .At("count")
          .With("session", session)
          .With("have", entry->wanted)
          .With("want", count);
    }
    uint32_t has = 0;
    for (const Entry& entry : entries_) {
      if (entry.owner == owner) has += entry.wanted;
    }
    if (count > limit || has > limit - count) {
      return Error(reason::kQuotaChips,
                   absl::StrCat("client ", owner, " may lease ", limit, " chips, has asked for ",
                                has, " and wants ", count, " more"))
          .With("client", owner)
          .With("limit", limit)
          .With("usage", has)
          .With("requested", count)
          .Limit("max_leased_chips", limit, has, count);
    }
    entries_.emplace_back();
    entries_.back().session = session;
    entries_.back().owner = std::string(owner);
    entries_.back().wanted = count;
    count_.fetch_add(1, std::memory_order_acq_rel);
  }
  Advance();
  return Find(session);
}

absl::StatusOr<ChipLeases::Lease> ChipLeases::Find(const std::string& session) const {
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.session == session) return DescribeLocked(entry);
  }
  return Error(reason::kSessionEnded, absl::StrCat("session '", session, "' has ended"))
      .With("session", session);
}

ChipLeases::Lease ChipLeases::DescribeLocked(const Entry& wanted) const {
  Lease lease;
  lease.chips = wanted.chips;
  std::sort(lease.chips.begin(), lease.chips.end());
  lease.granted = wanted.granted;
  if (wanted.granted) return lease;
  for (const Entry& entry : entries_) {
    if (&entry == &wanted) break;
    if (!entry.granted) ++lease.position;
  }
  return lease;
}

ChipLeases::Entry* ChipLeases::FindLocked(absl::string_view session) {
  for (Entry& entry : entries_) {
    if (entry.session == session) return &entry;
  }
  return nullptr;
}

uint64_t ChipLeases::AddWaiter(const std::string& session, Waiter waiter) {
  {
    MutexLock lock(mutex_);
    Entry* const entry = FindLocked(session);
    if (entry != nullptr && !entry->granted) {
      const uint64_t id = next_waiter_++;
      entry->waiters.emplace_back(id, std::move(waiter));
      return id;
    }
  }
  waiter();
  return 0;
}

void ChipLeases::RemoveWaiter(uint64_t id) {
  std::vector<std::pair<uint64_t, Waiter>> dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  for (Entry& entry : entries_) {
    const auto it = std::find_if(entry.waiters.begin(), entry.waiters.end(),
                                 [id](const auto& waiter) { return waiter.first == id; });
    if (it == entry.waiters.end()) continue;
    dropped.push_back(std::move(*it));
    entry.waiters.erase(it);
    return;
  }
}

void ChipLeases::Release(const std::string& session) {
  std::vector<std::pair<uint64_t, Waiter>> waiters;
  {
    MutexLock lock(mutex_);
    const auto it = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& entry) { return entry.session == session; });
    if (it == entries_.end()) return;
    waiters.swap(it->waiters);
    entries_.erase(it);
    count_.fetch_sub(1, std::memory_order_acq_rel);
  }
  for (const auto& [id, waiter] : waiters) waiter();
  Advance();
}

void ChipLeases::Advance() {
  std::vector<Waiter> tell;
  bool look = false;
  {
    MutexLock lock(mutex_);
    look = AdvanceLocked(&tell) && !looking_;
    if (look) looking_ = true;
  }
  for (const Waiter& waiter : tell) waiter();
  if (!look) return;
  options_.timers->Schedule(options_.clock->NowNanos() + kLookNs, [this] {
    {
      MutexLock lock(mutex_);
      looking_ = false;
    }
    Advance();
  });
}

bool ChipLeases::AdvanceLocked(std::vector<Waiter>* tell) {
  for (Entry& entry : entries_) {
    if (entry.granted) continue;
    for (uint32_t chip = 0; chip < options_.chips && entry.chips.size() < entry.wanted; ++chip) {
      const bool usable = options_.health == nullptr || options_.health->usable(chip);
      if (usable && HolderLocked(chip) == nullptr) entry.chips.push_back(chip);
    }
    // Later requests wait until this one has all its chips.
    if (entry.chips.size() < entry.wanted) return false;
    for (const uint32_t chip : entry.chips) {
      if (UsedLocked(chip, entry)) return true;
    }
    entry.granted = true;
    for (auto& [id, waiter] : entry.waiters) tell->push_back(std::move(waiter));
    entry.waiters.clear();
  }
  return false;
}

bool ChipLeases::UsedLocked(uint32_t chip, const Entry& holder) const {
  for (const Claimed& claim : claims_) {
    const bool may_use = claim.owner == holder.owner && claim.lease == holder.session;
    if (claim.session == holder.session || may_use) continue;
    if (std::find(claim.chips.begin(), claim.chips.end(), chip) != claim.chips.end()) return true;
  }
  // After the claims: a claim is dropped once the engine has accepted its work.
  return options_.busy(chip, holder.session);
}

absl::StatusOr<ChipLeases::Claim> ChipLeases::MakeClaim(absl::Span<const uint32_t> chips,
                                                        const User& user) {
  PTO_RETURN_IF_ERROR(CheckHealth(chips));
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckLocked(chips, user));
  claims_.push_back({{chips.begin(), chips.end()},
                     std::string(user.session),
                     std::string(user.lease),
                     std::string(user.owner)});
  return Claim(this, std::prev(claims_.end()));
}

void ChipLeases::DropClaim(std::list<Claimed>::iterator place) {
  // Waiters check again soon: see Advance.
  MutexLock lock(mutex_);
  claims_.erase(place);
}

size_t ChipLeases::claims() const {
  MutexLock lock(mutex_);
  return claims_.size();
}

const ChipLeases::Entry* ChipLeases::HolderLocked(uint32_t chip) const {
  for (const Entry& entry : entries_) {
    if (std::find(entry.chips.begin(), entry.chips.end(), chip) != entry.chips.end()) {
      return &entry;
    }
  }
  return nullptr;
}

ChipLeases::Holder ChipLeases::HolderOf(uint32_t chip) const {
  if (count_.load(std::memory_order_acquire) == 0) return {};
  MutexLock lock(mutex_);
  const Entry* const holder = HolderLocked(chip);
  if (holder == nullptr) return {};
  return {holder->session, holder->owner};
}

absl::Status ChipLeases::CheckAll(absl::Span<const uint32_t> chips, const User& user) const {
  MutexLock lock(mutex_);
  return CheckLocked(chips, user);
}

absl::Status ChipLeases::CheckLocked(absl::Span<const uint32_t> chips, const User& user) const {
  for (const uint32_t chip : chips) {
    const Entry* const holder = HolderLocked(chip);
    if (holder == nullptr || holder->session == user.session) continue;
    const bool own = holder->owner == user.owner;
    if (own && holder->session == user.lease) continue;
    Error error(reason::kChipLeased,
                absl::StrCat(names::Chip(chip), holder->granted ? " is leased to " : " waits for ",
                             own ? names::Session(holder->session) : "another client"));
    error.With("chip", names::Chip(chip));
    if (own) error.With("lease", names::Session(holder->session));
    return error;
  }
  return absl::OkStatus();
}

}  // namespace pto::daemon
