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

// Counts the work of all clients, and their failures. Thread-safe.
class Tally {
 public:
  std::atomic<uint64_t> rounds{0};     // client lives
  std::atomic<uint64_t> calls{0};      // calls that were answered
  std::atomic<uint64_t> repeated{0};   // repeated calls
  std::atomic<uint64_t> runs{0};       // with a known end
  std::atomic<uint64_t> cancelled{0};  // cancelled runs among them
  std::atomic<uint64_t> checks{0};     // results that were checked
  std::atomic<uint64_t> bytes{0};      // written and read
  std::atomic<uint64_t> events{0};
  std::atomic<uint64_t> dropped_events{0};
  std::atomic<uint64_t> killed_clients{0};

  // An error that a client must expect while calls are lost and the daemon is restarted.
  void Expected(const absl::Status& error);
  // Any other error: the soak has failed.
  void Fail(absl::string_view kind, const absl::Status& error);
  void Fail(absl::string_view text);

  // Expected errors by reason, or by code if there is no reason.
  std::map<std::string, uint64_t> expected() const;
  uint64_t failures() const { return failures_.load(); }
  // The first few failures.
  std::vector<std::string> first_failures() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, uint64_t> expected_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> first_failures_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> failures_{0};
};

}  // namespace pto::soak
