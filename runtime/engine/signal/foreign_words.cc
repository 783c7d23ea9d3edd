#include "runtime/engine/signal/foreign_words.h"

namespace pto::engine {

void ForeignWords::Add(const void* word) {
  MutexLock lock(mutex_);
  ++words_[word];
  if (waits_.fetch_add(1, std::memory_order_seq_cst) == 0 && wake_ != nullptr) wake_();
}

void ForeignWords::Remove(const void* word) {
  MutexLock lock(mutex_);
  waits_.fetch_sub(1, std::memory_order_seq_cst);
  const auto found = words_.find(word);
  if (--found->second == 0) words_.erase(found);
}

std::vector<const void*> ForeignWords::Words() const {
  std::vector<const void*> words;
  MutexLock lock(mutex_);
  words.reserve(words_.size());
  for (const auto& [word, waits] : words_) words.push_back(word);
  return words;
}

}  // namespace pto::engine
