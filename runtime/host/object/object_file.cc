#include "runtime/host/object/object_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::host {
namespace {

absl::Status Unreadable(absl::string_view what) {
  return Error(reason::kFieldInvalid, what).At("object");
}

}  // namespace

absl::StatusOr<std::string> ReadObject(int file) {
  struct stat status = {};
  if (fstat(file, &status) != 0) {
    return Unreadable(absl::StrCat("cannot be read: ", std::generic_category().message(errno)));
  }
  if (!S_ISREG(status.st_mode)) return Unreadable("is not a regular file");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size == 0) return Unreadable("is empty");
  if (size > kMaxObjectBytes) {
    return Unreadable(absl::StrCat("has ", size, " bytes, a kernel has at most ", kMaxObjectBytes));
  }
  std::string bytes(size, '\0');
  for (uint64_t done = 0; done < size;) {
    const ssize_t count = pread(file, bytes.data() + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return Unreadable(absl::StrCat("cannot be read: ", std::generic_category().message(errno)));
    }
    if (count == 0) return Unreadable("became shorter while it was read");
    done += static_cast<uint64_t>(count);
  }
  return bytes;
}

}  // namespace pto::host
