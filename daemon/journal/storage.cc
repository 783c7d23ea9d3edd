#include "daemon/journal/storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::daemon {
namespace {

// What is read at once, and what is given up when the disk cannot read it.
constexpr size_t kReadBytes = size_t{1} << 20;
constexpr size_t kBlockBytes = 4096;

absl::Status Unusable(absl::string_view path, absl::string_view what, int error) {
  return Error(reason::kPathUnusable, absl::StrCat("cannot ", what, " ", path, ": ",
                                                   std::generic_category().message(error)))
      .With("path", path);
}

// Closes a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int file) : file_(file) {}
  ~Descriptor() {
    if (file_ >= 0) close(file_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return file_; }

 private:
  const int file_;
};

class SystemFile final : public WritableFile {
 public:
  SystemFile(std::string path, int file) : path_(std::move(path)), file_(file) {}

  absl::Status WriteAt(uint64_t offset, absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t now =
          pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (now < 0 && errno == EINTR) continue;
      if (now <= 0) return Unusable(path_, "write", now < 0 ? errno : ENOSPC);
      offset += static_cast<uint64_t>(now);
      bytes.remove_prefix(static_cast<size_t>(now));
    }
    return absl::OkStatus();
  }

  absl::Status Truncate(uint64_t bytes) override {
    return ftruncate(file_.get(), static_cast<off_t>(bytes)) == 0
               ? absl::OkStatus()
               : Unusable(path_, "truncate", errno);
  }

  absl::Status Sync() override {
    return fdatasync(file_.get()) == 0 ? absl::OkStatus() : Unusable(path_, "sync", errno);
  }

 private:
  const std::string path_;
  const Descriptor file_;
};

class SystemDirectory final : public Storage {
 public:
  explicit SystemDirectory(std::string directory) : directory_(std::move(directory)) {}

  absl::StatusOr<std::shared_ptr<WritableFile>> Create(const std::string& name,
                                                       uint64_t reserve_bytes) override {
    const std::string path = Path(name);
    const int file =
        open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (file < 0) return Unusable(path, "make", errno);
    auto made = std::make_shared<SystemFile>(path, file);
    // A full disk is detected before anything is promised. Not all file systems can reserve.
    if (reserve_bytes > 0 &&
        fallocate(file, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(reserve_bytes)) != 0 &&
        (errno == ENOSPC || errno == EDQUOT)) {
      const int error = errno;
      unlink(path.c_str());
      return Unusable(path, "reserve room for", error);
    }
    return made;
  }

  // Not by mapping it: a block that the disk cannot read would end the process.
  absl::StatusOr<std::string> Read(const std::string& name) override {
    const std::string path = Path(name);
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.get() < 0) return Unusable(path, "read", errno);
    struct stat found = {};
    if (fstat(file.get(), &found) != 0) return Unusable(path, "read", errno);
    std::string bytes(static_cast<size_t>(found.st_size), '\0');
    size_t at = 0;
    size_t most = kReadBytes;
    while (at < bytes.size()) {
      const ssize_t now =
          pread(file.get(), &bytes[at], std::min(most, bytes.size() - at), static_cast<off_t>(at));
      if (now < 0 && errno == EINTR) continue;
      if (now < 0 && errno == EIO) {
        // Block by block from here on; those that cannot be read stay zeros.
        if (most == kBlockBytes) {
          PTO_LOG(kError, "the disk cannot read a block of the journal",
                  {{"path", path}, {"offset", at}, {"bytes", kBlockBytes}});
          at += kBlockBytes - at % kBlockBytes;
        }
        most = kBlockBytes;
        continue;
      }
      if (now < 0) return Unusable(path, "read", errno);
      if (now == 0) break;
      at += static_cast<size_t>(now);
    }
    return bytes;
  }

  absl::StatusOr<std::vector<std::string>> List() override {
    DIR* const entries = opendir(directory_.c_str());
    if (entries == nullptr) return Unusable(directory_, "read", errno);
    std::vector<std::string> names;
    while (const dirent* entry = readdir(entries)) {  // NOLINT: this directory is ours alone
      names.emplace_back(entry->d_name);
    }
    closedir(entries);
    return names;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    return std::rename(Path(from).c_str(), Path(to).c_str()) == 0
               ? absl::OkStatus()
               : Unusable(Path(from), "rename", errno);
  }

  absl::Status Remove(const std::string& name) override {
    return unlink(Path(name).c_str()) == 0 || errno == ENOENT
               ? absl::OkStatus()
               : Unusable(Path(name), "remove", errno);
  }

  absl::Status SyncNames() override {
    const Descriptor file(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (file.get() < 0) return Unusable(directory_, "sync", errno);
    // Some file systems cannot sync directories.
    if (fsync(file.get()) == 0 || errno == EINVAL) return absl::OkStatus();
    return Unusable(directory_, "sync", errno);
  }

  std::string Path(const std::string& name) const override {
    return absl::StrCat(directory_, "/", name);
  }

 private:
  const std::string directory_;
};

}  // namespace

std::shared_ptr<Storage> OpenDirectory(const std::string& directory) {
  return std::make_shared<SystemDirectory>(directory);
}

}  // namespace pto::daemon
