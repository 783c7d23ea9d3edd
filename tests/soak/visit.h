#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "tests/soak/remembered.h"
#include "tests/soak/tally.h"

namespace pto::soak {

// The daemon of all clients, and their shared state.
struct Place {
  std::string address;
  uint32_t chips = 2;
  // For sessions that are not closed.
  absl::Duration ttl = absl::Seconds(10);
  Tally* tally = nullptr;
  Remembered* remembered = nullptr;
  // No new round begins, and long ones end early.
  std::atomic<bool> stopping{false};
};

// For rounds that repeatedly add to a number: a session and, on one chip, `one`, which is all ones,
// and `sum`, which is initially all zeros.
struct Adding {
  Client client;
  Session session;
  Tensor<float> one;
  Tensor<float> sum;
};

// A call that takes longer is stuck.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(30);

// One life of a client: the input of its round. For one thread.
class Visit {
 public:
  Visit(Place& place, uint64_t seed) : place_(place), random_(seed) {}
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  const Place& place() const { return place_; }
  Tally& tally() { return *place_.tally; }
  void Remember(const std::string& run) { place_.remembered->Add(run); }

  uint64_t Below(uint64_t bound) {
    return std::uniform_int_distribution<uint64_t>(0, bound - 1)(random_);
  }
  bool OneIn(uint64_t chances) { return Below(chances) == 0; }
  uint32_t AnyChip() { return static_cast<uint32_t>(Below(place_.chips)); }

  absl::StatusOr<Client> Connect(bool broker = true);
  absl::StatusOr<Session> CreateSession(Client& client);
  // Begins a round with tensors of `count` elements, on any chip.
  absl::StatusOr<Adding> BeginAdding(int64_t count);

  // Repeats a call until it is answered: the daemon refuses some calls and loses others. For
  // idempotent calls. Records calls that take too long.
  template <typename F>
  auto Insist(const F& call) {
    constexpr int kMost = 100;
    constexpr absl::Duration kPause = absl::Milliseconds(20);
    // The allowance beyond the timeout, for the client to give up.
    constexpr absl::Duration kSlack = absl::Seconds(10);
    for (int i = 0;; ++i) {
      const absl::Time start = absl::Now();
      auto result = call();
      const absl::Duration took = absl::Now() - start;
      if (took > 2 * kCallTimeout + kSlack) {
        tally().Fail(absl::StrCat("a call took ", absl::FormatDuration(took)));
      }
      ++tally().calls;
      if (!absl::IsUnavailable(StatusIn(result)) || i == kMost || place_.stopping) return result;
      ++tally().repeated;
      absl::SleepFor(kPause);
    }
  }

  // Waits for the end of a run; OK if it SUCCEEDED.
  absl::Status Finish(const Run& run);

  // DATA_LOSS with both values unless they are equal. Counts the check.
  template <typename T>
  absl::Status Same(absl::string_view what, const T& have, const T& want) {
    ++tally().checks;
    if (have == want) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(what, " is ", have, " instead of ", want));
  }

 private:
  static absl::Status StatusIn(const absl::Status& status) { return status; }
  template <typename T>
  static absl::Status StatusIn(const absl::StatusOr<T>& result) {
    return result.status();
  }

  Place& place_;
  std::mt19937_64 random_;
};

// DATA_LOSS that names the first element that differs from `want`.
template <typename T>
absl::Status ExpectAll(Visit& visit, absl::string_view what, const std::vector<T>& have,
                       const T& want) {
  ++visit.tally().checks;
  for (size_t i = 0; i < have.size(); ++i) {
    if (have[i] == want) continue;
    return absl::DataLossError(absl::StrCat(what, "[", i, "] is ", have[i], " instead of ", want));
  }
  return absl::OkStatus();
}

}  // namespace pto::soak
