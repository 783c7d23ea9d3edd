#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/base/mutex.h"

namespace pto::soak {

// What all clients have done, and what went wrong. Thread-safe.
class Tally {
 public:
  std::atomic<uint64_t> rounds{0};     // lives of clients
  std::atomic<uint64_t> calls{0};      // that were made until they were answered
  std::atomic<uint64_t> repeated{0};   // calls that were made once more
  std::atomic<uint64_t> runs{0};       // of which the end is known
  std::atomic<uint64_t> cancelled{0};  // of them
  std::atomic<uint64_t> checks{0};     // results that were compared with what they must be
  std::atomic<uint64_t> bytes{0};      // written and read
  std::atomic<uint64_t> events{0};
  std::atomic<uint64_t> dropped_events{0};
  std::atomic<uint64_t> killed_clients{0};

  // An error that a client must expect while calls are lost and the daemon is restarted.
  void Expected(const absl::Status& error);
  // Any other: the soak has failed.
  void Fail(absl::string_view kind, const absl::Status& error);
  void Fail(absl::string_view text);

  // Expected errors by reason, or by code where there is none.
  std::map<std::string, uint64_t> expected() const;
  uint64_t failures() const { return failures_.load(); }
  // The first ones.
  std::vector<std::string> first_failures() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, uint64_t> expected_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> first_failures_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> failures_{0};
};

}  // namespace pto::soak
