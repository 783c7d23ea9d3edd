#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"

namespace pto::engine::testing {

// Watches an engine with executors, from a thread of its own, for what must hold all the time:
// - tasks do not wait for nothing but a thread while an executor sleeps,
// - cores do not stand idle for a reservation for longer than its patience.
// A state counts when it has lasted for a second in which no task of the chip has ended: a machine
// may be busy. The engine needs timers that run. Must end before the engine does.
class EngineWatch {
 public:
  explicit EngineWatch(const Engine& engine);
  ~EngineWatch();
  EngineWatch(const EngineWatch&) = delete;
  EngineWatch& operator=(const EngineWatch&) = delete;

  // What was wrong first; empty when nothing was.
  std::string complaint();

 private:
  void Loop();
  void Complain(std::string what);

  const Engine& engine_;
  std::atomic<bool> stop_{false};
  Mutex mutex_;
  std::string complaint_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace pto::engine::testing
