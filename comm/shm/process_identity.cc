#include "comm/shm/process_identity.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/types/optional.h"

namespace pto::comm {
namespace {

struct ProcessStat {
  char state;
  uint64_t start;  // clock ticks since the machine's start
};

absl::optional<ProcessStat> ReadStat(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return absl::nullopt;
  char text[1024];
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return absl::nullopt;
  text[length] = '\0';
  // The name is in parentheses and may contain anything, so count fields from the last one.
  char* field = std::strrchr(text, ')');
  if (field == nullptr || field[1] != ' ') return absl::nullopt;
  field += 2;
  ProcessStat stat{.state = *field, .start = 0};
  constexpr int kStateField = 3;
  constexpr int kStartField = 22;
  for (int i = kStateField; i < kStartField; ++i) {
    field = std::strchr(field, ' ');
    if (field == nullptr) return absl::nullopt;
    ++field;
  }
  stat.start = std::strtoull(field, nullptr, 10);
  return stat;
}

uint64_t MakeIdentity(pid_t pid, uint64_t start) {
  return uint64_t{static_cast<uint32_t>(pid)} << 32 | static_cast<uint32_t>(start);
}

// A zombie may be a process whose main thread has ended before its other threads.
bool HasEnded(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return true;
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  const bool ended = poll(&entry, 1, 0) == 1;
  close(fd);
  return ended;
}

}  // namespace

uint64_t OwnIdentity() {
  const pid_t pid = getpid();
  const absl::optional<ProcessStat> stat = ReadStat(pid);
  return MakeIdentity(pid, stat ? stat->start : 0);
}

uint64_t PidNamespace() {
  struct stat file;
  return stat("/proc/self/ns/pid", &file) == 0 ? file.st_ino : 0;
}

bool IsProcessAlive(uint64_t identity) {
  const pid_t pid = PidOf(identity);
  if (pid <= 0) return false;
  const absl::optional<ProcessStat> stat = ReadStat(pid);
  if (!stat || MakeIdentity(pid, stat->start) != identity) return false;
  if (stat->state == 'X' || stat->state == 'x') return false;
  return stat->state != 'Z' || !HasEnded(pid);
}

}  // namespace pto::comm
