#include "daemon/auth/open_calls.h"

#include <pthread.h>

#include <utility>
#include <vector>

namespace pto::daemon::auth {

OpenCalls::Stay::Stay(OpenCalls& owner, Call call)
    : owner_(owner), state_(std::make_shared<State>()) {
  {
    MutexLock lock(state_->mutex);
    state_->call = std::move(call);
  }
  MutexLock lock(owner_.mutex_);
  id_ = owner_.next_id_++;
  owner_.open_.emplace(id_, state_);
  if (!owner_.asleep_) return;
  owner_.asleep_ = false;
  if (owner_.thread_.joinable()) {
    owner_.changed_.NotifyOne();
  } else {
    owner_.thread_ = std::thread([calls = &owner_] { calls->Loop(); });
  }
}

OpenCalls::Stay::~Stay() {
  {
    MutexLock lock(owner_.mutex_);
    owner_.open_.erase(id_);
  }
  Call dropped;  // destroyed without the lock
  MutexLock lock(state_->mutex);
  std::swap(dropped, state_->call);
}

OpenCalls::OpenCalls(std::chrono::nanoseconds interval)
    : interval_(interval), asleep_(interval > std::chrono::nanoseconds(0)) {}

OpenCalls::~OpenCalls() {
  std::thread thread;
  {
    MutexLock lock(mutex_);
    stops_ = true;
    thread = std::move(thread_);
  }
  changed_.NotifyOne();
  if (thread.joinable()) thread.join();
}

void OpenCalls::AskAll() {
  std::vector<std::shared_ptr<Stay::State>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, state] : open_) all.push_back(state);
  }
  for (const std::shared_ptr<Stay::State>& state : all) {
    MutexLock lock(state->mutex);
    if (state->call.admitted == nullptr || state->call.admitted()) continue;
    state->call.end();
    state->call = Call();
  }
}

void OpenCalls::Loop() {
  pthread_setname_np(pthread_self(), "open_calls");
  MutexLock lock(mutex_);
  while (!stops_) {
    // Calls that come and go at a high rate must not wake it each time.
    changed_.WaitFor(mutex_, interval_);
    if (open_.empty() && !stops_) {
      asleep_ = true;
      while (asleep_ && !stops_) changed_.Wait(mutex_);
      continue;
    }
    mutex_.Unlock();
    AskAll();
    mutex_.Lock();
  }
}

}  // namespace pto::daemon::auth
