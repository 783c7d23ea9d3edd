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

// A handle of device memory: a buffer of a session or of a domain window. All copies refer to the
// same memory, which exists until it is deleted or its session ends. Created by Session.
// Thread-safe.
//
// Transfers use a separate bulk-data connection, in pieces, so that they do not delay control
// calls. On the daemon's machine, transfers of 64 KiB or more to a buffer of a session use shared
// memory instead: one copy, otherwise the same behaviour (see ClientOptions::broker). A transfer
// without an explicit timeout gets the client's timeout plus one second per 256 MiB. A failed write
// may have written part of the data. Errors: FAILED_PRECONDITION / BUFFER_IN_USE if a run uses the
// buffer, OUT_OF_RANGE / RANGE_OUT_OF_BOUNDS for an access outside the buffer.
class Buffer {
 public:
  using Bytes = std::span<const std::byte>;
  using WritableBytes = std::span<std::byte>;

  // `sessions/{session}/buffers/{id}`.
  const std::string& name() const { return name_; }
  // The name of the buffer in a graph: the last part of the full name or, for a buffer of a domain
  // window, everything after the session.
  absl::string_view id() const;
  uint32_t chip() const { return chip_; }
  uint64_t bytes() const { return bytes_; }

  // Writes to the buffer. `offset` is in bytes.
  absl::Status Write(Bytes data, uint64_t offset = 0,
                     absl::Duration timeout = kDefaultTimeout) const;
  // Fills `data` from the buffer.
  absl::Status Read(WritableBytes data, uint64_t offset = 0,
                    absl::Duration timeout = kDefaultTimeout) const;

  // The same for a vector, array or span of elements. `offset` is in bytes here too.
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
  // Reads and returns `count` elements.
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

  // Maps the memory of the buffer into this process, which avoids all copies. Works for buffers of
  // a session that this client created, on the daemon's machine. Errors: those of Write;
  // UNIMPLEMENTED / NOT_AVAILABLE if the buffer cannot be mapped; RESOURCE_EXHAUSTED /
  // CHIP_MEMORY_EXHAUSTED while no more memory can be shared. In both cases use Write and Read.
  absl::StatusOr<MappedBuffer> Map(absl::Duration timeout = kDefaultTimeout) const;

  // Frees the memory. If a run uses it, the memory is freed when the run ends.
  absl::Status Delete(absl::Duration timeout = kDefaultTimeout) const;

 private:
  friend class Domain;
  friend class Session;
  Buffer(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::SessionState> session,
         std::string name, uint32_t chip, uint64_t bytes);

  // Called after the buffer was deleted.
  void Forget() const;
  // Rejects an invalid range before Read allocates memory for it.
  absl::Status CheckRange(uint64_t offset, uint64_t count, uint64_t element_bytes) const;

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::SessionState> session_;
  std::string name_;
  uint32_t chip_;
  uint64_t bytes_;
  std::shared_ptr<internal::BufferShare> share_;  // nullptr if all transfers use gRPC
};

}  // namespace pto
