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

// A named part of every window of a domain.
struct WindowBufferSpec {
  // 1 to 63 of `a-z 0-9 -`, starting with a letter.
  std::string name = {};
  v1::DType dtype = v1::F32;
  // Elements. Zero: as many as `bytes` are.
  uint64_t count = 0;
  // Zero: as many as `count` elements have. When both are given they must agree.
  uint64_t bytes = 0;
};

// One domain to create.
struct DomainSpec {
  // 1 to 63 of `a-z 0-9 -`, starting with a letter. Empty: a random one.
  std::string id = {};
  // The position is the rank.
  std::vector<uint32_t> chips = {};
  std::vector<WindowBufferSpec> buffers = {};
  // On each rank.
  uint32_t signal_count = 0;
  // On each chip. Zero: as many as are needed.
  uint64_t window_bytes = 0;
};

// A handle of chips that communicate: a window on each, in it buffers and signals. Copies mean
// the same domain, which lives until it is deleted or its session ends. Made by Session.
// Thread-safe.
//
//   Domain domain = *session.CreateDomain({.id = "d", .chips = {0, 1}, .buffers = {{"x", v1::F32,
//                                          1024}}, .signal_count = 2});
//   Buffer x = *domain.Window(1, "x");             // rank 1, on chip 1
//   TensorRef t = g.Tensor("x1", x, v1::F32, {1024});
//   TensorRef s = g.Tensor("s1", *domain.Signals(1), v1::I64, {1}, {}, 0);
//
// When a run that used the signals has ended, they keep their values until the next use, which
// begins with zeros; so the same graph can run in one domain again and again.
class Domain {
 public:
  // `sessions/{session}/domains/{id}`.
  const std::string& name() const { return info_.name(); }
  absl::string_view id() const;
  // As the daemon described it when this handle was made; Get asks again.
  const v1::Domain& info() const { return info_; }
  uint32_t ranks() const { return static_cast<uint32_t>(info_.chips_size()); }

  // A buffer of a rank's window, to be used like any other but not to be deleted. Asks nothing of
  // the daemon. NOT_FOUND / BUFFER_UNKNOWN.
  absl::StatusOr<Buffer> Window(uint32_t rank, absl::string_view buffer) const;
  // The signals of a rank, as I64. They can be read, and notified, but not written.
  absl::StatusOr<Buffer> Signals(uint32_t rank) const;

  absl::StatusOr<v1::Domain> Get(absl::Duration timeout = kDefaultTimeout) const;
  // Changes a signal and wakes who waits for it. Returns its value.
  absl::StatusOr<uint64_t> Notify(uint32_t rank, uint32_t signal, uint64_t value,
                                  v1::NotifyRequest::Operation operation = v1::NotifyRequest::SET,
                                  absl::Duration timeout = kDefaultTimeout) const;
  // From `first` on; a count of zero means all.
  absl::StatusOr<std::vector<uint64_t>> ReadSignals(uint32_t rank, uint32_t first = 0,
                                                    uint32_t count = 0,
                                                    absl::Duration timeout = kDefaultTimeout) const;
  // Fails all runs that use it, and refuses new ones.
  absl::StatusOr<v1::Domain> Revoke(absl::string_view reason,
                                    absl::Duration timeout = kDefaultTimeout) const;
  // Frees the memory; what runs use, as soon as they have ended.
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
