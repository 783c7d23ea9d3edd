#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/chip/ascend/device/acl_calls.h"

namespace pto::ascend {

// Called once, by the owner thread, when what it belongs to has ended.
using Done = std::function<void(const absl::Status&)>;

// A stream and what it has not finished yet: each entry has an event behind it. The stream works in
// order, so one look at the newest event can end all entries. Only for the owner thread.
class DeviceStream {
 public:
  DeviceStream(AclCalls& calls, std::vector<cann::AclEvent>& free_events)
      : calls_(calls), free_events_(free_events) {}
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  absl::Status Create();
  // After it, nothing of the stream is used any more. Ends what is left with `why`.
  void Destroy(const absl::Status& why);
  cann::AclStream handle() const { return stream_; }
  size_t pending() const { return pending_.size(); }

  // Takes what Track needs. Before anything is put into the stream, so that a lack of events is no
  // reason to lose track of it.
  absl::Status Reserve();
  // Records an event behind what was put into the stream. `timeout_ns`: how long it may take from
  // when the stream has got to it; 0: no limit. Returns the event, for other streams to wait for.
  // If that fails the device has failed, because the end of what it does cannot be known.
  absl::StatusOr<cann::AclEvent> Track(const char* what, int64_t timeout_ns, Done done);

  // Ends what the stream has finished. Returns how much. An error of the stream ends all of its
  // entries: the first with the error, the others as not done. The device has then failed, too,
  // unless another device is the cause: then the stream is made anew. Sets `late` if the first
  // entry takes too long.
  size_t Poll(int64_t now_ns, bool* late);

  // Takes back everything, if the release can. What is pending fails with `why`.
  absl::Status Abort(const absl::Status& why);
  void FailAll(const absl::Status& first, const absl::Status& others);
  // The error of the stream itself.
  absl::Status FindError() { return stream_ == nullptr ? absl::OkStatus() : Look("a kernel"); }

 private:
  struct Entry {
    cann::AclEvent event = nullptr;
    const char* what = "";
    int64_t timeout_ns = 0;
    int64_t deadline_ns = 0;  // set when it is the first
    Done done;
  };

  // Looks at one event. Returns whether it was reached; an error fails the stream.
  absl::StatusOr<bool> Reached(cann::AclEvent event);
  void EndFirst(const absl::Status& status);
  // Asks the stream itself, which knows of errors.
  absl::Status Look(const char* what);
  absl::Status Check(cann::AclError code, const char* what);
  // Ends everything because of an error of the stream. Returns how much.
  size_t Fail(const absl::Status& error);

  AclCalls& calls_;
  std::vector<cann::AclEvent>& free_events_;
  cann::AclStream stream_ = nullptr;
  std::deque<Entry> pending_;
  uint32_t looks_ = 0;  // since the last progress
  // Of the last error.
  cann::FaultClass fault_class_ = cann::FaultClass::kDevice;
};

}  // namespace pto::ascend
