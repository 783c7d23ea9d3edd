#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "runtime/engine/snapshot/engine_now.h"

namespace pto::daemon {

// Since when no task of a run has begun or ended. Derived from snapshots of the engine, so that
// running a task has no extra cost. Not thread-safe.
class Progress {
 public:
  // Compares a snapshot with the previous one.
  void See(const engine::EngineNow& now);

  // How long nothing had happened at the time of the last See; 0 for a run that was not in the
  // snapshot.
  int64_t IdleNanos(const engine::Run* run) const;
  // True on the first call after something has happened.
  bool TakeNews(const engine::Run* run);

 private:
  struct Entry {
    std::weak_ptr<const engine::Run> run;
    uint64_t trace = 0;  // changes when something happens
    int64_t since_ns = 0;
    int64_t idle_ns = 0;
    bool taken = false;
    bool seen = false;
  };

  absl::flat_hash_map<const engine::Run*, Entry> entries_;
};

}  // namespace pto::daemon
