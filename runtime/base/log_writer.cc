#include "runtime/base/log_writer.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"

namespace pto {
namespace {

// For the line that reports dropped lines when the queue is full again.
constexpr size_t kReserve = 512;
// Memory that a burst of lines needed is not kept.
constexpr size_t kKeptBytes = size_t{64} << 10;

// Writes everything unless the descriptor refuses it. Waits as long as it takes.
bool WritePiece(int fd, absl::string_view piece) {
  while (!piece.empty()) {
    const ssize_t written = write(fd, piece.data(), piece.size());
    if (written > 0) {
      piece.remove_prefix(static_cast<size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      // Another process that has the same terminal or pipe has made it non-blocking.
      pollfd writable = {fd, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Some whole lines that a pipe takes at once, so that they do not mix with those of other
// processes; or a longer line alone.
absl::string_view CutPiece(absl::string_view* text) {
  size_t size = text->size();
  if (size > PIPE_BUF) {
    const size_t last = text->substr(0, PIPE_BUF).rfind('\n');
    const size_t end = last != absl::string_view::npos ? last : text->find('\n', PIPE_BUF);
    if (end != absl::string_view::npos) size = end + 1;
  }
  const absl::string_view piece = text->substr(0, size);
  text->remove_prefix(size);
  return piece;
}

uint64_t CountLines(absl::string_view text) {
  return static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

// The lines that wait, and the thread that writes them. There is one for the life of the process,
// because threads may log at any time.
class Queue {
 public:
  static Queue& Get() {
    static Queue* const queue = new Queue;
    return *queue;
  }

  void Start(const LogWriter::Options& options) {
    MutexLock lock(mutex_);
    stopping_ = false;
    // One that could not be stopped in time, see Stop, goes on.
    if (running_) return;
    running_ = true;
    fd_ = options.fd;
    max_bytes_ = options.max_bytes;
    std::thread thread([this] {
      pthread_setname_np(pthread_self(), "log-writer");
      Run();
    });
    writer_ = thread.get_id();
    // Not joined: a write may never return.
    thread.detach();
  }

  // Lets the thread end when everything is written, and waits for that at most so long.
  void Stop(std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    while (running_ && std::chrono::steady_clock::now() < deadline) {
      progress_.WaitFor(mutex_, deadline - std::chrono::steady_clock::now());
    }
  }

  // Returns false when nobody would write the line.
  bool Push(absl::string_view line) {
    MutexLock lock(mutex_);
    if (!running_) return false;
    const size_t room = max_bytes_ + (std::this_thread::get_id() == writer_ ? kReserve : 0);
    if (waiting_.size() + line.size() > room) {
      dropped_ += CountLines(line);
      return true;
    }
    if (waiting_.empty()) changed_.NotifyAll();
    waiting_.append(line.data(), line.size());
    pushed_.fetch_add(line.size(), std::memory_order_release);
    return true;
  }

  bool Flush(std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(mutex_);
    const uint64_t until = pushed_.load(std::memory_order_relaxed);
    while (running_ && done_.load(std::memory_order_relaxed) < until) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
      progress_.WaitFor(mutex_, deadline - std::chrono::steady_clock::now());
    }
    return true;
  }

  // For a signal handler: no locks.
  bool empty() const {
    return done_.load(std::memory_order_acquire) >= pushed_.load(std::memory_order_acquire);
  }

 private:
  Queue() = default;

  void Run() {
    std::string batch;
    // Lines that the descriptor refused, because the disk is full for example.
    uint64_t refused = 0;
    mutex_.Lock();
    while (true) {
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      if (waiting_.empty()) break;
      std::swap(batch, waiting_);
      const uint64_t dropped = std::exchange(dropped_, 0);
      mutex_.Unlock();
      // Queued now, it comes in the place of those lines.
      if (dropped > 0) Report(dropped);
      absl::string_view left = batch;
      while (!left.empty()) {
        const absl::string_view piece = CutPiece(&left);
        if (!WritePiece(fd_, piece)) {
          refused += CountLines(piece);
        } else if (refused > 0) {
          Report(std::exchange(refused, 0));
        }
      }
      const size_t size = batch.size();
      batch.clear();
      if (batch.capacity() > kKeptBytes) batch.shrink_to_fit();
      mutex_.Lock();
      done_.fetch_add(size, std::memory_order_release);
      progress_.NotifyAll();
    }
    running_ = false;
    progress_.NotifyAll();
    mutex_.Unlock();
  }

  static void Report(uint64_t lines) {
    Log(LogLevel::kWarning, __FILE__, __LINE__, "lines were dropped: the log was not read in time",
        {{"lines", lines}});
  }

  Mutex mutex_;
  CondVar changed_;
  CondVar progress_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id writer_ ABSL_GUARDED_BY(mutex_);
  size_t max_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string waiting_ ABSL_GUARDED_BY(mutex_);
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  int fd_ = STDERR_FILENO;  // constant while the thread runs
  // Bytes that were queued, and that were written or refused.
  std::atomic<uint64_t> pushed_{0};
  std::atomic<uint64_t> done_{0};
};

bool PushLine(absl::string_view line) { return Queue::Get().Push(line); }

// ---- the last lines before the process dies

constexpr int kFatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP};

// May only use what is safe in a signal handler.
void WaitAndDie(int signal) {
  constexpr int kSteps = 250;
  const timespec step = {0, 2'000'000};
  const Queue& queue = Queue::Get();
  for (int i = 0; i < kSteps && !queue.empty(); ++i) nanosleep(&step, nullptr);
  // The handler has been reset: the system does what it does without one.
  raise(signal);
}

void HandleFaults() {
  struct sigaction wait = {};
  wait.sa_handler = &WaitAndDie;
  wait.sa_flags = SA_RESETHAND;
  for (const int signal : kFatal) {
    struct sigaction before = {};
    // Sanitizers have handlers of their own.
    if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) {
      sigaction(signal, &wait, nullptr);
    }
  }
}

}  // namespace

LogWriter::LogWriter(const Options& options) : patience_(options.patience) {
  // A child of fork() has no such thread, and perhaps a locked queue.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { SetLogSink(nullptr); });
  static_cast<void>(registered);
  Queue::Get().Start(options);
  SetLogSink(&PushLine);
  HandleFaults();
}

LogWriter::~LogWriter() { Queue::Get().Stop(patience_); }

bool LogWriter::Flush(std::chrono::milliseconds timeout) { return Queue::Get().Flush(timeout); }

void LogWriter::Write(absl::string_view text) {
  if (!PushLine(text)) WritePiece(STDERR_FILENO, text);
}

}  // namespace pto
