#include "daemon/rpc/outages.h"

#include <algorithm>

namespace pto::daemon::rpc {

void Outages::Began(int64_t since_ns) {
  MutexLock lock(mutex_);
  if (open_since_ns_ == 0) open_since_ns_ = since_ns;
}

void Outages::Ended(int64_t now_ns) {
  MutexLock lock(mutex_);
  if (open_since_ns_ == 0) return;
  Remember(open_since_ns_, now_ns + kGraceNs);
  open_since_ns_ = 0;
}

void Outages::NoteTimer(int64_t due_ns, int64_t now_ns) {
  if (now_ns - due_ns <= kLateNs) return;
  MutexLock lock(mutex_);
  Remember(due_ns, now_ns + kGraceNs);
}

void Outages::Remember(int64_t from_ns, int64_t to_ns) {
  // Together with what it touches, so that no time counts twice.
  while (!past_.empty() && past_.back().second >= from_ns) {
    from_ns = std::min(from_ns, past_.back().first);
    to_ns = std::max(to_ns, past_.back().second);
    past_.pop_back();
  }
  past_.emplace_back(from_ns, to_ns);
  if (past_.size() > kRemembered) past_.pop_front();
}

int64_t Outages::Since(int64_t since_ns, int64_t now_ns) const {
  MutexLock lock(mutex_);
  int64_t total = 0;
  for (const auto& [from, to] : past_) {
    total += std::max<int64_t>(0, to - std::max(from, since_ns));
  }
  if (open_since_ns_ != 0) {
    total += std::max<int64_t>(0, now_ns + kGraceNs - std::max(open_since_ns_, since_ns));
  }
  return total;
}

}  // namespace pto::daemon::rpc
