#include "runtime/engine/run/error_list.h"

#include <utility>

namespace pto::engine {

void ErrorList::Add(absl::Status error) {
  if (listed_.size() < kListed) {
    listed_.push_back(std::move(error));
    return;
  }
  ++unlisted_;
  if (waiting_.size() < kMostWaiting) waiting_.push_back(std::move(error));
}

size_t ErrorList::AddListed(absl::Status error) {
  listed_.push_back(std::move(error));
  return listed_.size() - 1;
}

std::vector<absl::Status> ErrorList::TakeUnlisted() { return std::exchange(waiting_, {}); }

}  // namespace pto::engine
