#pragma once

#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "runtime/engine/snapshot/engine_now.h"

namespace pto {

// Since when nothing of a run has begun or ended. Knows it from looking at the engine now and then,
// so that running a task costs nothing for it. Not thread-safe.
class Progress {
 public:
  // Compares with what was seen before.
  void See(const EngineNow& now);

  // For how long, at the time of the last See, nothing had happened; 0 for a run that was not in
  // it.
  int64_t IdleNanos(const Run* run) const;
  // Whether this was not asked before since something happened.
  bool TakeNews(const Run* run);

 private:
  struct Entry {
    std::weak_ptr<const Run> run;
    uint64_t trace = 0;  // changes when something happens
    int64_t since_ns = 0;
    int64_t idle_ns = 0;
    bool taken = false;
    bool seen = false;
  };

  absl::flat_hash_map<const Run*, Entry> entries_;
};

}  // namespace pto
