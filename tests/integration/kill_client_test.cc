// Clients that are killed at random points leave nothing behind in the daemon.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "client/client.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/doomed_client.h"
#include "tests/harness/holdings.h"
#include "tests/harness/process.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {
namespace {

constexpr absl::Duration kTtl = absl::Milliseconds(500);
// For kernels to notice the cancellation, and for the cleanup, on a busy machine.
constexpr absl::Duration kGrace = kAddressSanitizer ? absl::Seconds(20) : absl::Seconds(5);

// What the allocator may keep of freed memory, and what is remembered of ended sessions.
constexpr uint64_t kMayKeep = 24 << 20;

int Kills() {
  int kills = kAddressSanitizer ? 200 : 1000;
  if (const char* text = std::getenv("PTOD_CLIENT_KILLS")) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &kills));
  }
  return kills;
}

// A client that closes its session.
void LiveWell(const std::string& address) {
  Client client = Client::Connect(address).value();
  Session session = client.CreateSession().value();
  const Buffer buffer = session.CreateBuffer("b", 0, 256 << 10).value();
  EXPECT_THAT(buffer.Write(std::vector<char>(buffer.bytes(), 'x')), IsOk());
  EventStream events = session.Watch().value();
  GraphBuilder graph;
  graph.Task("noop", 0, {});
  EXPECT_THAT(session.Submit(graph, {.wait = absl::Seconds(30)}), IsOk());
  EXPECT_THAT(events.Next(), IsOk());
  EXPECT_THAT(session.Close(), IsOk());
}

TEST(KillClientTest, WhatKilledClientsHadIsBackWithinTheTimeToLive) {
  constexpr int kRounds = 5;
  DaemonProcess daemon({"--sim-chips=2", "--session-min-ttl=100ms", "--max-sessions=4096"});
  const Holdings baseline = LookAt(daemon).value();
  EXPECT_EQ(baseline.sessions, 0u);
  EXPECT_EQ(baseline.shared_memory, 0u);
  LiveWell(daemon.address());
  AwaitBaseline(daemon, baseline, kGrace);
  std::cout << "baseline: " << baseline.ToString() << "\n";

  const auto seed = static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 1;
  uint64_t first_resident = 0;
  absl::Duration longest;
  for (int round = 0; round < kRounds; ++round) {
    DoomedClients clients;
    clients.address = daemon.address();
    clients.seed = seed * kRounds + static_cast<uint64_t>(round);
    clients.kills = Kills() / kRounds;
    clients.at_once = 6;
    clients.ttl = kTtl;
    if (kAddressSanitizer) clients.longest *= 5;
    const ProgramResult killed = RunProgram(CommandOf(clients), {}, absl::Seconds(100));
    EXPECT_EQ(killed.exit_code, 0) << killed.err;
    uint64_t steps = 0;
    EXPECT_TRUE(absl::SimpleAtoi(killed.out, &steps)) << killed.out;
    // They do some work before they die; how much depends on the machine.
    EXPECT_GT(steps, static_cast<uint64_t>(clients.kills / 10));
    const absl::Duration took = AwaitBaseline(daemon, baseline, kTtl + kGrace);
    longest = std::max(longest, took);
    const uint64_t resident = daemon.ResidentBytes();
    if (round == 0) first_resident = resident;
    std::cout << clients.kills << " clients killed after " << steps << " steps, seed "
              << clients.seed << ": back after " << took << ", " << (resident >> 20)
              << " MiB resident\n";
    if (!kAddressSanitizer) {
      EXPECT_LT(resident, first_resident + kMayKeep);
    }
    if (::testing::Test::HasFailure()) return;
  }
  std::cout << Kills() << " clients killed; everything was back within " << longest << "\n";
  // The daemon works as before.
  LiveWell(daemon.address());
  daemon.Stop();
}

}  // namespace
}  // namespace pto::testing

int main(int argc, char** argv) {
  if (const absl::optional<int> code = pto::testing::MaybeKillClients(argc, argv)) return *code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
