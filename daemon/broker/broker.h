#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/broker/mover.h"
#include "daemon/broker/visit.h"
#include "daemon/session/session_manager.h"
#include "proto/broker/message.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/shared_file.h"

namespace pto::daemon {

// Serves the memory broker's socket: gives clients on this machine descriptors of their sessions'
// buffers to map. One thread serves all connections and never waits for a client: a client that
// does not read its replies, breaks the protocol, or does not attach in time is disconnected.
class Broker {
 public:
  struct Options {
    // The socket to listen on. It must not exist; the file stays when the broker ends.
    std::string path;
    SessionManager* sessions = nullptr;
    std::shared_ptr<engine::SharingBudget> budget;
    // Limits for all connections, and for those that have not attached yet. At most an eighth of
    // the process's descriptor limit.
    size_t max_connections = 1024;
    size_t max_strangers = 64;
    // Attached connections of one session, so that others get some too. A client needs one.
    size_t max_session_connections = 16;
    // How long a connection may take to attach.
    absl::Duration attach_timeout = absl::Seconds(5);
    // How often connections of ended sessions are closed.
    absl::Duration sweep_interval = absl::Seconds(10);
  };

  // Errors: LISTEN_FAILED.
  static absl::StatusOr<std::unique_ptr<Broker>> Start(Options options);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  const std::string& path() const { return options_.path; }
  size_t connections() const { return connection_count_.load(std::memory_order_relaxed); }

 private:
  struct Connection;
  // The result of moving a buffer.
  struct Moved {
    uint64_t connection = 0;
    uint64_t number = 0;
    MappedBuffer buffer;
    broker::Outcome outcome = broker::Outcome::kOk;
  };

  Broker(Options options, FileDescriptor listener, FileDescriptor poll, FileDescriptor wake);

  void Serve();
  // Milliseconds until the next timed work; -1 for none.
  int PollTimeout() const;
  void Accept();
  void PauseListening();
  void ResumeListening();
  // Reads one message. Returns false if the connection must be closed.
  bool Receive(uint64_t id, Connection& connection);
  bool Answer(uint64_t id, Connection& connection, const broker::Request& request);
  broker::Outcome Attach(Connection& connection, const broker::Request& request);
  // Sends a buffer's descriptor, or the error.
  bool AnswerMap(Connection& connection, uint64_t number, const MappedBuffer& wanted,
                 broker::Outcome outcome);
  void TakeMoved();
  void CloseLate();
  void Close(uint64_t id);
  void Wake();

  const Options options_;
  const FileDescriptor listener_;
  const FileDescriptor poll_;
  const FileDescriptor wake_;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> connection_count_{0};

  // ---- used only by the broker's thread
  absl::flat_hash_map<uint64_t, std::unique_ptr<Connection>> connections_;
  uint64_t next_connection_;
  uint64_t next_region_ = 1;
  size_t strangers_ = 0;
  int64_t next_sweep_ns_ = 0;
  int64_t listen_again_ns_ = 0;  // 0 while listening
  int64_t next_denial_log_ns_ = 0;

  Mutex mutex_;
  std::vector<Moved> moved_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<Mover> mover_;
  std::thread thread_;
};

}  // namespace pto::daemon
