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

// The amount of measurements.
struct Effort {
  // Alternating rounds of our server and the bare peer, for short calls and for long transfers.
  int rounds = 10;
  int long_rounds = 5;
  // Such a run takes only a few milliseconds, so many rounds are needed.
  int event_rounds = 40;
  // Calls in a round.
  int calls = 1000;
  // Runs in a round with many in flight.
  int pipelined_runs = 5000;
  uint64_t event_tasks = 100'000;
  uint64_t transfer_bytes = uint64_t{256} << 20;
  uint64_t large_graph_tasks = 1'000'000;
  uint64_t open_run_tasks = 10'000'000;

  // Only checks that everything works.
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

// The two servers of a benchmark, each a separate process on a unix socket in one directory: a real
// ptod with one simulated chip, and the bare peer. Both are reached in the same way.
class Servers {
 public:
  // How they are reached: through unix sockets, or over loopback with TLS and certificates of both
  // sides.
  enum class Transport { kUnix, kTls };

  // `self` is this program, which becomes the peer if it is given kBareServerFlag.
  static absl::StatusOr<std::unique_ptr<Servers>> Start(const std::string& ptod,
                                                        const std::string& self,
                                                        Transport transport = Transport::kUnix);

  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // Places this process and the servers from now on.
  absl::Status Place(Placement placement) {
    return bench::Place(placement, {daemon_process_.pid(), bare_process_.pid()});
  }

  pid_t daemon_pid() const { return daemon_process_.pid(); }

  // Connected to the daemon.
  Client& client() { return client_; }
  // A session of the daemon, with a graph of one task that does nothing.
  Session& session() { return session_; }
  const std::string& one_task_graph() const { return one_task_graph_; }

  // The daemon's limits.
  const v1::Limits& limits() const { return client_.node().limits(); }

  // A connection that is not shared.
  std::shared_ptr<grpc::Channel> ToDaemon() const;
  std::shared_ptr<grpc::Channel> ToBare() const;

  // On one connection for each server, like a client's control calls.
  v1::RunService::Stub& run() { return *run_; }
  Bare::Stub& bare() { return *bare_; }

 private:
  // How to connect.
  struct Addresses {
    std::string daemon;
    std::string bare;
    std::string tls_directory;  // empty: without TLS
  };

  Servers(TemporaryDirectory directory, Addresses addresses, ChildProcess daemon, ChildProcess bare,
          Client client, Session session, std::string one_task_graph);

  // In this order: the session is closed before the daemon stops.
  const TemporaryDirectory directory_;
  const Addresses addresses_;
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
// With this one too it uses TLS.
inline constexpr absl::string_view kBareTlsFlag = "--bare-tls=";

// The default path of a program such as `daemon/ptod`: in the runfiles of this program, or next to
// it in Bazel's output. Empty if it is not there.
std::string FindProgram(const std::string& self, absl::string_view program);

// The error of a call to either server.
absl::Status CallError(absl::string_view what, const grpc::Status& status);

}  // namespace pto::bench
