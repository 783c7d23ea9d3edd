// The part of a session that has to do with buffers that its client maps.

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/names/window_name.h"
#include "daemon/session/session.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

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

}  // namespace pto::daemon
