#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pto::engine {

// A base class for objects that have a deadline. It stores its place in the DeadlineHeap, so that
// it can be removed.
class Deadline {
 public:
  enum class Kind : uint8_t { kTask, kWait };

  explicit Deadline(Kind kind) : kind_(kind) {}
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  Kind kind() const { return kind_; }

 private:
  friend class DeadlineHeap;
  static constexpr size_t kNowhere = SIZE_MAX;

  const Kind kind_;
  size_t place_ = kNowhere;
};

// Deadlines ordered by time, then by addition: a binary heap. Adding one that is later than all
// others, the usual case, takes constant time. Does not own the deadlines. Not thread-safe: the
// owner locks.
class DeadlineHeap {
 public:
  void Add(Deadline& deadline, int64_t at_ns);
  // Does nothing if it is not in the heap.
  void Remove(Deadline& deadline);

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // The first deadline. The heap must not be empty.
  int64_t first_ns() const { return entries_[0].at_ns; }
  Deadline& first() const { return *entries_[0].deadline; }

  void Clear();

 private:
  struct Entry {
    int64_t at_ns = 0;
    uint64_t number = 0;
    Deadline* deadline = nullptr;

    bool operator<(const Entry& other) const {
      return at_ns != other.at_ns ? at_ns < other.at_ns : number < other.number;
    }
  };

  void Put(size_t place, const Entry& entry) {
    entries_[place] = entry;
    entry.deadline->place_ = place;
  }
  // Insert the entry at this place, or move it towards the root or the leaves.
  void SiftUp(size_t place, const Entry& entry);
  void SiftDown(size_t place, const Entry& entry);

  uint64_t next_number_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace pto::engine
