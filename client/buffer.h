#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/mapped_buffer.h"
#include "client/options.h"

namespace pto {

namespace internal {
class BufferShare;
class Core;
class SessionState;
}  // namespace internal

// A handle of memory on a chip: a buffer of a session, or of a window of a domain. Copies mean the
// same memory; the memory lives until it is deleted or its session ends. Made by Session.
// Thread-safe.
//
// Bytes travel in chunks on the connection for bulk data, so that they do not hold up control
// calls. On the daemon's own machine, 64 KiB and more of a buffer of the session go through memory
// that both have mapped instead: one copy, no chunks, and nothing else is different (see
// ClientOptions::broker). A transfer without a timeout of its own gets one second for each 256 MiB
// on top of the client's. When a write fails, part of it may have happened. Writing or reading
// while a run uses the buffer is FAILED_PRECONDITION / BUFFER_IN_USE; outside it, OUT_OF_RANGE /
// RANGE_OUT_OF_BOUNDS.
class Buffer {
 public:
  using Bytes = std::span<const std::byte>;
  using WritableBytes = std::span<std::byte>;

  // `sessions/{session}/buffers/{id}`.
  const std::string& name() const { return name_; }
  // What a graph calls the buffer: the last part of the name, or for one of a domain's window all
  // that follows the session.
  absl::string_view id() const;
  uint32_t chip() const { return chip_; }
  uint64_t bytes() const { return bytes_; }

  // Writes to the buffer. `offset` is in bytes.
  absl::Status Write(Bytes data, uint64_t offset = 0,
                     absl::Duration timeout = kDefaultTimeout) const;
  // Fills `data` from the buffer.
  absl::Status Read(WritableBytes data, uint64_t offset = 0,
                    absl::Duration timeout = kDefaultTimeout) const;

  // The same for a vector, array or span of elements; `offset` is in bytes still.
  template <std::ranges::contiguous_range R>
    requires std::is_trivially_copyable_v<std::ranges::range_value_t<R>>
  absl::Status Write(const R& data, uint64_t offset = 0,
                     absl::Duration timeout = kDefaultTimeout) const {
    return Write(Bytes(std::as_bytes(std::span(data))), offset, timeout);
  }
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  absl::Status Read(std::span<T> data, uint64_t offset = 0,
                    absl::Duration timeout = kDefaultTimeout) const {
    return Read(WritableBytes(std::as_writable_bytes(data)), offset, timeout);
  }
  // Returns `count` elements.
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  absl::StatusOr<std::vector<T>> Read(uint64_t count, uint64_t offset = 0,
                                      absl::Duration timeout = kDefaultTimeout) const {
    if (absl::Status fits = CheckRange(offset, count, sizeof(T)); !fits.ok()) return fits;
    std::vector<T> data(count);
    absl::Status read = Read(std::span<T>(data), offset, timeout);
    if (!read.ok()) return read;
    return data;
  }

  // Maps the buffer's memory, so that nothing is copied at all. For buffers of a session that this
  // client created, on the daemon's own machine. Errors: as those of Write; UNIMPLEMENTED /
  // NOT_AVAILABLE when it cannot be mapped, RESOURCE_EXHAUSTED / CHIP_MEMORY_EXHAUSTED while no
  // more memory can be shared: then use Write and Read.
  absl::StatusOr<MappedBuffer> Map(absl::Duration timeout = kDefaultTimeout) const;

  // Frees the memory; when a run uses it, as soon as that run has ended.
  absl::Status Delete(absl::Duration timeout = kDefaultTimeout) const;

 private:
  friend class Domain;
  friend class Session;
  Buffer(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::SessionState> session,
         std::string name, uint32_t chip, uint64_t bytes);

  // The buffer was deleted.
  void Forget() const;
  // Before memory is set aside for what cannot be read.
  absl::Status CheckRange(uint64_t offset, uint64_t count, uint64_t element_bytes) const;

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::SessionState> session_;
  std::string name_;
  uint32_t chip_;
  uint64_t bytes_;
  std::shared_ptr<internal::BufferShare> share_;  // nullptr when all goes over gRPC
};

}  // namespace pto
