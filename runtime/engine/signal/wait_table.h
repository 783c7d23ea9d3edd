#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/signal/signal_word.h"
#include "runtime/engine/signal/wait_tree.h"

namespace pto {

// How a wait ended.
enum class WaitEnd { kHolds, kTimedOut, kCancelled };

// Somebody who waits for a signal to compare true. Owned by whoever waits. While it is in a
// WaitTable it belongs to the table, until somebody claims it.
class Waiter : private WaitTree::Node {
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

  // Takes the right to end the wait, which only the first caller gets: it, and nobody else, calls
  // WaitTable::End, and until then the waiter stays alive. The caller must know by other means that
  // the waiter is alive now.
  bool Claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }

 protected:
  // The wait has ended; called once, from any thread, without locks held. May end its life.
  virtual void OnEnd(WaitEnd end) = 0;

 private:
  friend class WaitTable;

  const SignalWord signal_;
  const pto_compare compare_;
  const int64_t value_;
  std::atomic<bool> claimed_{false};
  bool entered_ = false;          // guarded by the lock of the table's bucket
  Waiter* next_woken_ = nullptr;  // belongs to whoever has claimed it
};

// Who waits for which word of memory, found by the word's address. A word is changed first and
// its waiters are looked up then; a waiter is entered first and looks at the word then: so no
// change between the two is lost. A change of a word that nobody waits for costs one more load.
//
// The waiters of a word are ordered by what releases them: those that wait for it to rise and to
// fall by their thresholds, those for one value, and for any other, by that value. So Notify looks
// only at those that it releases, however many wait. Any number may wait. Thread-safe.
class WaitTable {
 public:
  WaitTable() = default;
  ~WaitTable();
  WaitTable(const WaitTable&) = delete;
  WaitTable& operator=(const WaitTable&) = delete;

  // Enters the waiter. Returns false when the signal compares true already: then it was never
  // entered. Otherwise `entered` is called before the waiter can end, and OnEnd is called once,
  // perhaps before this returns, unless `entered` has claimed the waiter.
  bool Add(Waiter& waiter, absl::FunctionRef<void()> entered);

  // Changes the word, and ends the waits for it that now hold: of those that wait for the same,
  // the one that came first is the first to go on.
  void Notify(const SignalWord& signal, pto_notify_op op, int64_t value);

  // Ends a wait that the caller has claimed.
  void End(Waiter& waiter, WaitEnd end);

  // How many wait. Exact only under no change.
  size_t size() const;
  // Waiters that were looked at so far: the work done, which tests count.
  uint64_t steps();

 private:
  struct alignas(64) Bucket {
    Mutex mutex;
    // Part of one order with the changes of words; so it is read without the lock.
    std::atomic<uint32_t> count{0};
    uint64_t next_order ABSL_GUARDED_BY(mutex) = 0;
    WaitTree waiters ABSL_GUARDED_BY(mutex);
  };
  static constexpr size_t kBuckets = 1024;

  // Those that were taken out and claimed, in order.
  class Woken {
   public:
    Waiter* first() const { return first_; }
    // If somebody else has claimed it, it ends for another reason, and may be gone when the lock of
    // its bucket is released.
    void Add(Waiter& waiter) {
      waiter.entered_ = false;
      if (!waiter.Claim()) return;
      *end_ = &waiter;
      end_ = &waiter.next_woken_;
    }

   private:
    Waiter* first_ = nullptr;
    Waiter** end_ = &first_;
  };

  Bucket& BucketOf(const void* address) {
    // The highest bits of the product depend on all bits of the address.
    return buckets_[reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15 >> 54];
  }
  static WaitTree::Key KeyOf(const Waiter& waiter, uint64_t order);
  // Takes out those of a word that hold.
  static void TakeHolding(Bucket& bucket, const void* address, Woken* woken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket.mutex);
  // Takes out those of one group of its waiters. Returns how many.
  static uint32_t TakeGroup(WaitTree& waiters, uint64_t group, int64_t have, Woken* woken);

  std::array<Bucket, kBuckets> buckets_;
};

}  // namespace pto
