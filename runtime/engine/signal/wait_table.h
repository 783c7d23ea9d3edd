#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/signal/foreign_words.h"
#include "runtime/engine/signal/signal_word.h"
#include "runtime/engine/signal/wait_tree.h"

namespace pto::engine {

// How a wait ended.
enum class WaitEnd { kHolds, kTimedOut, kCancelled };

// Waits until a signal compares true. Owned by the code that waits. While it is in a WaitTable, the
// table may use it until it is claimed.
class Waiter : private WaitTree::Node {
 public:
  Waiter(const SignalWord& signal, pto_compare compare, int64_t value)
      : signal_(signal), compare_(compare), value_(value), foreign_(signal.foreign()) {}
  virtual ~Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  const SignalWord& signal() const { return signal_; }
  pto_compare compare() const { return compare_; }
  int64_t value() const { return value_; }
  bool Holds(int64_t have) const { return signal_.Compares(compare_, have, value_); }

  // Says that code of other processes may change the word without telling. The words of each owner
  // get their share of what LookAtForeign looks at. Before WaitTable::Add.
  void set_foreign(const void* owner) {
    foreign_ = true;
    owner_ = owner;
  }
  bool foreign() const { return foreign_; }

  // Claims the right to end the wait. Only the first caller gets it: that caller must call
  // WaitTable::End, and the waiter stays alive until then. The caller must ensure that the waiter
  // is alive now.
  bool Claim() { return !claimed_.exchange(true, std::memory_order_acq_rel); }

 protected:
  // The wait has ended. Called once, from any thread, without locks held. May destroy the waiter.
  virtual void OnEnd(WaitEnd end) = 0;

 private:
  friend class WaitTable;

  const SignalWord signal_;
  const pto_compare compare_;
  const int64_t value_;
  bool foreign_;
  const void* owner_ = nullptr;
  std::atomic<bool> claimed_{false};
  bool entered_ = false;          // guarded by the lock of the table's bucket
  Waiter* next_woken_ = nullptr;  // for the thread that has claimed it
};

// The waiters of all words, found by the word's address. Notify changes a word and then looks for
// waiters; Add enters a waiter and then reads the word. So no change is missed. Changing a word
// without waiters costs one additional load.
//
// The waiters of a word are ordered by the values that release them: those that wait for it to rise
// or fall by threshold, those that wait for equality or inequality by value. So Notify visits only
// the waiters that it releases, however many there are.
//
// Nobody notifies a foreign word (Waiter::foreign). As long as there are waits for such words,
// somebody must call LookAtForeign again and again: WordPoller. Thread-safe.
class WaitTable {
 public:
  WaitTable() = default;
  ~WaitTable();
  WaitTable(const WaitTable&) = delete;
  WaitTable& operator=(const WaitTable&) = delete;

  // Enters the waiter. Returns false if the signal already compares true; then the waiter was not
  // entered. Otherwise `entered` is called before the wait can end. OnEnd is called once, possibly
  // before this returns, unless `entered` claims the waiter.
  bool Add(Waiter& waiter, absl::FunctionRef<void()> entered);

  // Changes the word and ends the waits whose condition holds now. Of equal waits, the oldest ends
  // first.
  void Notify(const SignalWord& signal, pto_notify_op op, int64_t value);

  // The number of waits for foreign words.
  size_t foreign() const { return foreign_.waits(); }
  // `wake` is called when there is a wait for a foreign word and there was none before. It must
  // return at once and not call the table. Before the first wait.
  void OnForeign(std::function<void()> wake) { foreign_.OnFirst(std::move(wake)); }
  // Reads foreign words that are waited for, up to ForeignWords::kShare of each owner, and ends the
  // waits whose condition holds. Later calls read the others. Returns the number of waits for
  // foreign words that are left.
  size_t LookAtForeign();

  // Ends a wait that the caller has claimed.
  void End(Waiter& waiter, WaitEnd end);

  // The number of waiters. May be out of date at once.
  size_t size() const;
  // The number of waiters visited so far. Tests use it to measure work.
  uint64_t steps();

 private:
  struct alignas(64) Bucket {
    Mutex mutex;
    // Read without the lock, in one order with the changes of words.
    std::atomic<uint32_t> count{0};
    uint64_t next_order ABSL_GUARDED_BY(mutex) = 0;
    WaitTree waiters ABSL_GUARDED_BY(mutex);
  };
  static constexpr size_t kBuckets = 1024;

  // Waiters that were removed and claimed, in order.
  class Woken {
   public:
    explicit Woken(ForeignWords& foreign) : foreign_(foreign) {}
    Waiter* first() const { return first_; }
    // If another thread has claimed the waiter, that thread ends it, and it may be gone once the
    // lock of its bucket is released.
    void Add(Waiter& waiter) {
      waiter.entered_ = false;
      if (waiter.foreign_) foreign_.Remove(waiter.signal_.address);
      if (!waiter.Claim()) return;
      *end_ = &waiter;
      end_ = &waiter.next_woken_;
    }

   private:
    ForeignWords& foreign_;
    Waiter* first_ = nullptr;
    Waiter** end_ = &first_;
  };

  Bucket& BucketOf(const void* address) {
    // The highest bits of the product depend on all bits of the address.
    return buckets_[reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15 >> 54];
  }
  static WaitTree::Key KeyOf(const Waiter& waiter, uint64_t order);
  // Removes the waiters of a word whose condition holds.
  static void TakeHolding(Bucket& bucket, const void* address, Woken* woken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket.mutex);
  // Removes the released waiters of one group. Returns how many.
  static uint32_t TakeGroup(WaitTree& waiters, uint64_t group, int64_t have, Woken* woken);

  // Ends the waits for a word whose condition holds.
  void Release(Bucket& bucket, const void* address);

  std::array<Bucket, kBuckets> buckets_;
  ForeignWords foreign_;
};

}  // namespace pto::engine
