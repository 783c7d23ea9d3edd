#include "daemon/journal/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "daemon/journal/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

constexpr absl::string_view kPrefix = "journal-";
constexpr size_t kNumberDigits = 10;
constexpr absl::string_view kMagic = "PTOJRNL\n";
constexpr uint32_t kVersion = 1;
// Records cannot be larger, because labels and errors are bounded.
constexpr uint32_t kMaxRecordBytes = 1 << 20;

// Numbers are in native byte order: a journal is not moved between machines.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of what is before it
};
static_assert(sizeof(Header) == 16);

struct Frame {
  uint32_t bytes;
  uint32_t crc;
};

absl::Status Unusable(absl::string_view path, absl::string_view what, int error) {
  return Error(reason::kPathUnusable, absl::StrCat("cannot ", what, " ", path, ": ",
                                                   std::generic_category().message(error)))
      .With("path", path);
}

uint32_t HeaderCrc(const Header& header) {
  return Crc32c({reinterpret_cast<const char*>(&header), offsetof(Header, crc)});
}

// Maps a whole file into memory.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) {
      error_ = errno;
      return;
    }
    struct stat found = {};
    if (fstat(file, &found) != 0) {
      error_ = errno;
    } else if (found.st_size > 0) {
      size_ = static_cast<size_t>(found.st_size);
      data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (data_ == MAP_FAILED) {
        error_ = errno;
        size_ = 0;
      }
    }
    close(file);
  }
  ~Mapping() {
    if (size_ > 0) munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  int error() const { return error_; }
  absl::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
  int error_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentWriter>> SegmentWriter::Create(const std::string& directory,
                                                                     uint64_t number,
                                                                     uint64_t reserve_bytes) {
  const std::string path = SegmentPath(directory, number);
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (file < 0) return Unusable(path, "make", errno);
  std::unique_ptr<SegmentWriter> writer(new SegmentWriter(path, number, file));
  // Reserve space, so that a full disk is detected before anything is promised. Not all file
  // systems can.
  absl::Status status;
  if (fallocate(file, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(reserve_bytes)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT)) {
    status = Unusable(path, "reserve room for", errno);
  }
  Header header = {};
  std::memcpy(header.magic, kMagic.data(), sizeof header.magic);
  header.version = kVersion;
  header.crc = HeaderCrc(header);
  if (status.ok()) status = writer->Write({reinterpret_cast<const char*>(&header), sizeof header});
  if (status.ok()) return writer;
  unlink(path.c_str());
  return status;
}

SegmentWriter::~SegmentWriter() { close(file_); }

absl::Status SegmentWriter::Append(absl::string_view record) {
  const Frame frame = {static_cast<uint32_t>(record.size()), Crc32c(record)};
  frame_.assign(reinterpret_cast<const char*>(&frame), sizeof frame);
  frame_.append(record.data(), record.size());
  return Write(frame_);
}

absl::Status SegmentWriter::Write(absl::string_view bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t now = pwrite(file_, bytes.data() + written, bytes.size() - written,
                               static_cast<off_t>(bytes_ + written));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) {
      const absl::Status error = Unusable(path_, "write", now < 0 ? errno : ENOSPC);
      // If this fails, the partial record does no harm: the next one overwrites it.
      if (ftruncate(file_, static_cast<off_t>(bytes_)) != 0) return error;
      return error;
    }
    written += static_cast<size_t>(now);
  }
  bytes_ += bytes.size();
  return absl::OkStatus();
}

absl::Status SegmentWriter::Sync() const {
  return fdatasync(file_) == 0 ? absl::OkStatus() : Unusable(path_, "sync", errno);
}

absl::StatusOr<int> SegmentWriter::Duplicate() const {
  const int file = fcntl(file_, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return Unusable(path_, "sync", errno);
  return file;
}

absl::Status SegmentWriter::SyncAndClose(int file) {
  const int error = fdatasync(file) == 0 ? 0 : errno;
  close(file);
  return error == 0 ? absl::OkStatus() : Unusable("the journal", "sync", error);
}

absl::StatusOr<SegmentContents> ReadSegment(const std::string& path,
                                            const std::function<void(absl::string_view)>& take) {
  const Mapping file(path);
  if (file.error() != 0) return Unusable(path, "read", file.error());
  absl::string_view rest = file.bytes();
  SegmentContents contents;
  contents.rest = rest.size();
  Header header = {};
  if (rest.size() < sizeof header) return contents;
  std::memcpy(&header, rest.data(), sizeof header);
  if (absl::string_view(header.magic, sizeof header.magic) != kMagic ||
      header.crc != HeaderCrc(header)) {
    return contents;
  }
  if (header.version > kVersion) {
    return Error(reason::kJournalNewer, absl::StrCat(path, " has format ", header.version,
                                                     ", this release knows up to ", kVersion))
        .With("path", path)
        .With("have", header.version)
        .With("want", kVersion);
  }
  rest.remove_prefix(sizeof header);
  Frame frame = {};
  while (rest.size() >= sizeof frame) {
    std::memcpy(&frame, rest.data(), sizeof frame);
    // Records are never empty, so reserved space, which reads as zeros, is not a record.
    if (frame.bytes == 0 || frame.bytes > kMaxRecordBytes ||
        frame.bytes > rest.size() - sizeof frame) {
      break;
    }
    const absl::string_view record = rest.substr(sizeof frame, frame.bytes);
    if (Crc32c(record) != frame.crc) break;
    take(record);
    rest.remove_prefix(sizeof frame + frame.bytes);
  }
  contents.bytes = file.bytes().size() - rest.size();
  contents.rest = rest.size();
  return contents;
}

std::string SegmentPath(const std::string& directory, uint64_t number) {
  return absl::StrFormat("%s/%s%0*d", directory, kPrefix, static_cast<int>(kNumberDigits), number);
}

absl::Status SyncDirectory(const std::string& directory) {
  const int file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return Unusable(directory, "sync", errno);
  const int error = fsync(file) == 0 ? 0 : errno;
  close(file);
  // Some file systems cannot sync directories.
  if (error == 0 || error == EINVAL) return absl::OkStatus();
  return Unusable(directory, "sync", error);
}

absl::StatusOr<std::vector<uint64_t>> ListSegments(const std::string& directory) {
  DIR* const entries = opendir(directory.c_str());
  if (entries == nullptr) return Unusable(directory, "read", errno);
  std::vector<uint64_t> numbers;
  while (const dirent* entry = readdir(entries)) {  // NOLINT: this directory is ours alone
    absl::string_view name = entry->d_name;
    uint64_t number = 0;
    if (absl::ConsumePrefix(&name, kPrefix) && name.size() == kNumberDigits &&
        absl::SimpleAtoi(name, &number)) {
      numbers.push_back(number);
    }
  }
  closedir(entries);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace pto::daemon
