#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/internal/broker_link.h"
#include "pto/v1/session.pb.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// The state that the objects of one session share: its name, and whether it is lost. Thread-safe.
class SessionState {
 public:
  // `broker` is nullptr if all transfers use gRPC.
  explicit SessionState(v1::Session info, std::shared_ptr<BrokerLink> broker = nullptr)
      : info_(std::move(info)), broker_(std::move(broker)) {}
  SessionState(const SessionState&) = delete;
  SessionState& operator=(const SessionState&) = delete;

  const v1::Session& info() const { return info_; }
  const std::string& name() const { return info_.name(); }
  const std::string& boot_id() const { return info_.boot_id(); }
  // For mapping its buffers; nullptr if there is none.
  const std::shared_ptr<BrokerLink>& broker() const { return broker_; }

  // OK, or why the session cannot be used any more. A single load in the normal case.
  absl::Status status() const {
    if (!lost_.load(std::memory_order_acquire)) return absl::OkStatus();
    MutexLock lock(mutex_);
    return why_;
  }

  // Makes status() return `why` from now on. The first reason is kept.
  void Lose(absl::Status why) {
    MutexLock lock(mutex_);
    if (!why_.ok()) return;
    why_ = std::move(why);
    lost_.store(true, std::memory_order_release);
  }

 private:
  const v1::Session info_;
  const std::shared_ptr<BrokerLink> broker_;
  std::atomic<bool> lost_{false};
  mutable Mutex mutex_;
  absl::Status why_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::internal
