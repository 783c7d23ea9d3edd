#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "client/kernel_check/crash_record.h"
#include "kernels/pto_kernel.h"

namespace pto::kernel_check {

// Where a view lies in its memory.
enum class Layout {
  kLeft,        // dense, from the first byte behind a guard page on
  kRight,       // dense, up to a guard page
  kOffset,      // dense, with other bytes on both sides
  kPadded,      // with gaps after each row and each plane
  kStrided,     // with gaps between all elements
  kTransposed,  // column-major
};
const char* LayoutName(Layout layout);
inline bool IsDense(Layout layout) { return layout < Layout::kPadded; }

// A tensor between guard pages: whoever leaves its memory gets a signal. Bytes of that memory that
// no element has are its gaps. Elements are numbered in row-major order, for any layout. Not
// thread-safe, but kernels may use the elements from any thread.
class GuardedTensor {
 public:
  GuardedTensor(std::string name, uint32_t dtype, std::vector<int64_t> shape, Layout layout);
  ~GuardedTensor();
  GuardedTensor(const GuardedTensor&) = delete;
  GuardedTensor& operator=(const GuardedTensor&) = delete;

  const std::string& name() const { return name_; }
  uint32_t dtype() const { return dtype_; }
  int64_t size() const { return static_cast<int64_t>(offsets_.size()); }
  pto_tensor view() const;
  // The memory that its kernel may know of: for layouts with something around the view, more than
  // the view.
  void* buffer() const { return memory_ + buffer_offset_; }
  uint64_t buffer_bytes() const { return buffer_bytes_; }

  // ---- contents
  void FillGaps(uint8_t byte);
  // The first gap that does not have this byte any more: which, in words.
  absl::optional<std::string> FindTouchedGap(uint8_t byte) const;
  void FillElements(uint8_t byte);
  // Random values from `low` to `high`; integers are whole.
  void FillRandom(std::mt19937_64& random, double low, double high);
  // The bits of all elements, and back.
  std::vector<uint64_t> Bits() const;
  void SetBits(const std::vector<uint64_t>& bits);
  // The bits of an element that has this byte everywhere.
  uint64_t BitsOf(uint8_t byte) const;
  // An element's value, of these bits.
  double Value(uint64_t bits) const;
  // For messages: the indices of element i, such as "[2,5]".
  std::string Index(int64_t i) const;

  // From now on, writes get a signal too.
  void SetReadOnly(bool read_only);

  // ---- for messages
  // What crash records have to know of it.
  GuardedPlace place() const;

 private:
  // Where in its memory or guard pages the address is, in words.
  std::string Locate(uint64_t address) const;
  uint64_t Read(int64_t i) const;
  void Write(int64_t i, uint64_t bits);

  const std::string name_;
  const uint32_t dtype_;
  const std::vector<int64_t> shape_;
  const size_t element_bytes_;
  std::vector<int64_t> strides_;
  std::vector<size_t> offsets_;  // of the elements in the memory, in bytes
  std::vector<bool> ours_;       // which bytes of the memory belong to elements
  size_t first_ = 0;             // offset of the first element
  size_t end_ = 0;               // behind the last element in memory
  size_t buffer_offset_ = 0;
  size_t buffer_bytes_ = 0;
  uint8_t* mapping_ = nullptr;  // with the guard pages
  size_t mapping_bytes_ = 0;
  uint8_t* memory_ = nullptr;
  size_t memory_bytes_ = 0;
};

}  // namespace pto::kernel_check
