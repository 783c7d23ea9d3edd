#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "tests/soak/kinds.h"
#include "tests/soak/visit.h"

namespace pto::soak {

// All clients: threads that execute one round after the other until they are told to stop. Used by
// one thread.
class Crew {
 public:
  Crew(Place& place, int clients, uint64_t seed);
  ~Crew() { Stop(absl::ZeroDuration()); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // The clients whose current round takes longer than `longest`, and how long.
  std::vector<std::string> StuckFor(absl::Duration longest) const;

  // Lets them finish their rounds; returns false if some have not within `timeout`. Hanging threads
  // are abandoned.
  bool Stop(absl::Duration timeout);

 private:
  struct Member {
    const Kind* kind = nullptr;
    std::thread thread;
    std::atomic<uint64_t> seed{0};     // of the round
    std::atomic<int64_t> began_ns{0};  // 0: between rounds
    std::atomic<bool> gone{false};
  };

  void Live(Member& member, uint64_t seed);

  Place& place_;
  std::vector<std::unique_ptr<Member>> members_;
};

// Whether clients must expect this error while calls are lost and the daemon is restarted.
bool IsExpected(const absl::Status& error);

}  // namespace pto::soak
