#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/types/span.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/image.h"

namespace pto::engine {

// Writes the sections of an image one after another, each aligned for any record. The tasks, which
// are the largest section, can be written one by one before everything else, directly to their
// final place.
class ImageWriter {
 public:
  ImageWriter() { bytes_.resize(kTasksBegin); }

  // The next task: fill it in, then call KeepTask(). Only before anything else is added.
  ImageTask& NextTask() { return *reinterpret_cast<ImageTask*>(bytes_.next(sizeof(ImageTask))); }
  void KeepTask() { bytes_.keep(sizeof(ImageTask)); }
  // Valid until the next record is added.
  ImageTask* tasks() { return reinterpret_cast<ImageTask*>(bytes_.data() + kTasksBegin); }
  // Ends the section of tasks.
  ImageSection TasksSection() const {
    return {kTasksBegin, (bytes_.size() - kTasksBegin) / sizeof(ImageTask)};
  }

  template <typename Records>
  ImageSection Add(const Records& records) {
    Align();
    const ImageSection section{bytes_.size(), records.size()};
    bytes_.append(AsBytes(records.data(), records.size()));
    return section;
  }
  // Reserves room for records that are written later.
  template <typename T>
  ImageSection AddRoom(size_t count) {
    Align();
    const ImageSection section{bytes_.size(), count};
    bytes_.next(count * sizeof(T));
    bytes_.keep(count * sizeof(T));
    return section;
  }
  // Valid until the next record is added.
  template <typename T>
  T* records(const ImageSection& section) {
    return reinterpret_cast<T*>(bytes_.data() + section.begin);
  }

  // Returns the image. Nothing can be added afterwards.
  BigVector<std::byte> Finish(ImageHeader header) {
    header.bytes = bytes_.size();
    std::memcpy(bytes_.data(), &header, sizeof header);
    bytes_.shrink_to_fit();
    return std::move(bytes_);
  }

 private:
  static constexpr size_t kAlignment = 16;
  static constexpr size_t kTasksBegin =
      (sizeof(ImageHeader) + kAlignment - 1) / kAlignment * kAlignment;

  template <typename T>
  static absl::Span<const std::byte> AsBytes(const T* records, size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment);
    return {reinterpret_cast<const std::byte*>(records), count * sizeof(T)};
  }
  void Align() { bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment); }

  BigVector<std::byte> bytes_;
};

}  // namespace pto::engine
