#include "daemon/shell/socket_guard.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

absl::Status RemoveStaleSocket(const std::string& path) {
  struct stat found = {};
  if (lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return Error(reason::kPathUnusable, absl::StrCat("cannot look at ", path, ": ",
                                                     std::generic_category().message(errno)))
        .With("path", path);
  }
  if (!S_ISSOCK(found.st_mode)) {
    return Error(reason::kPathUnusable,
                 absl::StrCat(path, " is there and is not a socket; it is left alone"))
        .With("path", path)
        .Hint("choose another path, or remove the file if nobody needs it");
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Error(reason::kPathUnusable, absl::StrCat("cannot remove the old socket ", path, ": ",
                                                     std::generic_category().message(errno)))
        .With("path", path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SocketGuard>> SocketGuard::Acquire(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0) {
    PTO_RETURN_IF_ERROR(MakeLastDirectory(path.substr(0, slash)));
  }
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock,
                       FileLock::Acquire(absl::StrCat(path, ".lock"), absl::StrCat("unix:", path)));
  PTO_RETURN_IF_ERROR(RemoveStaleSocket(path));
  return std::unique_ptr<SocketGuard>(new SocketGuard(path, std::move(lock)));
}

absl::StatusOr<std::unique_ptr<SocketGuard>> SocketGuard::AcquireInherited(
    const std::string& path) {
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<FileLock> lock,
                       FileLock::Acquire(absl::StrCat(path, ".lock"), absl::StrCat("unix:", path)));
  return std::unique_ptr<SocketGuard>(new SocketGuard("", std::move(lock)));
}

SocketGuard::~SocketGuard() {
  if (!path_.empty()) RemoveStaleSocket(path_).IgnoreError();
}

SocketUmask::SocketUmask() : before_(umask(0117)) {}

SocketUmask::~SocketUmask() { umask(before_); }

}  // namespace pto::daemon
