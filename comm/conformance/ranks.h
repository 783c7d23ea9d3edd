#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "comm/pto_comm.h"

// Runs the same function for every rank of a job, in threads or in processes.
namespace pto::comm {

// A backend for conformance tests.
struct Backend {
  const char* name;  // for pto_comm_options
  bool processes;    // whether its ranks are processes here
  const char* label() const;
};

// The backends that this test program is linked with.
std::vector<Backend> Backends();

// Words that all ranks and the test can see.
struct Blackboard {
  std::atomic<int64_t> cells[64];
};

inline constexpr int64_t kSecond = 1'000'000'000;
// Longer than anything takes on a busy machine; only a hang reaches it.
inline constexpr int64_t kLong = 60 * kSecond;

// A rank's context, and the calls that nearly every test makes.
class Rank {
 public:
  Rank(const Backend& backend, std::string job, uint32_t rank, uint32_t size, Blackboard& board);
  ~Rank();

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }
  Blackboard& board() const { return board_; }

  // With a deadline `nanos` from now.
  pto_comm_options Options(int64_t nanos = kLong) const;
  // Joins, and expects success.
  pto_comm* Join();
  // Creates a window of these ranks, or of all, and expects success.
  pto_comm_window* MakeWindow(uint64_t id, uint64_t bytes, uint32_t signals,
                              const std::vector<uint32_t>& ranks = {});
  pto_comm* comm() const { return comm_; }
  // Drops the communicator, which the test has destroyed.
  void Forget() { comm_ = nullptr; }
  std::string Error() const;

 private:
  const Backend& backend_;
  const std::string job_;
  const uint32_t rank_;
  const uint32_t size_;
  Blackboard& board_;
  pto_comm* comm_ = nullptr;
};

// A name that no other test uses.
std::string UniqueJob();

// The text of the last error of this thread.
std::string ThreadError();

// Runs `body` once for each rank and waits. A failure there fails the test. A rank that kills
// itself with SIGKILL must be in `victims`; ranks that still run after two minutes are killed and
// fail the test.
void RunRanks(const Backend& backend, uint32_t size, const std::function<void(Rank&)>& body,
              const std::vector<uint32_t>& victims = {}, const std::string& job = UniqueJob());

// Kills this process as soon as the calling thread sleeps in a futex wait.
void KillWhenAsleep();

}  // namespace pto::comm
