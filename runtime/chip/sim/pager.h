#pragma once

#include <cstddef>
#include <cstdint>

namespace pto::engine {

// The calls of the system that a PagePool makes. For tests, which let them fail. Thread-safe.
class Pager {
 public:
  virtual ~Pager() = default;

  // Maps zeroed pages: anywhere, or at `at` in place of what is there. nullptr if the host refuses;
  // errno says why.
  virtual std::byte* Map(std::byte* at, uint64_t bytes);
  // False if the host refuses: to unmap a part of a mapping takes another mapping.
  virtual bool Unmap(std::byte* data, uint64_t bytes);
  // Frees the pages, which are zero when they are next touched. Needs no mapping.
  virtual bool Empty(std::byte* data, uint64_t bytes);
  // Whether the range is to have large pages. Only an optimisation, so errors are ignored.
  virtual void UseLargePages(std::byte* data, uint64_t bytes, bool use);

  static Pager& Real();
};

}  // namespace pto::engine
