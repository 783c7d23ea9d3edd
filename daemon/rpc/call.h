#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "daemon/rpc/call_observer.h"
#include "daemon/rpc/chaos.h"
#include "daemon/rpc/tag.h"
#include "runtime/base/ticks.h"

namespace pto::daemon::rpc::internal {

// Counts what is alive in a server: calls, requests for calls, and running handlers. The server's
// completion queue may be shut down only at zero.
class LiveCount {
 public:
  void Add() { count_.fetch_add(1, std::memory_order_relaxed); }
  // A call must not use its server after this.
  void Remove() { count_.fetch_sub(1, std::memory_order_release); }
  int64_t value() const { return count_.load(std::memory_order_acquire); }

 private:
  std::atomic<int64_t> count_{0};
};

// Keeps the server up while it exists.
class Alive {
 public:
  explicit Alive(LiveCount& count) : count_(count) { count_.Add(); }
  ~Alive() { count_.Remove(); }
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;

 private:
  LiveCount& count_;
};

// One method of one service, as the server sees it. Owned by the server, and outlives its calls.
class Method {
 public:
  explicit Method(LiveCount& live) : live_(live) {}
  virtual ~Method() = default;
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;

  // Requests one more call from gRPC.
  virtual void Arm() = 0;

  LiveCount& live() { return live_; }

  // Must be called before the first call. The observer may be nullptr and must outlive the calls.
  void Observe(CallObserver* observer, absl::string_view name) {
    name_ = std::string(name);
    observer_ = observer;
    if (observer != nullptr) number_ = observer->AddMethod(name);
  }
  // The start time that a call passes to Ended; 0 without an observer.
  uint64_t Now() const { return observer_ == nullptr ? 0 : Ticks(); }
  void Ended(const absl::Status& status, uint64_t began) const {
    if (observer_ != nullptr) observer_->OnEnd(number_, status, Ticks() - began);
  }

  // The action of a failpoint for a call at this place.
  FailAction Chaos(ChaosPlace place) const { return internal::Chaos(place, name_); }

 private:
  LiveCount& live_;
  std::string name_;
  CallObserver* observer_ = nullptr;
  uint32_t number_ = 0;
};

}  // namespace pto::daemon::rpc::internal
