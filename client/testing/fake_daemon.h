#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/testing/call_gate.h"
#include "grpcpp/server.h"
#include "pto/v1/buffer.grpc.pb.h"
#include "pto/v1/event.grpc.pb.h"
#include "pto/v1/kernel.grpc.pb.h"
#include "pto/v1/node.grpc.pb.h"
#include "pto/v1/run.grpc.pb.h"
#include "pto/v1/session.grpc.pb.h"
#include "runtime/base/mutex.h"

namespace pto::testing {

// A server that implements the API without computing: sessions, buffers that keep their bytes, runs
// that end when the test says so, events written by the test. Thread-safe.
class FakeDaemon {
 public:
  struct Options {
    std::string boot_id = "boot-1";
    absl::Duration ttl = absl::Seconds(30);
    uint64_t max_chunk_bytes = 1 << 20;
    uint32_t max_block_tasks = 4096;
  };

  // Listens at `unix:/path` or `host:port`; port 0 lets the system choose.
  explicit FakeDaemon(const std::string& address) : FakeDaemon(address, Options()) {}
  FakeDaemon(const std::string& address, Options options);
  // Breaks all calls.
  ~FakeDaemon();

  const std::string& address() const { return address_; }
  // Counts calls, and makes them hang or fail.
  CallGate& gate() { return gate_; }

  // Ends a session like an expired lease.
  void EndSession(const std::string& name);
  bool HasSession(const std::string& name) const;

  // The size of each message that wrote to a buffer.
  std::vector<uint64_t> chunk_sizes() const;
  // The messages of the last SubmitPackedRun or RegisterPackedGraph.
  std::vector<v1::PackedGraphPart> packed() const;
  v1::SubmitRunRequest submitted() const;
  // The messages of the last StreamRun.
  std::vector<v1::StreamRunRequest> streamed() const;

  // While true, runs stay RUNNING, and launches of a stream are not completed.
  void HoldRuns(bool hold);

  // Appends an event to a session's log.
  void AddRunEvent(const std::string& session, const std::string& run, v1::Run::State state);
  // Appends a notice of a dropped event.
  void AddDroppedEvent(const std::string& session);
  // Breaks every open event stream.
  void DropEventStreams();
  // `after_sequence` of each WatchEvents call.
  std::vector<uint64_t> watched_after() const;

 private:
  struct Node;
  struct Sessions;
  struct Buffers;
  struct Runs;
  struct Events;

  absl::Status CheckSession(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::Run StartRun(const std::string& parent, const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::string address_;
  CallGate gate_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool hold_runs_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, v1::Session> sessions_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> ended_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> buffers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Run> runs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<v1::Event>> events_ ABSL_GUARDED_BY(mutex_);
  uint64_t drops_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<uint64_t> watched_after_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> chunk_sizes_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::PackedGraphPart> packed_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::StreamRunRequest> streamed_ ABSL_GUARDED_BY(mutex_);
  v1::SubmitRunRequest submitted_ ABSL_GUARDED_BY(mutex_);
  int next_run_ ABSL_GUARDED_BY(mutex_) = 1;

  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace pto::testing
