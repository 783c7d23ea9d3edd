#include "runtime/chip/sim/pager.h"

#include <sys/mman.h>

namespace pto::engine {

std::byte* Pager::Map(std::byte* at, uint64_t bytes) {
  const int fixed = at == nullptr ? 0 : MAP_FIXED;
  void* const data =
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<std::byte*>(data);
}

bool Pager::Unmap(std::byte* data, uint64_t bytes) { return munmap(data, bytes) == 0; }

bool Pager::Empty(std::byte* data, uint64_t bytes) {
  return madvise(data, bytes, MADV_DONTNEED) == 0;
}

void Pager::UseLargePages(std::byte* data, uint64_t bytes, bool use) {
  (void)madvise(data, bytes, use ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

Pager& Pager::Real() {
  static auto* const pager = new Pager();
  return *pager;
}

}  // namespace pto::engine
