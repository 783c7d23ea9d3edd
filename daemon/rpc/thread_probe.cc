#include "daemon/rpc/thread_probe.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace pto::daemon::rpc {

ThreadProbe ThreadProbe::Self() {
  ThreadProbe probe;
  pthread_getcpuclockid(pthread_self(), &probe.clock_);
  probe.id_ = gettid();
  return probe;
}

std::chrono::nanoseconds ThreadProbe::CpuTime() const {
  timespec time = {};
  clock_gettime(clock_, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool ThreadProbe::IsRunnable() const {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", id_);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  // `id (name) state ...`; a name has at most 15 bytes, and may contain parentheses.
  char text[64] = {};
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  const char* const end_of_name = size > 0 ? std::strrchr(text, ')') : nullptr;
  return end_of_name != nullptr && std::strncmp(end_of_name, ") R", 3) == 0;
}

}  // namespace pto::daemon::rpc
