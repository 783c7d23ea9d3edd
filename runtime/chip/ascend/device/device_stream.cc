#include "runtime/chip/ascend/device/device_stream.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
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

absl::Status DeviceStream::Reserve() {
  if (!free_events_.empty()) return absl::OkStatus();
  cann::AclEvent event = nullptr;
  PTO_RETURN_IF_ERROR(calls_.Check(calls_->aclrtCreateEventExWithFlag(&event, cann::kEventSync),
                                   "creating an event"));
  free_events_.push_back(event);
  return absl::OkStatus();
}

absl::StatusOr<cann::AclEvent> DeviceStream::Track(const char* what, int64_t timeout_ns,
                                                   Done done) {
  absl::Status status = Reserve();
  if (status.ok()) {
    status =
        calls_.Check(calls_->aclrtRecordEvent(free_events_.back(), stream_), "recording an event");
  }
  if (!status.ok()) {
    calls_.NoteFailure(
        Error(reason::kDeviceFailed, absl::StrCat("nobody would notice the end of ", what, ": ",
                                                  std::string(status.message()))));
    return calls_.Refuse(what);
  }
  const cann::AclEvent event = free_events_.back();
  free_events_.pop_back();
  pending_.push_back({event, what, timeout_ns, 0, std::move(done)});
  return event;
}

absl::Status DeviceStream::Check(cann::AclError code, const char* what) {
  if (code != cann::kAclOk) fault_class_ = cann::DescribeAcl(code).fault_class;
  return calls_.Check(code, what);
}

absl::StatusOr<bool> DeviceStream::Reached(cann::AclEvent event) {
  int32_t status = cann::kEventNotReady;
  const cann::AclError code = calls_->aclrtQueryEventStatus(event, &status);
  if (code == cann::kAclOk) return status == cann::kEventComplete;
  // The stream knows better what has failed.
  PTO_RETURN_IF_ERROR(Look(pending_.front().what));
  return Check(code, pending_.front().what);
}

absl::Status DeviceStream::Look(const char* what) {
  int32_t status = cann::kStreamNotReady;
  return Check(calls_->aclrtStreamQuery(stream_, &status), what);
}

size_t DeviceStream::Fail(const absl::Status& error) {
  const size_t ended = pending_.size();
  // A stream with an error does nothing any more. If the device is not the cause, another stream
  // does.
  if (fault_class_ != cann::FaultClass::kRemote && fault_class_ != cann::FaultClass::kAborted) {
    calls_.NoteFailure(error);
  }
  if (calls_.failed()) {
    FailAll(error, calls_.Refuse("it did not run"));
    return ended;
  }
  Destroy(error);
  // Notes the failure if there is none.
  const absl::Status created = Create();
  if (!created.ok()) calls_.NoteFailure(created);
  return ended;
}

size_t DeviceStream::Poll(int64_t now_ns, bool* late) {
  if (pending_.empty()) return 0;
  size_t ended = 0;
  // Ends as many as have been reached when the newest has; otherwise one after the other.
  size_t known = 0;
  if (pending_.size() > 1) {
    const absl::StatusOr<bool> newest = Reached(pending_.back().event);
    if (!newest.ok()) return Fail(newest.status());
    if (*newest) known = pending_.size();
  }
  while (!pending_.empty()) {
    if (known == 0) {
      const absl::StatusOr<bool> reached = Reached(pending_.front().event);
      if (!reached.ok()) return ended + Fail(reached.status());
      if (!*reached) break;
    } else {
      --known;
    }
    EndFirst(absl::OkStatus());
    ++ended;
  }
  if (pending_.empty()) {
    looks_ = 0;
    return ended;
  }
  Entry& first = pending_.front();
  // The stream has got to it, so its time begins.
  if (first.timeout_ns != 0 && first.deadline_ns == 0) {
    first.deadline_ns = now_ns + first.timeout_ns;
  }
  if (ended > 0) {
    looks_ = 0;
    return ended;
  }
  if (++looks_ % kLooksBetweenQueries == 0) {
    if (const absl::Status error = Look(first.what); !error.ok()) return Fail(error);
  }
  if (first.deadline_ns != 0 && now_ns > first.deadline_ns) *late = true;
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
  // The stream holds nothing any more, so its events can be recorded again.
  for (const Entry& entry : pending_) free_events_.push_back(entry.event);
  FailAll(why, why);
  return absl::OkStatus();
}

}  // namespace pto::ascend
