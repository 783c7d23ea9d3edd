#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "daemon/node/node.h"
#include "daemon/rpc/rhythm.h"
#include "daemon/rpc/server.h"
#include "daemon/rpc/stream.h"
#include "daemon/services/gate.h"
#include "daemon/services/run_request.h"
#include "daemon/services/stop_list.h"
#include "daemon/session/session_hold.h"
#include "pto/v1/run.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// One LaunchStream call: launches in, completions out. A short run is done by the thread that
// read its launch, and its completion leaves from there too, so that nothing has to be woken.
//
// Owns itself until OnDone; runs in flight may hold it longer.
class LaunchStream final
    : public rpc::BidiStreamReactor<v1::LaunchStreamRequest, v1::LaunchCompletion>,
      public std::enable_shared_from_this<LaunchStream> {
 public:
  static LaunchStream* Make(Node& node, Gate gate, rpc::Server& server, StopList& streams);

  void OnStart() override;
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  LaunchStream(Node& node, Gate gate, rpc::Server& server, StopList& streams)
      : node_(node), gate_(gate), server_(server), streams_(streams) {}

  void LaunchOne();
  // Holds the session until the stream ends.
  void Hold(const std::shared_ptr<Session>& session);
  // Sends a completion that `fill` writes, or queues it behind others.
  template <typename Fill>
  void Complete(Fill fill);
  // Does what is next: a write, a read that was held back, the end.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Node& node_;
  const Gate gate_;
  rpc::Server& server_;
  StopList& streams_;
  rpc::Rhythm rhythm_;
  std::shared_ptr<LaunchStream> self_;           // until OnDone
  std::unique_ptr<auth::OpenCalls::Stay> stay_;  // until OnDone
  StopList::Id stop_id_ = 0;
  v1::LaunchStreamRequest request_;  // only the reading side's
  LaunchTarget target_;              // of the last launch; only the reading side's
  auth::Caller caller_;              // from OnStart
  // For the audit log; only the reading side's.
  v1::LaunchStreamRequest first_;
  uint64_t launches_ = 0;
  uint64_t refused_ = 0;
  // The sessions of its launches, until OnDone; that of the last one is the last.
  std::vector<SessionHold> holds_;

  Mutex mutex_;
  std::deque<v1::LaunchCompletion> completions_ ABSL_GUARDED_BY(mutex_);
  v1::LaunchCompletion writing_message_ ABSL_GUARDED_BY(mutex_);
  uint64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto::daemon
