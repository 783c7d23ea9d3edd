#include "comm/shm/shm_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "comm/job.h"
#include "comm/shm/process_identity.h"
#include "comm/status.h"
#include "runtime/base/status_macros.h"

namespace pto::comm {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

class ShmSegment final : public Segment {
 public:
  ShmSegment(void* data, size_t size, const struct stat& file)
      : device_(file.st_dev), inode_(file.st_ino) {
    data_ = static_cast<std::byte*>(data);
    size_ = size;
  }
  ~ShmSegment() override { munmap(data_, size_); }
  bool Is(const struct stat& file) const { return file.st_dev == device_ && file.st_ino == inode_; }

 private:
  const dev_t device_;
  const ino_t inode_;
};

absl::Status Failed(absl::string_view what, absl::string_view path, int error) {
  const std::string text = absl::StrCat(what, " '", path, "': ", std::strerror(error));
  return error == ENOSPC || error == ENOMEM || error == EFBIG ? NoMemory(text) : SystemError(text);
}

absl::StatusOr<struct stat> LookAt(int fd, absl::string_view path) {
  struct stat file;
  if (fstat(fd, &file) != 0) return Failed("cannot stat", path, errno);
  if (!S_ISREG(file.st_mode) || file.st_uid != geteuid()) {
    return SystemError(
        absl::StrCat("'", path, "' is not a regular file, or belongs to user ", file.st_uid));
  }
  return file;
}

absl::StatusOr<std::unique_ptr<Segment>> Map(int fd, const struct stat& file,
                                             absl::string_view path) {
  const auto size = static_cast<size_t>(file.st_size);
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return Failed("cannot map", path, errno);
  return {std::make_unique<ShmSegment>(data, size, file)};
}

// Allocates all pages now: later, a full file system would raise SIGBUS.
absl::Status Reserve(int fd, absl::string_view path, size_t bytes) {
  struct statvfs space;
  if (fstatvfs(fd, &space) == 0 && space.f_blocks != 0) {
    const uint64_t available = uint64_t{space.f_bavail} * space.f_frsize;
    if (bytes > available) {
      return NoMemory(absl::StrCat("'", path, "' needs ", bytes, " bytes, and there are ",
                                   available, " available"));
    }
  }
  int error = 0;
  do {
    error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error == 0 ? absl::OkStatus() : Failed("cannot reserve memory for", path, error);
}

}  // namespace

ShmStore::ShmStore(absl::string_view directory)
    : directory_(directory.empty() ? "/dev/shm" : directory),
      prefix_(absl::StrCat("ptod@", geteuid(), "@", PidNamespace(), "@")) {}

std::string ShmStore::PathOf(absl::string_view name) const {
  return absl::StrCat(directory_, "/", prefix_, name);
}

absl::StatusOr<std::unique_ptr<Segment>> ShmStore::Publish(
    absl::string_view name, size_t bytes, absl::FunctionRef<void(std::byte*)> fill) {
  const std::string path = PathOf(name);
  // Nameless at first: a segment found by name is always complete, and it disappears if this
  // process dies before.
  const FileDescriptor fd(open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.get() < 0) return Failed("cannot create a file for", path, errno);
  PTO_RETURN_IF_ERROR(Reserve(fd.get(), path, bytes));
  PTO_ASSIGN_OR_RETURN(const struct stat file, LookAt(fd.get(), path));
  PTO_ASSIGN_OR_RETURN(auto segment, Map(fd.get(), file, path));
  fill(segment->data());
  const std::string self = absl::StrCat("/proc/self/fd/", fd.get());
  if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (errno == EEXIST) return absl::AlreadyExistsError(path);
    return Failed("cannot name", path, errno);
  }
  return {std::move(segment)};
}

absl::StatusOr<std::unique_ptr<Segment>> ShmStore::Open(
    absl::string_view name, absl::Span<std::byte> head,
    absl::FunctionRef<absl::Status(size_t size)> check) {
  const std::string path = PathOf(name);
  const FileDescriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (fd.get() < 0) {
    if (errno == ENOENT) return absl::NotFoundError(path);
    return Failed("cannot open", path, errno);
  }
  PTO_ASSIGN_OR_RETURN(const struct stat file, LookAt(fd.get(), path));
  const auto size = static_cast<size_t>(file.st_size);
  PTO_RETURN_IF_ERROR(CheckHead(name, size, head.size()));
  const ssize_t got = pread(fd.get(), head.data(), head.size(), 0);
  if (got < 0) return Failed("cannot read", path, errno);
  PTO_RETURN_IF_ERROR(CheckHead(name, static_cast<size_t>(got), head.size()));
  PTO_RETURN_IF_ERROR(check(size));
  return Map(fd.get(), file, path);
}

void ShmStore::Remove(absl::string_view name, const Segment& segment) {
  const std::string path = PathOf(name);
  const FileDescriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat locked, named;
  if (fd.get() < 0 || fstat(fd.get(), &locked) != 0) return;
  if (!static_cast<const ShmSegment&>(segment).Is(locked)) return;
  // The holder of the lock removes the name; until then the name is taken, so nobody can give it to
  // another file.
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (lstat(path.c_str(), &named) != 0 || named.st_ino != locked.st_ino ||
      named.st_dev != locked.st_dev) {
    return;
  }
  unlink(path.c_str());
}

void ShmStore::Sweep() {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(directory_.c_str()), closedir);
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory.get())) {
    absl::string_view name = entry->d_name;
    if (!absl::ConsumePrefix(&name, prefix_)) continue;
    SegmentPrefix prefix;
    absl::StatusOr<std::unique_ptr<Segment>> segment = Open(
        name, BytesOf(prefix), [&](size_t size) { return CheckAnyPrefix(name, prefix, size); });
    if (segment.ok() && IsAbandoned(**segment, *this)) Remove(name, **segment);
  }
}

uint64_t ShmStore::Identity() const { return OwnIdentity(); }
bool ShmStore::Alive(uint64_t identity) const { return IsProcessAlive(identity); }
std::string ShmStore::Describe(uint64_t identity) const {
  return absl::StrCat("pid ", PidOf(identity));
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinShm(const JoinSpec& spec) {
  return Job::Join(std::make_shared<ShmStore>(spec.directory), spec);
}

}  // namespace pto::comm
