#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace pto {

// The errors of a run in order of time. The first ones are listed with the run, for as long as it
// is known; the others wait until somebody takes them. Not thread-safe.
class ErrorList {
 public:
  // The first error and sixteen more, and what is added by AddListed.
  static constexpr size_t kListed = 17;
  // Beyond those that are listed so many wait at most; what comes then is counted only. Twice as
  // many as there are records when somebody is told to come for them.
  static constexpr size_t kMostWaiting = 8192;

  void Add(absl::Status error);
  // Adds one that is listed in any case, beside so many others. Returns its place in the list.
  size_t AddListed(absl::Status error);

  const std::vector<absl::Status>& listed() const { return listed_; }
  // To be replaced by one that says more of the same.
  absl::Status& at(size_t place) { return listed_[place]; }
  // How many there were beyond those that are listed.
  uint64_t unlisted() const { return unlisted_; }
  // Takes those that wait.
  std::vector<absl::Status> TakeUnlisted();

 private:
  std::vector<absl::Status> listed_;
  std::vector<absl::Status> waiting_;
  uint64_t unlisted_ = 0;
};

}  // namespace pto
