#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"
#include "pto/v1/buffer.grpc.pb.h"
#include "pto/v1/event.grpc.pb.h"
#include "pto/v1/run.grpc.pb.h"
#include "tests/bench/bare.grpc.pb.h"
#include "tests/bench/child_process.h"
#include "tests/bench/placement.h"

namespace pto::bench {

// How much to measure.
struct Effort {
  // Alternating rounds of ours and of the bare peer, for short calls and for long transfers.
  int rounds = 10;
  int long_rounds = 5;
  // A run of so few milliseconds that only many of them say something.
  int event_rounds = 40;
  // Calls in a round.
  int calls = 1000;
  // Runs in a round with many in flight.
  int pipelined_runs = 5000;
  uint64_t event_tasks = 100'000;
  uint64_t transfer_bytes = uint64_t{256} << 20;
  uint64_t large_graph_tasks = 1'000'000;
  uint64_t open_run_tasks = 10'000'000;

  // Only shows that everything works.
  static Effort Quick() {
    return {.rounds = 2,
            .long_rounds = 2,
            .event_rounds = 2,
            .calls = 50,
            .pipelined_runs = 200,
            .event_tasks = 20'000,
            .transfer_bytes = uint64_t{8} << 20,
            .large_graph_tasks = 10'000,
            .open_run_tasks = 400'000};
  }
};

// The two servers of a benchmark, each a process of its own on a unix socket in one directory: a
// real ptod with one simulated chip, and the bare peer. Both are reached in the same way.
class Servers {
 public:
  // `self` is this program, which becomes the peer when it is given kBareServerFlag.
  static absl::StatusOr<std::unique_ptr<Servers>> Start(const std::string& ptod,
                                                        const std::string& self);

  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Says where this process and the servers run from now on.
  absl::Status Place(Placement placement) {
    return bench::Place(placement, {daemon_process_.pid(), bare_process_.pid()});
  }

  pid_t daemon_pid() const { return daemon_process_.pid(); }

  // Reaches the daemon.
  Client& client() { return client_; }
  // A session there, with a graph of one task that does nothing.
  Session& session() { return session_; }
  const std::string& one_task_graph() const { return one_task_graph_; }

  // What the daemon allows.
  const v1::Limits& limits() const { return client_.node().limits(); }

  // A connection that is not shared.
  std::shared_ptr<grpc::Channel> ToDaemon() const;
  std::shared_ptr<grpc::Channel> ToBare() const;

  // On one connection for each server, as a client has for control calls.
  v1::RunService::Stub& run() { return *run_; }
  Bare::Stub& bare() { return *bare_; }

 private:
  Servers(TemporaryDirectory directory, ChildProcess daemon, ChildProcess bare, Client client,
          Session session, std::string one_task_graph);

  // In this order: the session is closed before the daemon stops.
  const TemporaryDirectory directory_;
  ChildProcess daemon_process_;
  ChildProcess bare_process_;
  Client client_;
  Session session_;
  const std::string one_task_graph_;
  const std::unique_ptr<v1::RunService::Stub> run_;
  const std::unique_ptr<Bare::Stub> bare_;
};

// Registers a graph of one task that does nothing; returns its name.
absl::StatusOr<std::string> RegisterOneTask(Session& session);

// `--bare-server=ADDRESS` makes a benchmark serve as the bare peer.
inline constexpr absl::string_view kBareServerFlag = "--bare-server=";

// Where a program such as `daemon/ptod` is when nobody says: in the runfiles of this one, or
// beside it in Bazel's output. Empty when it is in none of these places.
std::string FindProgram(const std::string& self, absl::string_view program);

// An error of a call of either server.
absl::Status CallError(absl::string_view what, const grpc::Status& status);

}  // namespace pto::bench
