#include "client/testing/call_gate.h"

#include <chrono>
#include <utility>

#include "client/internal/deadline.h"

namespace pto::testing {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);

}  // namespace

grpc::Status CallGate::Enter(const grpc::ServerContextBase& context, const std::string& rpc) {
  MutexLock lock(mutex_);
  ++calls_[rpc];
  peers_[rpc].insert(context.peer());
  changed_.NotifyAll();
  while (hanging_.contains(rpc) && !released_) changed_.Wait(mutex_);
  const auto failing = failing_.find(rpc);
  if (failing == failing_.end()) return grpc::Status::OK;
  grpc::Status status = std::move(failing->second);
  failing_.erase(failing);
  return status;
}

void CallGate::Hang(const std::string& rpc) {
  MutexLock lock(mutex_);
  hanging_.insert(rpc);
  released_ = false;
}

void CallGate::Release() {
  MutexLock lock(mutex_);
  released_ = true;
  changed_.NotifyAll();
}

void CallGate::FailNext(const std::string& rpc, grpc::Status status) {
  MutexLock lock(mutex_);
  failing_[rpc] = std::move(status);
}

int CallGate::calls(const std::string& rpc) const {
  MutexLock lock(mutex_);
  const auto it = calls_.find(rpc);
  return it == calls_.end() ? 0 : it->second;
}

bool CallGate::WaitForCalls(const std::string& rpc, int count) {
  const internal::Deadline deadline = internal::Deadline::After(kLong);
  MutexLock lock(mutex_);
  while (calls_[rpc] < count) {
    if (deadline.Passed()) return false;
    changed_.WaitFor(mutex_, absl::ToChronoNanoseconds(deadline.Remaining()));
  }
  return true;
}

std::set<std::string> CallGate::peers(const std::string& rpc) const {
  MutexLock lock(mutex_);
  const auto it = peers_.find(rpc);
  return it == peers_.end() ? std::set<std::string>() : it->second;
}

}  // namespace pto::testing
