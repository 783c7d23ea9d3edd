#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "daemon/graph/open_decoder.h"
#include "daemon/node/node.h"
#include "daemon/rpc/server.h"
#include "daemon/rpc/stream.h"
#include "daemon/services/gate.h"
#include "daemon/services/stop_list.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hold.h"
#include "pto/v1/run.grpc.pb.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// One StreamRun call: a header that begins an open run, blocks of its tasks, a commit. It reads
// the next block only when there is room for it; until then HTTP/2's flow control holds the
// client back. The call and the run end each other: a stream that breaks off before its commit
// stops the run, and the end of the run answers the call.
//
// Owns itself until OnDone; the run may hold it longer.
class StreamRun final : public rpc::ClientStreamReactor<v1::StreamRunRequest, v1::Run>,
                        public std::enable_shared_from_this<StreamRun> {
 public:
  static StreamRun* Make(Node& node, Gate gate, StopList& streams);

  void OnStart() override;
  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  StreamRun(Node& node, Gate gate, StopList& streams)
      : node_(node),
        gate_(gate),
        streams_(streams),
        compile_time_(node.clock(), node.compile_timeout_ns()) {}

  // ---- the reading side's
  absl::Status Take(const v1::StreamRunRequest& request);
  absl::Status TakeHeader(const v1::StreamRunHeader& header);
  absl::Status Begin(const v1::StreamRunHeader& header);
  absl::Status TakeBlock(const v1::StreamRunBlock& block);
  absl::Status TakeCommit(const v1::PackedCommit& commit);
  // Charges what the decoder will hold with this block: MEMORY_BUDGET.
  absl::Status ChargeBlock(const v1::StreamRunBlock& block);
  // What the stream's end means.
  void OnReadsEnded();
  // Stops a run of which too much has failed to remember it all.
  void CheckFailures();

  // ---- any thread
  // Reads on when there is room, or when there is some.
  void ReadNext();
  // Something is wrong: stops the run, whose end answers the call with the error.
  void Fail(engine::RunState as, const absl::Status& error);
  void OnRunEnded(const RunStatus& status);
  void Answer(const RunStatus& status);
  void AnswerWithError(const absl::Status& error);

  Node& node_;
  const Gate gate_;
  StopList& streams_;
  auth::Caller caller_;                          // from OnStart
  std::atomic<bool> noted_{false};               // in the audit log
  std::shared_ptr<StreamRun> self_;              // until OnDone
  std::unique_ptr<auth::OpenCalls::Stay> stay_;  // until OnDone
  StopList::Id stop_id_ = 0;

  // The reading side's.
  v1::StreamRunRequest request_;
  engine::CompileTime compile_time_;  // of the segment at hand
  RunTerms terms_;                    // only the times
  absl::optional<OpenDecoder> decoder_;
  HostCharge charge_;                    // for the decoder
  uint64_t kept_bytes_ = 0;              // of it, what stays until the run has ended
  absl::optional<absl::Duration> wait_;  // none: until the run has ended
  SessionHold hold_;                     // from the header until OnDone

  Mutex mutex_;
  std::shared_ptr<StreamedRun> run_ ABSL_GUARDED_BY(mutex_);
  absl::optional<absl::Status> error_ ABSL_GUARDED_BY(mutex_);
  TimerQueue::Id wait_timer_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool committed_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto::daemon
