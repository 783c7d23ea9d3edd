#include "runtime/chip/ascend/device/device_stream.h"

#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ascend {
namespace {

// An event that a stream will never reach says nothing: now and then the stream is asked, too.
constexpr uint32_t kLooksBetweenQueries = 16;

}  // namespace

absl::Status DeviceStream::Create() {
  return calls_.Check(calls_->aclrtCreateStream(&stream_), "creating a stream");
}

void DeviceStream::Destroy(const absl::Status& why) {
  FailAll(why, why);
  if (stream_ == nullptr) return;
  const cann::AclStream stream = std::exchange(stream_, nullptr);
  if (calls_->aclrtDestroyStreamForce != nullptr) {
    (void)calls_->aclrtDestroyStreamForce(stream);
  } else {
    (void)calls_->aclrtDestroyStream(stream);
  }
}

absl::StatusOr<cann::AclEvent> DeviceStream::Track(const char* what, int64_t deadline_ns,
                                                   Done done) {
  cann::AclEvent event = nullptr;
  if (free_events_.empty()) {
    PTO_RETURN_IF_ERROR(calls_.Check(calls_->aclrtCreateEventExWithFlag(&event, cann::kEventSync),
                                     "creating an event"));
  } else {
    event = free_events_.back();
    free_events_.pop_back();
  }
  const absl::Status recorded =
      calls_.Check(calls_->aclrtRecordEvent(event, stream_), "recording an event");
  if (!recorded.ok()) {
    free_events_.push_back(event);
    return recorded;
  }
  pending_.push_back({event, what, deadline_ns, std::move(done)});
  return event;
}

absl::StatusOr<bool> DeviceStream::Reached(cann::AclEvent event) {
  int32_t status = cann::kEventNotReady;
  const cann::AclError code = calls_->aclrtQueryEventStatus(event, &status);
  if (code == cann::kAclOk) return status == cann::kEventComplete;
  // The stream knows better what has failed.
  PTO_RETURN_IF_ERROR(Look(pending_.front().what));
  return calls_.Check(code, pending_.front().what);
}

absl::Status DeviceStream::Look(const char* what) {
  int32_t status = cann::kStreamNotReady;
  return calls_.Check(calls_->aclrtStreamQuery(stream_, &status), what);
}

size_t DeviceStream::Poll(int64_t now_ns, bool* late) {
  if (pending_.empty()) return 0;
  size_t ended = 0;
  const auto fail = [&](const absl::Status& error) {
    ended += pending_.size();
    // A stream with an error does nothing any more.
    calls_.NoteFailure(error);
    FailAll(error, calls_.Refuse("it did not run"));
  };
  // Ends as many as have been reached when the newest has; otherwise one after the other.
  size_t known = 0;
  if (pending_.size() > 1) {
    const absl::StatusOr<bool> newest = Reached(pending_.back().event);
    if (!newest.ok()) {
      fail(newest.status());
      return ended;
    }
    if (*newest) known = pending_.size();
  }
  while (!pending_.empty()) {
    if (known == 0) {
      const absl::StatusOr<bool> reached = Reached(pending_.front().event);
      if (!reached.ok()) {
        fail(reached.status());
        return ended;
      }
      if (!*reached) break;
    } else {
      --known;
    }
    EndFirst(absl::OkStatus());
    ++ended;
  }
  if (ended > 0 || pending_.empty()) {
    looks_ = 0;
    return ended;
  }
  if (++looks_ % kLooksBetweenQueries == 0) {
    if (const absl::Status error = Look(pending_.front().what); !error.ok()) {
      fail(error);
      return ended;
    }
  }
  if (pending_.front().deadline_ns != 0 && now_ns > pending_.front().deadline_ns) *late = true;
  return ended;
}

void DeviceStream::EndFirst(const absl::Status& status) {
  // Out of the queue first: the callback may add to the stream.
  const Entry entry = std::move(pending_.front());
  pending_.pop_front();
  free_events_.push_back(entry.event);
  entry.done(status);
}

void DeviceStream::FailAll(const absl::Status& first, const absl::Status& others) {
  std::deque<Entry> entries;
  entries.swap(pending_);
  bool is_first = true;
  for (const Entry& entry : entries) {
    // Not used again: nobody knows whether the stream still holds it.
    entry.done(is_first ? first : others);
    is_first = false;
  }
}

absl::Status DeviceStream::Abort(const absl::Status& why) {
  if (calls_->aclrtStreamAbort == nullptr) {
    return Error(reason::kNotAvailable, "this CANN cannot abort a stream");
  }
  PTO_RETURN_IF_ERROR(calls_.Check(calls_->aclrtStreamAbort(stream_), "aborting a stream"));
  FailAll(why, why);
  return absl::OkStatus();
}

int64_t DeviceStream::next_deadline_ns() const {
  return pending_.empty() ? 0 : pending_.front().deadline_ns;
}

}  // namespace pto::ascend
