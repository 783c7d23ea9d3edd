#include "daemon/journal/run_ids.h"

#include <algorithm>

// All of it is in the header.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pto::daemon {
namespace {

// Into so many generations the ids are divided, by their number and by time. So there are at most
// about twice as many, and a number is used again only long after all its ids were swept.
constexpr size_t kParts = 64;
constexpr size_t kMaxGenerations = 160;
constexpr size_t kSweptAtOnce = 4;

}  // namespace

uint64_t HashOfRunId(absl::string_view session, absl::string_view run) {
  const uint64_t seed = XXH3_64bits(session.data(), session.size());
  const uint64_t hash = XXH3_64bits_withSeed(run.data(), run.size(), seed);
  return hash == 0 ? 1 : hash;
}

size_t RunIds::MaxIds(uint64_t journal_bytes) {
  constexpr uint64_t kMostIds = uint64_t{8} << 20;
  return static_cast<size_t>(std::min(journal_bytes / 8 / sizeof(uint64_t), kMostIds));
}

bool RunIds::IsKept(uint64_t entry) const {
  return static_cast<uint8_t>(static_cast<uint8_t>(entry) - first_) < generations_.size();
}

void RunIds::Add(uint64_t hash, absl::Duration age) {
  MutexLock lock(mutex_);
  const int64_t now_ns = options_.clock->NowNanos();
  const int64_t ended_ns = now_ns - absl::ToInt64Nanoseconds(age);
  const int64_t part_ns = absl::ToInt64Nanoseconds(options_.max_age) / kParts;
  if (generations_.empty() ||
      generations_.back().ids >= std::max<size_t>(options_.max_ids / kParts, 1) ||
      ended_ns - generations_.back().begin_ns > part_ns) {
    BeginGeneration(ended_ns);
  }
  Generation& generation = generations_.back();
  generation.newest_ns = std::max(generation.newest_ns, ended_ns);
  const auto number = static_cast<uint8_t>(first_ + generations_.size() - 1);
  const uint64_t entry = (hash & ~uint64_t{0xff}) | number;
  Set& set = sets_[hash & 0xff];
  if (const auto it = set.find(entry); it != set.end()) {
    if (IsKept(*it)) {
      --generations_[static_cast<uint8_t>(static_cast<uint8_t>(*it) - first_)].ids;
      --ids_;
    }
    set.erase(it);
  }
  set.insert(entry);
  ++generation.ids;
  ++ids_;
  ForgetOld(now_ns);
}

bool RunIds::Contains(uint64_t hash) const {
  MutexLock lock(mutex_);
  const Set& set = sets_[hash & 0xff];
  const auto it = set.find(hash & ~uint64_t{0xff});
  return it != set.end() && IsKept(*it);
}

size_t RunIds::size() const {
  MutexLock lock(mutex_);
  return ids_;
}

void RunIds::BeginGeneration(int64_t now_ns) {
  generations_.push_back({now_ns, now_ns, 0});
  for (size_t i = 0; i < kSweptAtOnce; ++i) {
    absl::erase_if(sets_[sweep_], [&](uint64_t entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !IsKept(entry);
    });
    sweep_ = (sweep_ + 1) % sets_.size();
  }
}

void RunIds::ForgetOld(int64_t now_ns) {
  const int64_t max_age_ns = absl::ToInt64Nanoseconds(options_.max_age);
  while (generations_.size() > 1) {
    const Generation& oldest = generations_.front();
    if (ids_ <= options_.max_ids && generations_.size() <= kMaxGenerations &&
        now_ns - oldest.newest_ns <= max_age_ns) {
      return;
    }
    ids_ -= oldest.ids;
    generations_.pop_front();
    ++first_;
  }
}

}  // namespace pto::daemon
