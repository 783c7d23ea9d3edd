#include "runtime/host/host_supervisor.h"

#include <pthread.h>

#include <utility>

namespace pto::host {

HostSupervisor::~HostSupervisor() {
  MutexLock lock(mutex_);
  for (const std::unique_ptr<Entry>& entry : entries_) entry->keeper->Stop();
  for (const std::unique_ptr<Entry>& entry : entries_) entry->thread.join();
}

std::shared_ptr<HostKeeper> HostSupervisor::Start(HostOptions options) {
  auto keeper = std::make_shared<HostKeeper>(std::move(options));
  auto entry = std::make_unique<Entry>();
  Entry& started = *entry;
  started.keeper = keeper;
  started.thread = std::thread([&started] {
    started.keeper->Run();
    started.ended.store(true, std::memory_order_release);
  });
  pthread_setname_np(started.thread.native_handle(), "kernel-host");
  MutexLock lock(mutex_);
  Sweep();
  entries_.push_back(std::move(entry));
  return keeper;
}

std::vector<HostStatus> HostSupervisor::List() {
  MutexLock lock(mutex_);
  Sweep();
  std::vector<HostStatus> all;
  for (const std::unique_ptr<Entry>& entry : entries_) all.push_back(entry->keeper->status());
  return all;
}

void HostSupervisor::Sweep() {
  std::erase_if(entries_, [](const std::unique_ptr<Entry>& entry) {
    if (!entry->ended.load(std::memory_order_acquire)) return false;
    entry->thread.join();
    return true;
  });
}

}  // namespace pto::host
