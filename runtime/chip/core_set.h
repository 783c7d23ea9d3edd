#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pto::engine {

// A set of small numbers, for example cores, with fast access to the smallest. Not thread-safe.
class CoreSet {
 public:
  // An empty set of numbers below `capacity`.
  explicit CoreSet(uint32_t capacity) : words_((capacity + 63) / 64) {}

  bool Has(uint32_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void Add(uint32_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void Remove(uint32_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  void Clear() { words_.assign(words_.size(), 0); }

  // The smallest element; -1 if the set is empty.
  int32_t First() const {
    for (size_t w = 0; w < words_.size(); ++w) {
      if (words_[w] != 0) {
        return static_cast<int32_t>(w * 64 + static_cast<size_t>(std::countr_zero(words_[w])));
      }
    }
    return -1;
  }
  bool empty() const { return First() < 0; }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace pto::engine
