#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/buffer.h"
#include "client/options.h"
#include "pto/v1/domain.pb.h"
#include "pto/v1/tensor.pb.h"

namespace pto {

namespace internal {
class Core;
class SessionState;
}  // namespace internal

// A named buffer in each window of a domain.
struct WindowBufferSpec {
  // 1 to 63 characters from `a-z 0-9 -`, starting with a letter.
  std::string name = {};
  v1::DType dtype = v1::F32;
  // Number of elements. Zero means derived from `bytes`.
  uint64_t count = 0;
  // Size in bytes. Zero means derived from `count`. If both are given, they must agree.
  uint64_t bytes = 0;
  // Whether it is set to zero before each run that uses it or the whole domain; in an open run,
  // before each segment that does.
  bool zero_before_run = false;
};

// Describes a domain to create.
struct DomainSpec {
  // 1 to 63 characters from `a-z 0-9 -`, starting with a letter. Empty means a random id.
  std::string id = {};
  // The position is the rank.
  std::vector<uint32_t> chips = {};
  std::vector<WindowBufferSpec> buffers = {};
  // Signals per rank.
  uint32_t signal_count = 0;
  // Window size on each chip. Zero means as large as needed.
  uint64_t window_bytes = 0;
};

// A handle of a domain: a group of communicating chips, each with a window that contains buffers
// and signals. All copies refer to the same domain, which exists until it is deleted or its session
// ends. Created by Session. Thread-safe.
//
//   Domain domain = *session.CreateDomain({.id = "d", .chips = {0, 1}, .buffers = {{"x", v1::F32,
//                                          1024}}, .signal_count = 2});
//   Buffer x = *domain.Window(1, "x");             // rank 1, on chip 1
//   TensorRef t = g.Tensor("x1", x, v1::F32, {1024});
//   TensorRef s = g.Tensor("s1", *domain.Signals(1), v1::I64, {1}, {}, 0);
//
// Signals start at zero in each run that uses them and keep their values after the run. So the same
// graph can run repeatedly in one domain.
class Domain {
 public:
  // `sessions/{session}/domains/{id}`.
  const std::string& name() const { return info_.name(); }
  absl::string_view id() const;
  // The description from the time this handle was created. Get returns the current one.
  const v1::Domain& info() const { return info_; }
  uint32_t ranks() const { return static_cast<uint32_t>(info_.chips_size()); }

  // A buffer in the window of a rank. It works like any other buffer but cannot be deleted. Makes
  // no RPC. Errors: NOT_FOUND / BUFFER_UNKNOWN.
  absl::StatusOr<Buffer> Window(uint32_t rank, absl::string_view buffer) const;
  // The signals of a rank, as I64. They can be read and notified, but not written.
  absl::StatusOr<Buffer> Signals(uint32_t rank) const;

  absl::StatusOr<v1::Domain> Get(absl::Duration timeout = kDefaultTimeout) const;
  // Changes a signal and wakes its waiters. Returns the new value.
  absl::StatusOr<uint64_t> Notify(uint32_t rank, uint32_t signal, uint64_t value,
                                  v1::NotifyRequest::Operation operation = v1::NotifyRequest::SET,
                                  absl::Duration timeout = kDefaultTimeout) const;
  // Reads `count` signals starting at `first`. A count of zero means all.
  absl::StatusOr<std::vector<uint64_t>> ReadSignals(uint32_t rank, uint32_t first = 0,
                                                    uint32_t count = 0,
                                                    absl::Duration timeout = kDefaultTimeout) const;
  // Fails all runs that use the domain and rejects new ones.
  absl::StatusOr<v1::Domain> Revoke(absl::string_view reason,
                                    absl::Duration timeout = kDefaultTimeout) const;
  // Frees the memory. Memory that runs use is freed when they end.
  absl::Status Delete(absl::Duration timeout = kDefaultTimeout) const;

 private:
  friend class Session;
  Domain(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::SessionState> session,
         v1::Domain info);

  absl::Status CheckRank(uint32_t rank) const;
  Buffer Part(uint32_t rank, absl::string_view part, uint64_t bytes) const;

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::SessionState> session_;
  v1::Domain info_;
};

}  // namespace pto
