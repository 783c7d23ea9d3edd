#include "runtime/engine/signal/wait_table.h"

#include <limits>

#include "runtime/base/log.h"

namespace pto::engine {
namespace {

// The waiters of one word with the same dtype and kind are a group. Its number, the first part of
// their keys, is the word's address, the dtype and the kind.
constexpr int kGroupBits = 4;
constexpr uint64_t kWideBit = 4;     // the word has 64 bits
constexpr uint64_t kForeignBit = 8;  // and no sign
enum Kind : uint64_t {
  kRises,  // >= and >; the threshold is the value
  kFalls,  // <= and <; the threshold is ~value, which rises when the value falls
  kIs,
  kIsNot,
  kKindMask = 3,
};

// Among waiters with the same threshold, strict ones come last: > after >=.
constexpr uint64_t kStrictBit = uint64_t{1} << 63;
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

uint64_t TypeBits(uint32_t dtype) {
  return (dtype == PTO_I64 || dtype == PTO_U64 ? kWideBit : 0) |
         (dtype == PTO_U32 || dtype == PTO_U64 ? kForeignBit : 0);
}

uint32_t TypeOf(uint64_t group) {
  const bool wide = (group & kWideBit) != 0;
  if ((group & kForeignBit) != 0) return wide ? PTO_U64 : PTO_U32;
  return wide ? PTO_I64 : PTO_I32;
}

// Thresholds compare with a sign. Those of words without one are moved, so that their order stays.
int64_t Ordered(uint64_t group, int64_t value) {
  return (group & kForeignBit) == 0 ? value : value ^ kLeast;
}

uint64_t FirstGroupOf(const void* address) {
  return uint64_t{reinterpret_cast<uintptr_t>(address)} << kGroupBits;
}

Kind KindOf(pto_compare compare) {
  switch (compare) {
    case PTO_GE:
    case PTO_GT:
      return kRises;
    case PTO_LE:
    case PTO_LT:
      return kFalls;
    case PTO_EQ:
      return kIs;
    default:
      return kIsNot;
  }
}

}  // namespace

WaitTable::~WaitTable() { PTO_CHECK(size() == 0, "somebody still waits for a signal"); }

WaitTree::Key WaitTable::KeyOf(const Waiter& waiter, uint64_t order) {
  const Kind kind = KindOf(waiter.compare_);
  const bool strict = waiter.compare_ == PTO_GT || waiter.compare_ == PTO_LT;
  const uint64_t group =
      FirstGroupOf(waiter.signal_.address) | TypeBits(waiter.signal_.dtype) | kind;
  const int64_t value = Ordered(group, waiter.value_);
  return {group, kind == kFalls ? ~value : value, order | (strict ? kStrictBit : 0)};
}

bool WaitTable::Add(Waiter& waiter, absl::FunctionRef<void()> entered) {
  Bucket& bucket = BucketOf(waiter.signal_.address);
  MutexLock lock(bucket.mutex);
  bucket.count.fetch_add(1);
  if (waiter.Holds(waiter.signal_.Load())) {
    bucket.count.fetch_sub(1);
    return false;
  }
  // A thread that changes the word from now on sees the count and takes the lock.
  bucket.waiters.Insert(waiter, KeyOf(waiter, ++bucket.next_order));
  waiter.entered_ = true;
  if (waiter.foreign_) foreign_.Add(waiter.signal_.address, waiter.owner_);
  entered();
  return true;
}

uint32_t WaitTable::TakeGroup(WaitTree& waiters, uint64_t group, int64_t have, Woken* woken) {
  uint32_t count = 0;
  const auto take = [&](const WaitTree::Key& begin, const WaitTree::Key& end) {
    waiters.Extract(begin, end, [&](WaitTree::Node& node) {
      ++count;
      woken->Add(static_cast<Waiter&>(node));
    });
  };
  switch (static_cast<Kind>(group & kKindMask)) {
    case kRises:
      take({group, kLeast, 0}, {group, have, kStrictBit});
      break;
    case kFalls:
      take({group, kLeast, 0}, {group, ~have, kStrictBit});
      break;
    case kIs:
      take({group, have, 0}, {group, have, kStrictBit});
      break;
    default:
      take({group, kLeast, 0}, {group, have, 0});
      take({group, have, kStrictBit}, {group + 1, kLeast, 0});
  }
  return count;
}

void WaitTable::TakeHolding(Bucket& bucket, const void* address, Woken* woken) {
  uint32_t count = 0;
  if (WaitTree::Node* const only = bucket.waiters.only()) {
    // The usual case.
    auto& waiter = static_cast<Waiter&>(*only);
    if (waiter.signal_.address != address || !waiter.Holds(waiter.signal_.Load())) return;
    bucket.waiters.Remove(waiter);
    woken->Add(waiter);
    count = 1;
  } else {
    const uint64_t first = FirstGroupOf(address);
    const uint64_t end = first + (uint64_t{1} << kGroupBits);
    const WaitTree::Node* node = bucket.waiters.LowerBound({first, kLeast, 0});
    while (node != nullptr && node->key().word < end) {
      const uint64_t group = node->key().word;
      const int64_t have = SignalWord{const_cast<void*>(address), TypeOf(group)}.Load();
      count += TakeGroup(bucket.waiters, group, Ordered(group, have), woken);
      node = bucket.waiters.LowerBound({group + 1, kLeast, 0});
    }
  }
  if (count > 0) bucket.count.fetch_sub(count);
}

void WaitTable::Notify(const SignalWord& signal, pto_notify_op op, int64_t value) {
  signal.Change(op, value);
  Bucket& bucket = BucketOf(signal.address);
  if (bucket.count.load() != 0) Release(bucket, signal.address);
}

size_t WaitTable::LookAtForeign() {
  if (foreign() == 0) return 0;
  // A wait keeps the memory of its word. A word that nobody waits for any more is not read.
  for (const void* const word : foreign_.TakeNext()) Release(BucketOf(word), word);
  return foreign();
}

void WaitTable::Release(Bucket& bucket, const void* address) {
  Woken woken(foreign_);
  {
    MutexLock lock(bucket.mutex);
    TakeHolding(bucket, address, &woken);
  }
  for (Waiter* waiter = woken.first(); waiter != nullptr;) {
    Waiter* const next = waiter->next_woken_;
    waiter->OnEnd(WaitEnd::kHolds);
    waiter = next;
  }
}

void WaitTable::End(Waiter& waiter, WaitEnd end) {
  {
    Bucket& bucket = BucketOf(waiter.signal_.address);
    MutexLock lock(bucket.mutex);
    if (waiter.entered_) {
      waiter.entered_ = false;
      if (waiter.foreign_) foreign_.Remove(waiter.signal_.address);
      bucket.waiters.Remove(waiter);
      bucket.count.fetch_sub(1);
    }
  }
  waiter.OnEnd(end);
}

size_t WaitTable::size() const {
  size_t size = 0;
  for (const Bucket& bucket : buckets_) size += bucket.count.load();
  return size;
}

uint64_t WaitTable::steps() {
  uint64_t steps = 0;
  for (Bucket& bucket : buckets_) {
    MutexLock lock(bucket.mutex);
    steps += bucket.waiters.steps();
  }
  return steps;
}

}  // namespace pto::engine
