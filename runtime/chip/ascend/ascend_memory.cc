#include "runtime/chip/ascend/ascend_memory.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::ascend {
namespace {

constexpr uint64_t kAlignment = 512;
// Chunks of one copy that are on their way at the same time.
constexpr size_t kInFlight = 2;
static_assert(kInFlight <= kSlots);

// An answer that somebody waits for.
struct Waiting {
  Mutex mutex;
  CondVar changed;
  bool answered ABSL_GUARDED_BY(mutex) = false;
  absl::Status status ABSL_GUARDED_BY(mutex);

  absl::Status Await() {
    MutexLock lock(mutex);
    while (!answered) changed.Wait(mutex);
    return status;
  }
};

Request FreeRequest(uint64_t address, uint64_t epoch) {
  Request request;
  request.kind = Request::kFree;
  request.epoch = epoch;
  request.address = address;
  return request;
}

}  // namespace

std::shared_ptr<AscendMemory> AscendMemory::Create(uint32_t chip, uint64_t bytes,
                                                   std::shared_ptr<ChipHost> host) {
  return std::shared_ptr<AscendMemory>(new AscendMemory(chip, bytes, std::move(host)));
}

absl::StatusOr<std::shared_ptr<engine::Allocation>> AscendMemory::Allocate(uint64_t bytes) {
  const uint64_t taken = (std::max<uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  PTO_RETURN_IF_ERROR(Take(bytes, taken));
  // Before the call: if the chip loses its memory meanwhile, this range counts as lost.
  const uint64_t epoch = host_->epoch();
  Request request;
  request.kind = Request::kAllocate;
  request.epoch = epoch;
  request.bytes = taken;
  absl::StatusOr<uint64_t> address =
      host_->Call(std::move(request), [epoch](ChipHost& host, uint64_t late) {
        host.Send(FreeRequest(late, epoch), [](const Reply&) {});
      });
  if (address.ok() && WithoutEpoch(*address) != *address) {
    host_->Send(FreeRequest(*address, epoch), [](const Reply&) {});
    address = Error(reason::kNotAvailable,
                    absl::StrCat("the chip has addresses beyond ", kAddressBits, " bits"));
  }
  if (!address.ok()) {
    GiveBack(taken);
    return address.status();
  }
  return std::make_shared<AscendAllocation>(shared_from_this(), bytes, taken, *address, epoch);
}

AscendAllocation::AscendAllocation(std::shared_ptr<AscendMemory> owner, uint64_t bytes,
                                   uint64_t taken, uint64_t address, uint64_t epoch)
    : Allocation(owner->chip(), bytes),
      owner_(std::move(owner)),
      taken_(taken),
      address_(address),
      epoch_(epoch) {}

AscendAllocation::~AscendAllocation() {
  // Refused if a reset has taken it.
  owner_->host_->Send(FreeRequest(address_, epoch_), [](const Reply&) {});
  owner_->GiveBack(taken_);
}

absl::Status AscendAllocation::CheckAlive() const {
  if (owner_->host_->epoch() == epoch_) return absl::OkStatus();
  return Error(reason::kDeviceFailed,
               absl::StrCat("chips/", chip(), " was reset after a fault, and this memory is gone"))
      .Hint("create the buffer again, and upload its contents");
}

template <typename Put, typename Take>
absl::Status AscendAllocation::Transfer(uint32_t kind, uint64_t offset, uint64_t bytes, Put put,
                                        Take take) {
  PTO_CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset,
            "a copy lies within its memory");
  PTO_RETURN_IF_ERROR(CheckAlive());
  struct Chunk {
    uint32_t slot;
    uint64_t at;
    uint64_t bytes;
    std::shared_ptr<Waiting> waiting;
  };
  ChipHost& host = *owner_->host_;
  std::deque<Chunk> chunks;
  absl::Status result;
  uint64_t at = 0;
  const auto begin = [&](uint32_t slot) {
    Chunk chunk = {slot, at, std::min(kSlotBytes, bytes - at), std::make_shared<Waiting>()};
    put(host.SlotData(slot), chunk.at, chunk.bytes);
    Request request;
    request.kind = kind;
    request.epoch = epoch_;
    request.address = address_ + offset + chunk.at;
    request.bytes = chunk.bytes;
    request.slot = slot;
    host.Send(std::move(request), [waiting = chunk.waiting](const Reply& reply) {
      MutexLock lock(waiting->mutex);
      waiting->answered = true;
      waiting->status = reply.status;
      waiting->changed.NotifyAll();
    });
    at += chunk.bytes;
    chunks.push_back(std::move(chunk));
  };
  while (true) {
    if (at < bytes && result.ok() && chunks.size() < kInFlight) {
      // Waits for a slot only while it has none: copies that each hold one and wait for another
      // would wait for ever.
      const absl::optional<uint32_t> slot = chunks.empty() ? host.TakeSlot() : host.TryTakeSlot();
      if (slot.has_value()) {
        begin(*slot);
        continue;
      }
    }
    if (chunks.empty()) break;
    const Chunk chunk = std::move(chunks.front());
    chunks.pop_front();
    result.Update(chunk.waiting->Await());
    if (result.ok()) take(host.SlotData(chunk.slot), chunk.at, chunk.bytes);
    host.GiveSlot(chunk.slot);
  }
  return result;
}

absl::Status AscendAllocation::Write(uint64_t offset, const void* from, uint64_t bytes) {
  return Transfer(
      Request::kWrite, offset, bytes,
      [from](std::byte* slot, uint64_t at, uint64_t size) {
        std::memcpy(slot, static_cast<const std::byte*>(from) + at, size);
      },
      [](const std::byte*, uint64_t, uint64_t) {});
}

absl::Status AscendAllocation::Read(uint64_t offset, void* to, uint64_t bytes) {
  return Transfer(
      Request::kRead, offset, bytes, [](std::byte*, uint64_t, uint64_t) {},
      [to](const std::byte* slot, uint64_t at, uint64_t size) {
        std::memcpy(static_cast<std::byte*>(to) + at, slot, size);
      });
}

absl::Status AscendAllocation::Fill(uint64_t offset, uint64_t bytes, std::byte value) {
  PTO_CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset,
            "a fill lies within its memory");
  PTO_RETURN_IF_ERROR(CheckAlive());
  Request request;
  request.kind = Request::kFill;
  request.epoch = epoch_;
  request.address = address_ + offset;
  request.bytes = bytes;
  request.slot = static_cast<uint32_t>(value);
  return owner_->host_->Call(std::move(request)).status();
}

absl::Status AscendAllocation::CopyFrom(uint64_t offset, engine::Allocation& from,
                                        uint64_t from_offset, uint64_t bytes) {
  auto* const other = dynamic_cast<AscendAllocation*>(&from);
  if (other == nullptr || other->owner_ != owner_) {
    return Allocation::CopyFrom(offset, from, from_offset, bytes);
  }
  PTO_CHECK(offset <= this->bytes() && bytes <= this->bytes() - offset &&
                from_offset <= from.bytes() && bytes <= from.bytes() - from_offset,
            "a copy lies within its memory");
  PTO_RETURN_IF_ERROR(CheckAlive());
  PTO_RETURN_IF_ERROR(other->CheckAlive());
  Request request;
  request.kind = Request::kCopy;
  request.epoch = epoch_;
  request.address = address_ + offset;
  request.from = other->address_ + from_offset;
  request.bytes = bytes;
  return owner_->host_->Call(std::move(request)).status();
}

}  // namespace pto::ascend
