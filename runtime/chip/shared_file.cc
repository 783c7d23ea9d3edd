#include "runtime/chip/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/host_memory.h"

namespace pto::engine {
namespace {

absl::Status HostRefuses(uint64_t bytes, absl::string_view call) {
  const int error = errno;
  return Error(reason::kChipMemoryExhausted,
               absl::StrCat("the host cannot share ", bytes, " bytes: ", call, ": ",
                            std::generic_category().message(error)));
}

}  // namespace

std::shared_ptr<SharingBudget> SharingBudget::OfThisProcess() {
  constexpr uint64_t kMostFiles = 4096;
  rlimit limit = {};
  uint64_t files = kMostFiles;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    files = std::min<uint64_t>(files, limit.rlim_cur / 4);
  }
  return std::make_shared<SharingBudget>(files, HostMemoryBytes() / 2);
}

bool SharingBudget::Take(uint64_t bytes) {
  if (files_.fetch_add(1, std::memory_order_relaxed) < max_files_) {
    const uint64_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
    if (bytes <= max_bytes_ && before <= max_bytes_ - bytes) return true;
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  files_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void SharingBudget::GiveBack(uint64_t bytes) {
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  files_.fetch_sub(1, std::memory_order_relaxed);
}

SharedFile::SharedFile(FileDescriptor descriptor, uint64_t bytes,
                       std::shared_ptr<SharingBudget> budget)
    : descriptor_(std::move(descriptor)), bytes_(bytes), budget_(std::move(budget)) {}

absl::StatusOr<std::unique_ptr<SharedFile>> SharedFile::Create(
    uint64_t bytes, std::shared_ptr<SharingBudget> budget) {
  if (!budget->Take(bytes)) {
    return Error(reason::kChipMemoryExhausted,
                 absl::StrCat(bytes, " more bytes cannot be shared: ", budget->bytes(),
                              " bytes in ", budget->files(), " buffers are already shared"))
        .Limit("shared_bytes", budget->max_bytes_, budget->bytes(), bytes);
  }
  FileDescriptor descriptor(memfd_create("ptod-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor.valid()) {
    const absl::Status status = HostRefuses(bytes, "memfd_create");
    budget->GiveBack(bytes);
    return status;
  }
  // From here on the destructor cleans up.
  std::unique_ptr<SharedFile> file(new SharedFile(std::move(descriptor), bytes, std::move(budget)));
  if (ftruncate(file->descriptor(), static_cast<off_t>(bytes)) != 0) {
    return HostRefuses(bytes, "ftruncate");
  }
  // Not even the owner may shrink it: access to a missing page would raise SIGBUS in every process
  // that maps it.
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (fcntl(file->descriptor(), F_ADD_SEALS, kSeals) != 0) {
    return HostRefuses(bytes, "F_ADD_SEALS");
  }
  return file;
}

SharedFile::~SharedFile() {
  // Closing alone would leave the pages, charged to us, to the processes that have them mapped.
  budget_->reclaimer_.Reclaim(std::move(descriptor_), bytes_,
                              [budget = budget_, bytes = bytes_] { budget->GiveBack(bytes); });
}

absl::Status SharedFile::Reserve(uint64_t offset, uint64_t bytes) {
  int result = 0;
  do {
    result = fallocate(descriptor(), 0, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? absl::OkStatus() : HostRefuses(bytes, "fallocate");
}

absl::Status SharedFile::TakeOver(std::byte* address, uint64_t offset, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t count =
        pwrite(descriptor(), address + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return HostRefuses(bytes, "pwrite");
    done += static_cast<uint64_t>(count);
  }
  // Fills the page tables now, so that the first run does not pay for it.
  const void* const mapped =
      mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
           descriptor(), static_cast<off_t>(offset));
  return mapped == address ? absl::OkStatus() : HostRefuses(bytes, "mmap");
}

absl::Status SharedFile::Replace(std::byte* address) {
  const void* const mapped =
      mmap(address, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor(), 0);
  return mapped == address ? absl::OkStatus() : HostRefuses(bytes_, "mmap");
}

}  // namespace pto::engine
