#include "client/internal/buffer_share.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/time.h"
#include "client/internal/bulk_copy.h"

namespace pto::internal {
namespace {

// A buffer is mapped as a whole, and then has all its pages. So it is not mapped for a small part:
// a client that writes a little of a large buffer would waste memory.
constexpr uint64_t kLeastPart = 8;

}  // namespace

BufferShare::BufferShare(std::shared_ptr<BrokerLink> link, std::string buffer_id, uint64_t bytes)
    : link_(std::move(link)), buffer_id_(std::move(buffer_id)), bytes_(bytes) {}

std::shared_ptr<Mapping> BufferShare::Map(const Deadline& deadline, MapRefusal* why) {
  *why = MapRefusal::kLater;
  {
    MutexLock lock(mutex_);
    // A second caller wants the same mapping as the first.
    while (asking_) {
      if (deadline.Passed()) return nullptr;
      const absl::Duration left = std::min(deadline.Remaining(), absl::Minutes(1));
      asked_.WaitFor(mutex_, absl::ToChronoNanoseconds(left));
    }
    ForgetStale();
    if (hopeless_) *why = MapRefusal::kNever;
    if (mapping_ != nullptr || hopeless_) return mapping_;
    asking_ = true;
  }
  std::shared_ptr<Mapping> mapping = link_->Map(buffer_id_, bytes_, deadline, why);
  MutexLock lock(mutex_);
  asking_ = false;
  asked_.NotifyAll();
  if (mapping == nullptr && *why == MapRefusal::kNever) hopeless_ = true;
  no_room_ = mapping == nullptr && *why == MapRefusal::kLimit;
  // Deleted meanwhile.
  if (hopeless_) return nullptr;
  mapping_ = std::move(mapping);
  return mapping_;
}

void BufferShare::ForgetStale() {
  if (mapping_ != nullptr && link_->IsStale(mapping_->region())) mapping_.reset();
}

std::shared_ptr<Mapping> BufferShare::MapFor(uint64_t bytes, const Deadline& deadline) {
  if (bytes < kLeastBytes) return nullptr;
  {
    MutexLock lock(mutex_);
    ForgetStale();
    if (mapping_ != nullptr || hopeless_ || no_room_) return mapping_;
    copied_ += bytes;
    if (copied_ < bytes_ / kLeastPart) return nullptr;
  }
  MapRefusal why;
  return Map(deadline, &why);
}

bool BufferShare::Write(std::span<const std::byte> data, uint64_t offset,
                        const Deadline& deadline) {
  const std::shared_ptr<Mapping> mapping = MapFor(data.size(), deadline);
  if (mapping == nullptr || !link_->Check(mapping->region(), deadline)) return false;
  BulkCopy(mapping->bytes().data() + offset, data.data(), data.size());
  return link_->Check(mapping->region(), deadline);
}

bool BufferShare::Read(std::span<std::byte> data, uint64_t offset, const Deadline& deadline) {
  const std::shared_ptr<Mapping> mapping = MapFor(data.size(), deadline);
  if (mapping == nullptr || !link_->Check(mapping->region(), deadline)) return false;
  BulkCopy(data.data(), mapping->bytes().data() + offset, data.size());
  return link_->Check(mapping->region(), deadline);
}

void BufferShare::Drop() {
  std::shared_ptr<Mapping> last;  // unmapped without the lock
  MutexLock lock(mutex_);
  last = std::move(mapping_);
  hopeless_ = true;
}

}  // namespace pto::internal
