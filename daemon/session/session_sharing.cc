// The part of a session that has to do with buffers that its client maps.

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/domain/session_memory.h"
#include "daemon/kernels/kernel_hosts.h"
#include "daemon/names/window_name.h"
#include "daemon/session/session.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// Between two looks whether a buffer is still in use.
constexpr std::chrono::milliseconds kMoveWait(1);

// Takes as long for any two keys of a length.
bool SameKey(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace

bool Session::Attach(absl::string_view key) const {
  return !options_.attach_key.empty() && SameKey(options_.attach_key, key);
}

absl::Status Session::CheckTransfer(const SessionBuffer& buffer) const {
  PTO_RETURN_IF_ERROR(CheckAlive());
  const auto full_name = [&] { return names::AnyBufferName(options_.id, buffer.id); };
  if (buffer.removed.load(std::memory_order_acquire)) {
    return Error(reason::kBufferUnknown, absl::StrCat(full_name(), " was deleted"))
        .With("buffer", buffer.id)
        .With("session", name());
  }
  const uint32_t in_use = buffer.in_use.load(std::memory_order_acquire);
  if (in_use == 0) return absl::OkStatus();
  return Error(reason::kBufferInUse, absl::StrCat(in_use, " runs use ", full_name()))
      .With("buffer", full_name())
      .With("runs", in_use);
}

absl::StatusOr<bool> Session::ShareSome(SessionBuffer& buffer,
                                        const std::shared_ptr<engine::SharingBudget>& budget) {
  PTO_RETURN_IF_ERROR(CheckTransfer(buffer));
  // The broker and a kernel host may want it at the same time.
  MutexLock sharing(buffer.sharing);
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<engine::HostAllocation> host,
                       engine::Allocation::ToHost(buffer.memory));
  engine::HostAllocation& memory = *host;
  if (memory.shared_descriptor() >= 0) return true;
  PTO_RETURN_IF_ERROR(memory.PrepareShare(budget));
  // Under this lock no run takes its place, and under the next no bytes come or go.
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckTransfer(buffer));
  if (!buffer.queue->idle()) {
    return Error(reason::kBufferInUse, absl::StrCat("a run is about to begin or to end that uses ",
                                                    names::AnyBufferName(options_.id, buffer.id)))
        .With("buffer", buffer.id);
  }
  MutexLock contents(buffer.contents);
  return memory.ShareSome();
}

// ---- for the session's kernel host

absl::StatusOr<bool> Session::ShareWindow(Domain& domain, uint32_t rank,
                                          const std::shared_ptr<engine::SharingBudget>& budget) {
  PTO_RETURN_IF_ERROR(domain.PrepareShare(rank, budget));
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  return domain.ShareSome(rank);
}

absl::Status Session::MoveMemory(const std::function<bool()>& give_up) {
  const std::shared_ptr<engine::SharingBudget>& budget = options_.hosts->sharing();
  const auto until = std::chrono::steady_clock::now() +
                     absl::ToChronoNanoseconds(options_.hosts->options().move_timeout);
  // Repeats a step until all has been moved. Waits while it is in use.
  const auto move = [&](const auto& step) -> absl::Status {
    while (true) {
      if (give_up()) return Error(reason::kClientGone, "nobody waits for the kernel any more");
      const absl::StatusOr<bool> all = step();
      if (all.ok() && *all) return absl::OkStatus();
      if (all.ok()) continue;
      const absl::optional<ErrorDetail> detail = GetErrorDetail(all.status());
      if (!detail.has_value() || detail->reason != reason::kBufferInUse.name) return all.status();
      if (std::chrono::steady_clock::now() >= until) {
        return Error(reason::kBufferInUse,
                     absl::StrCat("the session's first kernel host needs its buffers, but ",
                                  all.status().message()))
            .With("session", name())
            .Hint("upload a session's first kernel before its runs, or when they have ended");
      }
      std::this_thread::sleep_for(kMoveWait);
    }
  };
  for (const std::shared_ptr<SessionBuffer>& buffer : ListBuffers("", SIZE_MAX)) {
    engine::HostAllocation* const host = buffer->memory->AsHost();
    if (host == nullptr || !host->can_share()) continue;
    PTO_RETURN_IF_ERROR(device_memory_->PrepareMove(buffer->memory));
    const absl::Status moved = move([&] { return ShareSome(*buffer, budget); });
    // A buffer that was deleted meanwhile is not needed.
    if (buffer->removed.load(std::memory_order_acquire) && !ended()) continue;
    PTO_RETURN_IF_ERROR(moved);
    PTO_RETURN_IF_ERROR(device_memory_->Show(buffer->memory));
  }
  for (const std::shared_ptr<Domain>& domain : domains_.List("", SIZE_MAX)) {
    for (uint32_t rank = 0; rank < domain->spec().chips.size(); ++rank) {
      const std::shared_ptr<engine::Allocation> window = domain->WindowOf(rank);
      if (window == nullptr || window->AsHost() == nullptr) continue;
      if (!window->AsHost()->can_share()) continue;
      PTO_RETURN_IF_ERROR(device_memory_->PrepareMove(window));
      PTO_RETURN_IF_ERROR(move([&] { return ShareWindow(*domain, rank, budget); }));
      PTO_RETURN_IF_ERROR(device_memory_->Show(window));
    }
  }
  device_memory_->ShowDomains();
  return absl::OkStatus();
}

}  // namespace pto::daemon
