#include "runtime/engine/signal/foreign_memory.h"

#include <algorithm>
#include <iterator>

namespace pto::engine {
namespace {

uintptr_t Number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

}  // namespace

ForeignMemory& ForeignMemory::OfProcess() {
  static auto* const memory = new ForeignMemory;
  return *memory;
}

void ForeignMemory::Add(const void* begin, size_t bytes) {
  MutexLock lock(mutex_);
  Piece& piece = pieces_[Number(begin)];
  piece.end = std::max(piece.end, Number(begin) + bytes);
  ++piece.count;
  count_.store(pieces_.size(), std::memory_order_release);
}

void ForeignMemory::Remove(const void* begin) {
  MutexLock lock(mutex_);
  const auto found = pieces_.find(Number(begin));
  if (found == pieces_.end() || --found->second.count > 0) return;
  pieces_.erase(found);
  count_.store(pieces_.size(), std::memory_order_release);
}

bool ForeignMemory::Find(const void* address) const {
  MutexLock lock(mutex_);
  const auto after = pieces_.upper_bound(Number(address));
  return after != pieces_.begin() && Number(address) < std::prev(after)->second.end;
}

}  // namespace pto::engine
