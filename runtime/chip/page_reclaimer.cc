#include "runtime/chip/page_reclaimer.h"

#include <fcntl.h>
#include <pthread.h>

#include <cerrno>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/mutex.h"

namespace pto::engine {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct File {
  FileDescriptor descriptor;
  uint64_t bytes = 0;
  std::function<void()> done;
};

}  // namespace

// The state that the threads share. A thread is busy with a file or free. While any thread is busy,
// a free thread only watches: it takes a file when no file has been taken for too long.
class PageReclaimer::Crew : public std::enable_shared_from_this<Crew> {
 public:
  explicit Crew(Options options) : options_(std::move(options)) {}

  void Add(File file) {
    MutexLock lock(mutex_);
    files_.push_back(std::move(file));
    ++pending_;
    NeedFree();
  }

  // No more files will come.
  void End() {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }

  size_t pending() const {
    MutexLock lock(mutex_);
    return pending_;
  }
  size_t threads() const {
    MutexLock lock(mutex_);
    return threads_;
  }

  bool AwaitNone(std::chrono::nanoseconds timeout) {
    const SteadyClock::time_point until = SteadyClock::now() + timeout;
    MutexLock lock(mutex_);
    // There may be files for which no thread could be started.
    if (!files_.empty()) NeedFree();
    while (pending_ > 0) {
      const SteadyClock::time_point now = SteadyClock::now();
      if (now >= until) return false;
      changed_.WaitFor(mutex_, until - now);
    }
    return true;
  }

 private:
  // A file is waiting, so a free thread is needed.
  void NeedFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (threads_ > busy_) {
      changed_.NotifyAll();
      return;
    }
    if (threads_ >= options_.max_threads) return;
    try {
      std::thread([crew = shared_from_this()] { crew->Work(); }).detach();
      ++threads_;
    } catch (const std::system_error& error) {
      // A busy thread will come back; if there is none, the next file tries again.
      PTO_LOG(kWarning, "cannot start a thread to free shared memory", {{"error", error.what()}});
    }
  }

  void Work() {
    pthread_setname_np(pthread_self(), "page-reclaimer");
    File file;
    for (bool first = true; Next(first, &file); first = false) {
      options_.punch(file.descriptor.get(), file.bytes);
      file.descriptor = FileDescriptor();
      file.done();
      // `done` may hold the last reference to the object, so destroy it without the lock.
      file.done = nullptr;
    }
  }

  // Waits for the next file. Returns false if the thread is not needed any more.
  bool Next(bool first, File* file) {
    MutexLock lock(mutex_);
    if (!first) {
      --busy_;
      --pending_;
      if (pending_ == 0) changed_.NotifyAll();
    }
    const SteadyClock::time_point leave = SteadyClock::now() + options_.idle;
    while (true) {
      const SteadyClock::time_point now = SteadyClock::now();
      SteadyClock::time_point until = leave;
      if (!files_.empty()) {
        until = last_taken_ + options_.patience;
        if (busy_ == 0 || now >= until) break;
      } else if (ending_ || now >= leave) {
        --threads_;
        return false;
      }
      changed_.WaitFor(mutex_, until - now);
    }
    *file = std::move(files_.front());
    files_.pop_front();
    ++busy_;
    last_taken_ = SteadyClock::now();
    if (!files_.empty()) NeedFree();
    return true;
  }

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<File> files_ ABSL_GUARDED_BY(mutex_);
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;  // queued files, and files that threads work on
  size_t threads_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;
  SteadyClock::time_point last_taken_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

void PageReclaimer::Punch(int descriptor, uint64_t bytes) {
  int result = 0;
  do {
    result = fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                       static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
}

PageReclaimer::PageReclaimer(Options options) : crew_(std::make_shared<Crew>(std::move(options))) {}

PageReclaimer::~PageReclaimer() { crew_->End(); }

void PageReclaimer::Reclaim(FileDescriptor file, uint64_t bytes, std::function<void()> done) {
  crew_->Add({std::move(file), bytes, std::move(done)});
}

size_t PageReclaimer::pending() const { return crew_->pending(); }

bool PageReclaimer::AwaitNone(std::chrono::nanoseconds timeout) {
  return crew_->AwaitNone(timeout);
}

size_t PageReclaimer::threads() const { return crew_->threads(); }

}  // namespace pto::engine
