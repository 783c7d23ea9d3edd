#include "daemon/broker/visit.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/base/error.h"
#include "runtime/chip/allocation.h"

namespace pto::daemon {

using broker::Outcome;

Outcome ToOutcome(const absl::Status& status) {
  if (status.ok()) return Outcome::kOk;
  const std::string reason = ReasonOf(status);
  if (reason == reason::kSessionEnded.name || reason == reason::kSessionUnknown.name) {
    return Outcome::kSessionGone;
  }
  if (reason == reason::kBufferInUse.name) return Outcome::kBufferInUse;
  if (reason == reason::kBufferUnknown.name) return Outcome::kBufferGone;
  return Outcome::kLimit;
}

bool Visit::over() const {
  if (!attached_) return false;
  const std::shared_ptr<Session> session = session_.lock();
  return session == nullptr || session->ended();
}

Outcome Visit::Attach(const broker::Request& request) {
  if (attached_) return Outcome::kDenied;
  const absl::StatusOr<std::shared_ptr<Session>> session = sessions_.Find(user_, request.name);
  // The same answer as for an unknown session, so that the client learns nothing.
  if (!session.ok() ||
      !(*session)->Attach(absl::string_view(request.key.data(), request.key.size()))) {
    return Outcome::kDenied;
  }
  (*session)->Touch();
  session_ = *session;
  attached_ = true;
  return Outcome::kOk;
}

Outcome Visit::Find(const broker::Request& request, MappedBuffer* found) const {
  if (!attached_) return Outcome::kDenied;
  if (regions_.size() >= kMaxRegions) return Outcome::kLimit;
  const std::shared_ptr<Session> session = session_.lock();
  if (session == nullptr) return Outcome::kSessionGone;
  const absl::StatusOr<std::shared_ptr<SessionBuffer>> buffer = session->FindBuffer(request.name);
  if (!buffer.ok()) return ToOutcome(buffer.status());
  // Windows cannot be shared, nor memory that the host cannot see: the client copies instead.
  const engine::HostAllocation* const memory = (*buffer)->memory->AsHost();
  if (memory == nullptr || !memory->can_share()) return Outcome::kLimit;
  session->Touch();
  *found = {session, *buffer};
  return Outcome::kOk;
}

Outcome Visit::Check(uint64_t region) const {
  const auto it = regions_.find(region);
  if (it == regions_.end()) return Outcome::kRegionUnknown;
  const std::shared_ptr<Session> session = it->second.session.lock();
  if (session == nullptr) return Outcome::kSessionGone;
  const std::shared_ptr<SessionBuffer> buffer = it->second.buffer.lock();
  if (buffer == nullptr) return session->ended() ? Outcome::kSessionGone : Outcome::kBufferGone;
  const Outcome outcome = ToOutcome(session->CheckTransfer(*buffer));
  if (outcome == Outcome::kOk) session->Touch();
  return outcome;
}

Outcome Visit::Release(uint64_t region) {
  return regions_.erase(region) > 0 ? Outcome::kOk : Outcome::kRegionUnknown;
}

}  // namespace pto::daemon
