#include "runtime/engine/exec/blocking_pool.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "runtime/base/log.h"

namespace pto::engine {

BlockingPool::~BlockingPool() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void BlockingPool::Run(Job job) {
  MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  if (jobs_.size() <= idle_) {
    changed_.NotifyOne();
    return;
  }
  try {
    threads_.emplace_back([this] {
      pthread_setname_np(pthread_self(), "blocking");
      Loop();
    });
  } catch (const std::system_error&) {
    // The machine has no more: the job waits for a thread that is there.
    PTO_CHECK(!threads_.empty(), "there is no thread for a kernel that blocks");
  }
}

void BlockingPool::Loop() {
  while (true) {
    Job job;
    {
      MutexLock lock(mutex_);
      ++idle_;
      while (jobs_.empty() && !stopping_) changed_.Wait(mutex_);
      --idle_;
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace pto::engine
