#include "daemon/shell/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

std::string ErrorText(int error) { return std::generic_category().message(error); }

absl::Status Unusable(absl::string_view path, absl::string_view what, int error) {
  return Error(reason::kPathUnusable,
               absl::StrCat("cannot ", what, " ", path, ": ", ErrorText(error)))
      .With("path", path);
}

// Whether `path` still names the open file: the previous holder may have removed it between our
// open and our flock. Then we have locked a file that no other process can find.
bool StillNamed(const std::string& path, int file) {
  struct stat named = {};
  struct stat open = {};
  return stat(path.c_str(), &named) == 0 && fstat(file, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

absl::Status HeldByAnother(int file, absl::string_view what) {
  char text[32] = {};
  const ssize_t size = pread(file, text, sizeof text - 1, 0);
  int64_t pid = 0;
  const bool known = size > 0 && absl::SimpleAtoi(absl::string_view(text, size), &pid);
  const std::string holder = known ? absl::StrCat("another ptod (pid ", pid, ")") : "another ptod";
  Error error(reason::kInstanceRunning, absl::StrCat(holder, " holds ", what));
  if (known) error.With("pid", pid);
  return error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Acquire(const std::string& path,
                                                            absl::string_view what) {
  while (true) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (file < 0) return Unusable(path, "open", errno);
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
      const absl::Status status =
          errno == EWOULDBLOCK ? HeldByAnother(file, what) : Unusable(path, "lock", errno);
      close(file);
      return status;
    }
    if (!StillNamed(path, file)) {
      close(file);
      continue;
    }
    const std::string pid = absl::StrCat(getpid(), "\n");
    if (ftruncate(file, 0) != 0 ||
        pwrite(file, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
      const int error = errno;
      close(file);
      return Unusable(path, "write", error);
    }
    return std::unique_ptr<FileLock>(new FileLock(path, file));
  }
}

FileLock::~FileLock() {
  // Removed before it is unlocked; see StillNamed.
  unlink(path_.c_str());
  close(file_);
  if (directory_ >= 0) close(directory_);
}

absl::Status MakeLastDirectory(const std::string& path) {
  constexpr mode_t kMode = 0750;
  if (mkdir(path.c_str(), kMode) == 0) return absl::OkStatus();
  const int error = errno;
  struct stat found = {};
  if (error == EEXIST && stat(path.c_str(), &found) == 0) {
    return S_ISDIR(found.st_mode) ? absl::OkStatus() : Unusable(path, "use", ENOTDIR);
  }
  return Unusable(path, "make the directory", error);
}

absl::StatusOr<std::unique_ptr<FileLock>> LockStateDirectory(const std::string& directory) {
  PTO_RETURN_IF_ERROR(MakeLastDirectory(directory));
  const std::string path = absl::StrCat(directory, "/lock");
  const std::string what = absl::StrCat("the state directory ", directory);
  while (true) {
    const int locked = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (locked < 0) return Unusable(directory, "open", errno);
    if (flock(locked, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      if (error == EWOULDBLOCK) {
        const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        const absl::Status held = HeldByAnother(file, what);
        if (file >= 0) close(file);
        close(locked);
        return held;
      }
      // Some network file systems cannot lock directories. Then the file must do.
      PTO_LOG(kWarning, "the state directory cannot be locked, only a file in it",
              {{"path", directory}, {"error", ErrorText(error)}});
    } else if (!StillNamed(directory, locked)) {
      close(locked);
      continue;
    }
    // Also for releases that lock only this file.
    absl::StatusOr<std::unique_ptr<FileLock>> lock = FileLock::Acquire(path, what);
    if (lock.ok()) {
      (*lock)->directory_ = locked;
    } else {
      close(locked);
    }
    return lock;
  }
}

}  // namespace pto::daemon
