#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "daemon/events/event_log.h"
#include "daemon/node/node.h"
#include "daemon/rpc/stream.h"
#include "daemon/services/gate.h"
#include "daemon/services/stop_list.h"
#include "daemon/session/session_hold.h"
#include "pto/v1/event.grpc.pb.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// One WatchEvents call: a cursor into a session's log, and one batch in flight. It reads the log
// when that signals new events, after a short wait for more; runs never wait for it.
//
// Owns itself until OnDone; timers and the log may hold it a moment longer.
class EventStream final : public rpc::ServerStreamReactor<v1::EventBatch>,
                          public EventWatcher,
                          public std::enable_shared_from_this<EventStream> {
 public:
  static EventStream* Make(Node& node, Gate gate, StopList& streams,
                           const v1::WatchEventsRequest& request);

  void OnStart() override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void OnEvents(bool urgent) override;
  uint64_t through() const override { return through_.load(std::memory_order_relaxed); }

 private:
  EventStream(Node& node, Gate gate, StopList& streams, const v1::WatchEventsRequest& request)
      : node_(node), gate_(gate), streams_(streams), request_(request) {}

  absl::Status Begin();
  bool Wanted(const LogEntry& entry) const;
  // Reads events and sends them, unless a batch is in flight.
  void Pump(bool show_progress);
  // Adds the next events, as many as there is room for.
  void Fill(v1::EventBatch* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PumpAt(int64_t at_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(signal_mutex_);
  // Whether a batch can be sent.
  bool Idle() const;
  void SetWriting(bool writing);
  void ScheduleProgress();

  Node& node_;
  const Gate gate_;
  StopList& streams_;
  const v1::WatchEventsRequest request_;
  std::shared_ptr<EventStream> self_;            // until OnDone
  std::unique_ptr<auth::OpenCalls::Stay> stay_;  // until OnDone
  std::shared_ptr<Session> session_;
  SessionHold hold_;                       // until OnDone, if the session is the caller's own
  absl::flat_hash_set<std::string> runs_;  // ids; empty means all runs
  int64_t linger_ns_ = 0;
  int64_t progress_ns_ = 0;
  StopList::Id stop_id_ = 0;

  // Held while a batch is built, and while a write or the end is started. Taken before
  // signal_mutex_.
  Mutex mutex_;
  uint64_t cursor_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> through_{0};  // same as the cursor, for other threads
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t last_sent_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  HostCharge charge_ ABSL_GUARDED_BY(mutex_);  // for the batch in flight

  // Held only briefly: threads that append to the log take it, which may be a run's.
  mutable Mutex signal_mutex_;
  bool writing_ ABSL_GUARDED_BY(signal_mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(signal_mutex_) = false;
  int64_t pump_at_ns_ ABSL_GUARDED_BY(signal_mutex_) = 0;  // 0: no timer is set
};

}  // namespace pto::daemon
