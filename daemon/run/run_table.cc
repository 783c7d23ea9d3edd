#include "daemon/run/run_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/prefetch.h"

namespace pto::daemon {
namespace {

// Ids that the table chooses: this and a number.
constexpr absl::string_view kOwnPrefix = "r-";

// Ended runs are charged in steps of this size.
constexpr uint64_t kStep = uint64_t{64} << 10;

// What std::make_shared has in front of an object.
constexpr size_t kCounts = 16;

// About what a run takes that has ended.
uint64_t BytesOf(const RunEntry& entry) {
  constexpr uint64_t kEntry = 1024, kLabel = 96, kError = 512;
  const RunRecord& record = entry.record();
  const uint64_t kernels = entry.kernels() == nullptr ? 0 : entry.kernels()->size();
  return kEntry + kLabel * record.labels.size() + kError * record.errors.size() +
         kUsedKernelBytes * kernels;
}

// The number of an id that the table could choose; 0 when it is none.
uint64_t OwnNumber(absl::string_view id) {
  uint64_t number = 0;
  if (!absl::StartsWith(id, kOwnPrefix) ||
      !absl::SimpleAtoi(id.substr(kOwnPrefix.size()), &number) ||
      id != absl::StrCat(kOwnPrefix, number)) {
    return 0;
  }
  return number;
}

}  // namespace

std::shared_ptr<RunEntry> RunTable::Find(absl::string_view id) const {
  if (const uint64_t number = OwnNumber(id); number != 0) {
    auto it = own_.find(number);
    if (it != own_.end()) return it->second;
  }
  // A client may have chosen an id of our form before we came to its number.
  auto it = chosen_.find(std::string(id));
  return it == chosen_.end() ? nullptr : it->second;
}

bool RunTable::IsForgotten(absl::string_view id) const {
  if (Find(id) != nullptr) return false;
  const uint64_t number = OwnNumber(id);
  return (number != 0 && number < next_own_) ||
         (used_ != nullptr && used_->Contains(HashOfRunId(session_, id)));
}

void RunTable::RememberId(absl::string_view id) const {
  if (used_ != nullptr) used_->Add(HashOfRunId(session_, id));
}

void RunTable::RememberIds() const {
  for (const auto& [id, entry] : chosen_) RememberId(id);
}

RunTable::OwnId RunTable::NextOwnId() {
  OwnId own;
  do {
    own.number = next_own_++;
    own.id = absl::StrCat(kOwnPrefix, own.number);
  } while (
      (!chosen_.empty() && chosen_.contains(own.id)) ||
      (own_form_chosen_ && used_ != nullptr && used_->Contains(HashOfRunId(session_, own.id))));
  return own;
}

void RunTable::Add(std::shared_ptr<RunEntry> entry) {
  entry->next_active_ = active_;
  if (active_ != nullptr) active_->previous_active_ = entry.get();
  active_ = entry.get();
  if (entry->own_number() != 0) {
    own_.emplace(entry->own_number(), std::move(entry));
  } else {
    const std::string& id = entry->record().id;
    own_form_chosen_ = own_form_chosen_ || OwnNumber(id) != 0;
    chosen_.emplace(id, std::move(entry));
  }
}

std::vector<std::unique_ptr<KeptGraph>> RunTable::OnEnded(RunEntry& entry) {
  (entry.previous_active_ != nullptr ? entry.previous_active_->next_active_ : active_) =
      entry.next_active_;
  if (entry.next_active_ != nullptr) entry.next_active_->previous_active_ = entry.previous_active_;
  const Ended ended = {&entry, entry.own_number(), BytesOf(entry)};
  ended_.push_back(ended);
  ended_bytes_ += ended.bytes;
  if (const uint64_t bytes = entry.kept_bytes_.load(std::memory_order_relaxed); bytes > 0) {
    kept_.push_back({&entry, bytes});
    kept_bytes_ += bytes;
  }
  std::vector<std::unique_ptr<KeptGraph>> dropped;
  while (kept_bytes_ > max_kept_bytes_) dropped.push_back(DropFirstKept());
  while (ended_.size() > max_ended_ || (!Cover() && ended_.size() > kMinEnded)) {
    // Events may have the entry longer.
    if (!kept_.empty() && kept_.front().entry == ended_.front().entry) {
      dropped.push_back(DropFirstKept());
    }
    ForgetFirst();
  }
  return dropped;
}

bool RunTable::Cover() {
  if (ended_bytes_ <= charge_.bytes() ||
      charge_.TryResize((ended_bytes_ + kStep - 1) / kStep * kStep)) {
    return true;
  }
  if (ended_.size() <= kMinEnded) charge_.ForceResize(ended_bytes_);
  return false;
}

std::unique_ptr<KeptGraph> RunTable::DropFirstKept() {
  std::unique_ptr<KeptGraph> kept = kept_.front().entry->TakeKeptGraph();
  kept_bytes_ -= kept_.front().bytes;
  kept_.pop_front();
  return kept;
}

std::vector<std::unique_ptr<KeptGraph>> RunTable::DropKept(uint64_t bytes) {
  std::vector<std::unique_ptr<KeptGraph>> dropped;
  for (uint64_t freed = 0; freed < bytes && !kept_.empty();) {
    freed += kept_.front().bytes;
    dropped.push_back(DropFirstKept());
  }
  return dropped;
}

void RunTable::ForgetFirst() {
  const Ended first = ended_.front();
  ended_.pop_front();
  ended_bytes_ -= first.bytes;
  // What the next call changes: the place of the run in the map, and its count of references, which
  // is in front of it.
  if (!ended_.empty()) {
    const auto* const entry = reinterpret_cast<const char*>(ended_.front().entry);
    Prefetch(entry - kCounts, kCounts);
    own_.prefetch(ended_.front().own_number);
  }
  if (first.own_number != 0) {
    own_.erase(first.own_number);
    return;
  }
  const std::string id = first.entry->record().id;
  chosen_.erase(id);
  RememberId(id);
}

template <typename Visitor>
void RunTable::ForEach(Visitor visitor) const {
  for (const auto& [number, entry] : own_) visitor(entry);
  for (const auto& [id, entry] : chosen_) visitor(entry);
}

std::vector<std::shared_ptr<RunEntry>> RunTable::List(uint64_t before, size_t limit,
                                                      bool active_only) const {
  std::vector<std::shared_ptr<RunEntry>> found;
  ForEach([&](const std::shared_ptr<RunEntry>& entry) {
    if (before != 0 && entry->number() >= before) return;
    if (active_only && entry->ended()) return;
    found.push_back(entry);
  });
  const auto newer = [](const auto& a, const auto& b) { return a->number() > b->number(); };
  const size_t count = std::min(limit, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<ptrdiff_t>(count), found.end(),
                    newer);
  found.resize(count);
  return found;
}

std::vector<std::shared_ptr<RunEntry>> RunTable::Active() const {
  std::vector<std::shared_ptr<RunEntry>> active;
  for (RunEntry* entry = active_; entry != nullptr; entry = entry->next_active_) {
    active.push_back(entry->shared_from_this());
  }
  return active;
}

}  // namespace pto::daemon
