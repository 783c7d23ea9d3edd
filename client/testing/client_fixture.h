#pragma once

#include <memory>
#include <string>
#include <utility>

#include "client/client.h"
#include "client/testing/fake_daemon.h"
#include "client/testing/temp_socket.h"
#include "gtest/gtest.h"
#include "runtime/base/clock.h"

namespace pto::testing {

// How much a call may exceed its timeout on a busy machine. Less than the ten seconds that gRPC may
// wait for one of its threads.
inline constexpr absl::Duration kSlack = absl::Seconds(8);
// How long to wait for an event that must happen.
inline constexpr absl::Duration kLong = absl::Seconds(30);

// Measures the time since its creation.
class Stopwatch {
 public:
  absl::Duration Elapsed() const { return absl::Nanoseconds(Clock::Real().NowNanos() - start_ns_); }

 private:
  const int64_t start_ns_ = Clock::Real().NowNanos();
};

// A test with a fake daemon at a private socket, where it can be restarted.
class ClientFixture : public ::testing::Test {
 protected:
  void StartDaemon(FakeDaemon::Options options = {}) {
    daemon_.reset();
    daemon_ = std::make_unique<FakeDaemon>(socket_.address(), std::move(options));
  }
  // Restarts it with the same socket, a new boot id, and no sessions.
  void RestartDaemon() { StartDaemon({.boot_id = "boot-2"}); }

  Client Connect(absl::Duration timeout = absl::Seconds(20)) {
    absl::StatusOr<Client> client = Client::Connect(socket_.address(), {.timeout = timeout});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  Session CreateSession(SessionOptions options = {}) {
    Client client = Connect();
    absl::StatusOr<Session> session = client.CreateSession(options);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  CallGate& gate() { return daemon_->gate(); }

  TempSocket socket_;
  std::unique_ptr<FakeDaemon> daemon_;
};

}  // namespace pto::testing
