#include "daemon/kernels/load_queue.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "runtime/base/log.h"

namespace pto::daemon {

void LoadQueue::Stop() {
  std::vector<std::thread> threads;
  std::list<Job> dropped;
  {
    MutexLock lock(mutex_);
    stop_ = true;
    threads.swap(threads_);
    dropped.swap(jobs_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

bool LoadQueue::Add(const void* session, const std::string& client, std::function<void()> work) {
  MutexLock lock(mutex_);
  if (stop_) return true;
  if (idle_ <= jobs_.size() && threads_.size() < options_.threads) Hire();
  // Those that there are do it later.
  if (threads_.empty()) return false;
  jobs_.push_back({session, client, std::move(work)});
  changed_.NotifyAll();
  return true;
}

void LoadQueue::Hire() {
  try {
    threads_.push_back(options_.start([this] { Work(); }));
  } catch (const std::system_error& error) {
    PTO_LOG(kWarning, "no thread to load kernels", {{"error", error.what()}});
    return;
  }
  pthread_setname_np(threads_.back().native_handle(), "kernel-loader");
}

bool LoadQueue::Take(Job* job) {
  for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
    if (busy_sessions_.contains(it->session)) continue;
    const auto client = busy_clients_.find(it->client);
    if (client != busy_clients_.end() && client->second >= options_.threads_of_client) continue;
    *job = std::move(*it);
    jobs_.erase(it);
    return true;
  }
  return false;
}

void LoadQueue::Work() {
  while (true) {
    Job job;
    {
      MutexLock lock(mutex_);
      while (!stop_ && !Take(&job)) {
        ++idle_;
        changed_.Wait(mutex_);
        --idle_;
      }
      if (stop_) return;
      busy_sessions_.insert(job.session);
      ++busy_clients_[job.client];
    }
    job.work();
    // What it owns goes without the lock, and before the next job of the session begins.
    job.work = nullptr;
    MutexLock lock(mutex_);
    busy_sessions_.erase(job.session);
    const auto client = busy_clients_.find(job.client);
    if (--client->second == 0) busy_clients_.erase(client);
    changed_.NotifyAll();
  }
}

}  // namespace pto::daemon
