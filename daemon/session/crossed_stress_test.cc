// A node with real threads on which open runs, leases of chips, cancellations and the ends of
// sessions meet at random. Nothing hangs, no leased chip has work of others, and at the end nothing
// is left.

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/node/node.h"
#include "daemon/session/testing/open_run_testing.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/chip/sim/sim_chip.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::OpenFill;
using ::pto::daemon::testing::Place;

constexpr int kRounds = kSanitized ? 60 : 300;
// A task on so many takes a while, so that segments behind it wait.
constexpr uint64_t kFloats = 1 << 17;
// Longer than anything here takes: reached only by what hangs.
constexpr absl::Duration kForever = absl::Seconds(60);

class CrossedStressTest : public ::testing::Test {
 protected:
  CrossedStressTest() : node_(MakeOptions()) {}

  static Node::Options MakeOptions() {
    Node::Options options;
    options.chips = {engine::SimChip::Create(0, 2, 16 << 20),
                     engine::SimChip::Create(1, 2, 16 << 20)};
    options.executors = 2;
    options.session_times.min_ttl = absl::Milliseconds(1);
    options.limits.max_session_live_tasks = 8;
    options.limits.max_session_active_runs = 100;
    return options;
  }

  std::shared_ptr<Session> Create(const std::string& id, absl::Duration ttl,
                                  const std::string& lease = "") {
    SessionManager::Request request;
    request.id = id;
    request.ttl = ttl;
    request.lease = lease;
    return node_.sessions().Create(auth::Daemon(), request).value();
  }

  // One client: open runs on both chips, which end in all ways.
  void Client(int number) {
    std::minstd_rand random(static_cast<unsigned>(number));
    for (int round = 0; round < kRounds; ++round) {
      // Some expire in the middle.
      const absl::Duration ttl = random() % 3 == 0 ? absl::Milliseconds(2) : kForever;
      const std::string id = absl::StrCat("c", number, "-", round);
      const std::shared_ptr<Session> session = Create(id, ttl);
      std::vector<std::shared_ptr<RunEntry>> runs;
      if (session->CreateBuffers({{"x", 0, 64}, {"y", 1, kFloats * sizeof(float)}}).ok())
        Work(*session, random, &runs);
      if (random() % 2 == 0) node_.sessions().Delete(auth::Daemon(), id, "a test").IgnoreError();
      for (const std::shared_ptr<RunEntry>& run : runs) {
        EXPECT_TRUE(Until([&] { return run->ended(); })) << run->record().name() << " hangs";
      }
      node_.sessions().Delete(auth::Daemon(), id, "a test").IgnoreError();
      EXPECT_TRUE(Until([&] { return session->usage().active_runs == 0; }));
      EXPECT_EQ(session->usage().open_tasks, 0u);
      EXPECT_EQ(session->options().quota->used(Resource::kRuns), 0u);
    }
  }

  void Work(Session& session, std::minstd_rand& random,
            std::vector<std::shared_ptr<RunEntry>>* runs) {
    std::vector<OpenFill> open;
    for (int i = 0; i < 2; ++i) {
      RunTerms terms;
      terms.id = absl::StrCat("r", i);
      absl::StatusOr<std::shared_ptr<StreamedRun>> run = session.StartOpenRun(terms);
      if (!run.ok()) continue;
      runs->push_back(*run);
      open.emplace_back(*run);
    }
    const Place x = {"x", 0}, y = {"y", 1, kFloats};
    for (int segment = 0; segment < 12 && !open.empty(); ++segment) {
      OpenFill& chosen = open[random() % open.size()];
      StreamedRun& run = chosen.run();
      if (!Until([&] { return run.AwaitRoom([] {}); })) break;
      const absl::Status added =
          chosen.Add(random() % 2 == 0 ? std::vector<Place>{y, x} : std::vector<Place>{y});
      // What the stream does with an error.
      if (!added.ok()) run.Stop(engine::RunState::kFailed, added);
      if (random() % 16 == 0) {
        run.Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
      }
    }
    for (OpenFill& last : open) {
      if (Until([&] { return last.run().AwaitRoom([] {}); })) last.run().Close();
    }
  }

  // Leases chips again and again, and sees that they are its own.
  void Holder() {
    for (int i = 0; !clients_gone_.load(); ++i) {
      const std::string id = absl::StrCat("h", i);
      Create(id, kForever);
      ASSERT_TRUE(node_.leases().Ask(id, 1 + i % 2, auth::Daemon().name, 1000).ok());
      const bool granted = Until([&] { return node_.leases().Find(id)->granted; });
      EXPECT_TRUE(granted) << "runs of others keep it waiting for ever";
      if (granted) {
        const std::vector<uint32_t> chips = node_.leases().Find(id)->chips;
        for (int look = 0; look < 20; ++look) {
          for (const uint32_t chip : chips) trespasses_ += Started(chip);
          std::this_thread::yield();
        }
        ++granted_;
      }
      node_.sessions().Delete(auth::Daemon(), id, "a test").IgnoreError();
    }
  }

  // Runs on the chip of which a task has started. One that was accepted and is about to be refused
  // has none.
  int Started(uint32_t chip) {
    return static_cast<int>(node_.engine().CountIf([&](const ::pto::engine::Run& run) {
      return Node::UsesChip(run, chip) && run.started_ns() != 0;
    }));
  }

  // Cancels runs that it finds.
  void Canceller() {
    std::minstd_rand random(99);
    while (!clients_gone_.load()) {
      for (const std::shared_ptr<Session>& session :
           node_.sessions().List(auth::Daemon(), "", 100)) {
        for (const std::shared_ptr<RunEntry>& run : session->ListRuns(0, 10, true)) {
          if (random() % 8 != 0) continue;
          run->Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
        }
      }
      std::this_thread::yield();
    }
  }

  static bool Until(const std::function<bool()>& holds) {
    const absl::Time end = absl::Now() + kForever;
    while (!holds()) {
      if (absl::Now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  Node node_;
  std::atomic<bool> clients_gone_{false};
  std::atomic<int> granted_{0};
  std::atomic<int> trespasses_{0};
};

TEST_F(CrossedStressTest, NothingHangsAndNothingIsLeft) {
  std::thread holder([this] { Holder(); });
  std::thread canceller([this] { Canceller(); });
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) clients.emplace_back([this, i] { Client(i); });
  for (std::thread& client : clients) client.join();
  clients_gone_.store(true);
  holder.join();
  canceller.join();
  EXPECT_GT(granted_.load(), 0);
  EXPECT_EQ(trespasses_.load(), 0) << "runs of others have started on leased chips";
  EXPECT_TRUE(node_.WaitIdle(kForever));
  EXPECT_EQ(node_.sessions().size(), 0u);
  EXPECT_EQ(node_.leases().claims(), 0u);
  for (const std::shared_ptr<engine::Chip>& chip : node_.engine().chips()) {
    EXPECT_TRUE(Until([&] { return chip->memory().used_bytes() == 0; }));
    const engine::Engine::ChipUse use = node_.engine().chip_use(chip->index());
    EXPECT_EQ(use.busy_cores, 0u);
    EXPECT_EQ(use.ready_tasks, 0u);
  }
}

// A drain whose grace is over cancels what runs, what is being started and open runs that wait for
// their clients.
TEST_F(CrossedStressTest, TheEndOfADrainEndsOpenRunsToo) {
  const std::shared_ptr<Session> session = Create("s", absl::Hours(1));
  OpenFill idle(*session, "idle");
  node_.BeginDrain("a test", absl::Milliseconds(1));
  EXPECT_TRUE(Until([&] { return idle.run().ended(); }));
  EXPECT_EQ(idle.state(), engine::RunState::kCancelled);
}

}  // namespace
}  // namespace pto::daemon
