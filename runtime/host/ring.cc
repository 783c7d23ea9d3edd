#include "runtime/host/ring.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::host {
namespace {

// In front of each message: its size. Messages begin at multiples of this, so a size never wraps.
constexpr uint64_t kUnit = 8;

uint64_t Taken(uint64_t message_bytes) {
  return kUnit + (message_bytes + kUnit - 1) / kUnit * kUnit;
}

absl::Status Broken(absl::string_view what) {
  return Error(reason::kHostLost, absl::StrCat("the ring is broken: ", what));
}

std::atomic<uint32_t>& SizeAt(const RingMemory& memory, uint64_t position) {
  return *reinterpret_cast<std::atomic<uint32_t>*>(memory.data + (position & (memory.bytes - 1)));
}

}  // namespace

uint32_t ClaimSleepers(RingHeader& header, uint32_t most) {
  uint32_t sleepers = header.sleepers.load(std::memory_order_seq_cst);
  while (most > 0 && sleepers > 0) {
    const uint32_t claimed = std::min(most, sleepers);
    if (header.sleepers.compare_exchange_weak(sleepers, sleepers - claimed,
                                              std::memory_order_seq_cst)) {
      return claimed;
    }
  }
  return 0;
}

absl::StatusOr<bool> RingWriter::Write(absl::Span<const std::byte> message) {
  PTO_CHECK(message.size() <= memory_.max_message(), "a message is too large for its ring");
  const uint64_t needed = Taken(message.size());
  if (tail_ - head_ + needed > memory_.bytes) {
    const uint64_t head = memory_.header->head.load(std::memory_order_acquire);
    // It only grows, and not beyond what was written.
    if (head < head_ || head > tail_ || head % kUnit != 0) {
      return Broken(absl::StrCat("read up to ", head, " of ", tail_, ", after ", head_));
    }
    head_ = head;
    if (tail_ - head_ + needed > memory_.bytes) return false;
  }
  SizeAt(memory_, tail_).store(static_cast<uint32_t>(message.size()), std::memory_order_relaxed);
  const uint64_t begin = (tail_ + kUnit) & (memory_.bytes - 1);
  const uint64_t first = std::min<uint64_t>(message.size(), memory_.bytes - begin);
  if (first > 0) std::memcpy(memory_.data + begin, message.data(), first);
  if (first < message.size()) {
    std::memcpy(memory_.data, message.data() + first, message.size() - first);
  }
  tail_ += needed;
  ++sent_;
  return true;
}

uint32_t RingWriter::Publish() {
  RingHeader& header = *memory_.header;
  header.sent.store(sent_, std::memory_order_relaxed);
  // Before the look at the readers, as they announce themselves before they look at the tail.
  header.tail.store(tail_, std::memory_order_seq_cst);
  if (header.sleepers.load(std::memory_order_seq_cst) == 0) return 0;
  const uint32_t waiting = sent_ - header.taken.load(std::memory_order_seq_cst);
  const uint32_t spinners = header.spinners.load(std::memory_order_seq_cst);
  return waiting > spinners ? ClaimSleepers(header, waiting - spinners) : 0;
}

absl::StatusOr<bool> RingReader::Read(std::vector<std::byte>* message) {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  const uint64_t tail = memory_.header->tail.load(std::memory_order_acquire);
  if (tail == head) return false;
  const uint64_t available = tail - head;
  if (available > memory_.bytes || available % kUnit != 0) {
    return Broken(absl::StrCat("written up to ", tail, ", but read up to ", head));
  }
  // Read once: the other side may change it at any time.
  const uint32_t size = SizeAt(memory_, head).load(std::memory_order_relaxed);
  if (size > memory_.max_message() || Taken(size) > available) {
    return Broken(
        absl::StrCat("a message of ", size, " bytes, where ", available, " were written"));
  }
  message->resize(size);
  const uint64_t begin = (head + kUnit) & (memory_.bytes - 1);
  const uint64_t first = std::min<uint64_t>(size, memory_.bytes - begin);
  if (first > 0) std::memcpy(message->data(), memory_.data + begin, first);
  if (first < size) std::memcpy(message->data() + first, memory_.data, size - first);
  head_.store(head + Taken(size), std::memory_order_relaxed);
  memory_.header->taken.store(++taken_, std::memory_order_relaxed);
  memory_.header->head.store(head + Taken(size), std::memory_order_seq_cst);
  return true;
}

bool RingReader::BeginSleep() {
  memory_.header->sleepers.fetch_add(1, std::memory_order_seq_cst);
  return !has_more();
}

bool RingReader::BeginOnlySleep() {
  memory_.header->sleepers.store(1, std::memory_order_seq_cst);
  if (!has_more()) return true;
  EndOnlySleep();
  return false;
}

bool RingReader::PassOn() {
  RingHeader& header = *memory_.header;
  if (!has_more() || header.sleepers.load(std::memory_order_seq_cst) == 0) return false;
  const uint32_t waiting =
      header.sent.load(std::memory_order_seq_cst) - header.taken.load(std::memory_order_seq_cst);
  if (waiting <= header.spinners.load(std::memory_order_seq_cst)) return false;
  return ClaimSleepers(header, 1) > 0;
}

}  // namespace pto::host
