#include "comm/local/local_store.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/job.h"
#include "comm/status.h"
#include "runtime/base/status_macros.h"

namespace pto::comm {
namespace {

class LocalSegment final : public Segment {
 public:
  explicit LocalSegment(LocalStore::Memory memory) : memory_(std::move(memory)) {
    data_ = memory_.data.get();
    size_ = memory_.size;
  }

 private:
  const LocalStore::Memory memory_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Segment>> LocalStore::Publish(
    absl::string_view name, size_t bytes, absl::FunctionRef<void(std::byte*)> fill) {
  // Zero pages, which cost nothing until they are used.
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return NoMemory(absl::StrCat("no ", bytes, " bytes of memory for '", name, "'"));
  }
  Memory memory{
      .data = {static_cast<std::byte*>(pages), [bytes](std::byte* data) { munmap(data, bytes); }},
      .size = bytes};
  fill(memory.data.get());
  MutexLock lock(mutex_);
  if (!segments_.emplace(std::string(name), memory).second) {
    return absl::AlreadyExistsError(name);
  }
  return {std::make_unique<LocalSegment>(std::move(memory))};
}

absl::StatusOr<std::unique_ptr<Segment>> LocalStore::Open(
    absl::string_view name, absl::Span<std::byte> head,
    absl::FunctionRef<absl::Status(size_t size)> check) {
  MutexLock lock(mutex_);
  const auto found = segments_.find(name);
  if (found == segments_.end()) return absl::NotFoundError(name);
  PTO_RETURN_IF_ERROR(CheckHead(name, found->second.size, head.size()));
  std::memcpy(head.data(), found->second.data.get(), head.size());
  PTO_RETURN_IF_ERROR(check(found->second.size));
  return {std::make_unique<LocalSegment>(found->second)};
}

void LocalStore::Remove(absl::string_view name, const Segment& segment) {
  MutexLock lock(mutex_);
  const auto found = segments_.find(name);
  if (found != segments_.end() && found->second.data.get() == segment.data()) {
    segments_.erase(found);
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinLocal(const JoinSpec& spec) {
  static auto& store = *new std::shared_ptr<SegmentStore>(std::make_shared<LocalStore>());
  return Job::Join(store, spec);
}

}  // namespace pto::comm
