#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Does what takes long with kernels, such as loading them, in threads of its own. Jobs of one
// session run one after the other, in their order; a client that keeps its threads busy leaves some
// to others. Thread-safe.
class LoadQueue {
 public:
  struct Options {
    size_t threads = 16;
    size_t threads_of_client = 4;
    // Starts a thread; throws std::system_error if the machine has none.
    std::function<std::thread(std::function<void()>)> start = [](std::function<void()> run) {
      return std::thread(std::move(run));
    };
  };

  LoadQueue() : LoadQueue(Options()) {}
  explicit LoadQueue(const Options& options) : options_(options) {}
  ~LoadQueue() { Stop(); }
  LoadQueue(const LoadQueue&) = delete;
  LoadQueue& operator=(const LoadQueue&) = delete;

  // Waits for jobs that have begun. Those that have not are dropped, and so are those that come
  // later.
  void Stop();

  // `session` is only compared. Returns false if the machine has no thread for it: the work is
  // dropped.
  bool Add(const void* session, const std::string& client, std::function<void()> work);

 private:
  struct Job {
    const void* session = nullptr;
    std::string client;
    std::function<void()> work;
  };

  void Work();
  void Hire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the first job that may run now. Returns false if there is none.
  bool Take(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  // Sessions that have a job running, and how many each client has.
  absl::flat_hash_set<const void*> busy_sessions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, size_t> busy_clients_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
