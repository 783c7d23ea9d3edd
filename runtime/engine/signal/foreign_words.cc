#include "runtime/engine/signal/foreign_words.h"

#include <algorithm>

namespace pto::engine {

void ForeignWords::Add(const void* word, const void* owner) {
  MutexLock lock(mutex_);
  Word& entry = words_[word];
  if (entry.waits++ == 0) {
    std::vector<const void*>& all = owners_[owner].words;
    entry.owner = owner;
    entry.index = all.size();
    all.push_back(word);
  }
  if (waits_.fetch_add(1, std::memory_order_seq_cst) == 0 && wake_ != nullptr) wake_();
}

void ForeignWords::Remove(const void* word) {
  MutexLock lock(mutex_);
  waits_.fetch_sub(1, std::memory_order_seq_cst);
  const auto found = words_.find(word);
  if (--found->second.waits > 0) return;
  const auto owner = owners_.find(found->second.owner);
  std::vector<const void*>& all = owner->second.words;
  const size_t index = found->second.index;
  words_.erase(found);
  if (index + 1 < all.size()) {
    all[index] = all.back();
    words_.find(all[index])->second.index = index;
  }
  all.pop_back();
  if (all.empty()) owners_.erase(owner);
}

std::vector<const void*> ForeignWords::TakeNext() {
  std::vector<const void*> words;
  MutexLock lock(mutex_);
  for (auto& [key, owner] : owners_) {
    for (size_t left = std::min(owner.words.size(), kShare); left > 0; --left) {
      if (owner.next >= owner.words.size()) owner.next = 0;
      words.push_back(owner.words[owner.next++]);
    }
  }
  return words;
}

}  // namespace pto::engine
