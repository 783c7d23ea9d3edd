#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/signal_word.h"

namespace pto {

// How a wait ended.
enum class WaitEnd { kHolds, kTimedOut, kCancelled };

// Somebody who waits for a signal to compare true. Owned by whoever waits; while it is in a
// WaitTable nobody else may touch it.
class Waiter {
 public:
  Waiter(const SignalWord& signal, pto_compare compare, int64_t value)
      : signal_(signal), compare_(compare), value_(value) {}
  virtual ~Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  const SignalWord& signal() const { return signal_; }
  pto_compare compare() const { return compare_; }
  int64_t value() const { return value_; }
  bool Holds(int64_t have) const { return Compares(compare_, have, value_); }
  // Names it in its table, also when it is gone. Set by the table.
  uint64_t id() const { return id_; }

 protected:
  // The wait has ended; called once, from any thread, without locks held. May end its life.
  virtual void OnEnd(WaitEnd end) = 0;

 private:
  friend class WaitTable;

  const SignalWord signal_;
  const pto_compare compare_;
  const int64_t value_;
  uint64_t id_ = 0;
  Waiter* previous_ = nullptr;
  Waiter* next_ = nullptr;
};

// Who waits for which word of memory, found by the word's address. A word is changed first and
// its waiters are looked up then; a waiter is entered first and looks at the word then: so no
// change between the two is lost. Costs nothing that anybody would see for words that nobody
// waits for. Any number may wait. Thread-safe.
class WaitTable {
 public:
  // Where to find a waiter that may have gone meanwhile.
  struct Key {
    void* address = nullptr;
    uint64_t id = 0;
  };

  WaitTable() = default;
  ~WaitTable();
  WaitTable(const WaitTable&) = delete;
  WaitTable& operator=(const WaitTable&) = delete;

  // A key for one waiter, so that others can end a wait from its beginning on.
  Key NewKey(const Waiter& waiter) {
    return {waiter.signal_.address, next_id_.fetch_add(1, std::memory_order_relaxed)};
  }

  // Enters the waiter. Returns false when the signal compares true already: then it was never
  // entered. Otherwise `entered` is called before anybody else can see the waiter, and OnEnd is
  // called once, perhaps before this returns.
  bool Add(Waiter& waiter, const Key& key, absl::FunctionRef<void()> entered);

  // Changes the word, and ends the waits for it that now hold.
  void Notify(const SignalWord& signal, pto_notify_op op, int64_t value);

  // Ends a wait, unless it has ended. Returns whether it did.
  bool End(const Key& key, WaitEnd end);

  // How many wait. Exact only under no change.
  size_t size() const;

 private:
  struct alignas(64) Bucket {
    Mutex mutex;
    // Part of one order with the changes of words; so it is read without the lock.
    std::atomic<uint32_t> count{0};
    Waiter* first ABSL_GUARDED_BY(mutex) = nullptr;
    Waiter* last ABSL_GUARDED_BY(mutex) = nullptr;
  };
  static constexpr size_t kBuckets = 1024;

  Bucket& BucketOf(const void* address) {
    // The highest bits of the product depend on all bits of the address.
    return buckets_[reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15 >> 54];
  }
  static void Unlink(Bucket& bucket, Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket.mutex);

  std::atomic<uint64_t> next_id_{1};
  std::array<Bucket, kBuckets> buckets_;
};

}  // namespace pto
