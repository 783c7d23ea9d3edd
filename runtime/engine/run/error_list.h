#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace pto::engine {

// The errors of a run, ordered by time. The first ones are listed with the run as long as it is
// known; the others wait until they are taken. Not thread-safe.
class ErrorList {
 public:
  // The first error and sixteen more. AddListed may add to these.
  static constexpr size_t kListed = 17;
  // At most this many unlisted errors wait; further ones are only counted.
  static constexpr size_t kMostWaiting = 8192;

  void Add(absl::Status error);
  // Adds an error that is always listed. Returns its index in the list.
  size_t AddListed(absl::Status error);

  const std::vector<absl::Status>& listed() const { return listed_; }
  // For replacing an error by a more detailed one.
  absl::Status& at(size_t place) { return listed_[place]; }
  // The number of errors that are not listed.
  uint64_t unlisted() const { return unlisted_; }
  // Takes the unlisted errors that wait.
  std::vector<absl::Status> TakeUnlisted();

 private:
  std::vector<absl::Status> listed_;
  std::vector<absl::Status> waiting_;
  uint64_t unlisted_ = 0;
};

}  // namespace pto::engine
