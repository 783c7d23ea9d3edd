#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pto {

// Something that is to happen at a time, as a base of what it happens to. Knows its place in its
// DeadlineHeap, so that it can be taken out again.
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

// Deadlines in order of time, then of addition: a binary heap. Adding one that is later than all
// others, as most are, takes constant time. Owns none of them. Not thread-safe: its owner locks.
class DeadlineHeap {
 public:
  void Add(Deadline& deadline, int64_t at_ns);
  // Does nothing when it is not in the heap.
  void Remove(Deadline& deadline);

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  // Of the first one; only when there is one.
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
  // Both put the entry there, or where it belongs on the way to the root or to the leaves.
  void SiftUp(size_t place, const Entry& entry);
  void SiftDown(size_t place, const Entry& entry);

  uint64_t next_number_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace pto
