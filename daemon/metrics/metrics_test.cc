// What is exported, whether it is described, and how it is asked for.

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/domain/domain_spec.h"
#include "daemon/events/event_log.h"
#include "daemon/metrics/busy_sampler.h"
#include "daemon/metrics/collector.h"
#include "daemon/metrics/refusals.h"
#include "daemon/metrics/rpc_stats.h"
#include "daemon/metrics/scrape_server.h"
#include "daemon/model/histogram.h"
#include "daemon/model/run_stats.h"
#include "daemon/node/node.h"
#include "daemon/quota/quota.h"
#include "daemon/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/base/ticks.h"
#include "runtime/base/timer.h"
#include "runtime/chip/sim/sim_chip.h"
#include "tests/harness/directory.h"

namespace pto::daemon::metrics {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(HistogramTest, ABoundBelongsToWhatIsBelowIt) {
  Histogram histogram;
  for (const int64_t ns : {-5, 0, 1'000}) histogram.Observe(ns);
  histogram.Observe(1'001);
  histogram.Observe(int64_t{1} << 60);
  const Histogram::Snapshot snapshot = histogram.Look();
  EXPECT_EQ(snapshot.counts[0], 3u);
  EXPECT_EQ(snapshot.counts[1], 1u);
  EXPECT_EQ(snapshot.counts.back(), 1u);
  EXPECT_EQ(snapshot.sum_ns, 2'001u + (uint64_t{1} << 60));
}

TEST(RunStatsTest, AddsUpWhatThreadsSaw) {
  RunStats stats;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) stats.OnEnded(4, 500, 5'000'000, 1, 2);
      // Never started.
      stats.OnEnded(6, 0, 0, 0, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const RunStats::Totals totals = stats.Look();
  EXPECT_EQ(totals.ended[4], 4000u);
  EXPECT_EQ(totals.ended[6], 4u);
  EXPECT_EQ(totals.tasks_failed, 4000u);
  EXPECT_EQ(totals.tasks_skipped, 8000u);
  EXPECT_EQ(totals.queue.counts[0], 4000u);
  EXPECT_EQ(totals.run.sum_ns, uint64_t{4000} * 5'000'000);
}

TEST(RpcStatsTest, CountsByMethodCodeAndReason) {
  RpcStats stats;
  const uint32_t first = stats.AddMethod("a.B/C");
  const uint32_t second = stats.AddMethod("a.B/D");
  const auto microsecond = static_cast<uint64_t>(TicksPerMicrosecond());
  stats.OnEnd(first, absl::OkStatus(), 15 * microsecond);
  stats.OnEnd(second, Error(reason::kRunLimit, "enough"), 0);
  stats.OnEnd(second, Error(reason::kRunLimit, "enough"), 0);
  const std::vector<RpcStats::MethodTotals> totals = stats.Look();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].name, "a.B/C");
  EXPECT_EQ(totals[0].codes[0], 1u);
  EXPECT_EQ(totals[0].times.counts[4], 1u) << "between 10 and 20 us";
  EXPECT_EQ(totals[1].codes[8], 2u);
  EXPECT_THAT(stats.refusals(), ElementsAre(Pair("RUN_LIMIT", 2)));
}

class CollectorTest : public ::testing::Test {
 protected:
  static Node::Options TwoChips() {
    Node::Options options;
    options.chips = {engine::SimChip::Create(0), engine::SimChip::Create(1)};
    options.executors = 1;
    options.limits.event_log_bytes = 64 << 10;
    return options;
  }
  std::vector<prometheus::MetricFamily> Collect() {
    return Collector({&node_, &runs_, &calls_, &in_streams_, nullptr, "1.2.3"}).Collect();
  }

  Node node_{TwoChips()};
  RunStats runs_;
  RpcStats calls_;
  Refusals in_streams_;
};

// Names and types in the table of README.md.
std::map<std::string, std::string> Described() {
  std::map<std::string, std::string> described;
  // Tests run where the source tree begins.
  std::ifstream file("daemon/metrics/README.md");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    const std::string name(cells[1].substr(2, cells[1].size() - 4));
    described[name] = cells[2].substr(1, cells[2].size() - 2);
  }
  return described;
}

TEST_F(CollectorTest, EveryMetricIsDescribed) {
  const std::map<std::string, std::string> types = {
      {"0", "counter"}, {"1", "gauge"}, {"2", "summary"}, {"3", "untyped"}, {"4", "histogram"}};
  std::map<std::string, std::string> exported;
  for (const prometheus::MetricFamily& family : Collect()) {
    const std::string type = types.at(absl::StrCat(static_cast<int>(family.type)));
    EXPECT_TRUE(exported.emplace(family.name, type).second) << family.name << " is there twice";
    EXPECT_FALSE(family.help.empty()) << family.name;
  }
  EXPECT_EQ(exported, Described());
}

// https://prometheus.io/docs/practices/naming
TEST_F(CollectorTest, NamesFollowTheConventions) {
  for (const prometheus::MetricFamily& family : Collect()) {
    EXPECT_TRUE(absl::StartsWith(family.name, "ptod_") || absl::StartsWith(family.name, "process_"))
        << family.name;
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, absl::EndsWith(family.name, "_total"))
        << family.name;
    if (family.type == prometheus::MetricType::Histogram) {
      EXPECT_TRUE(absl::EndsWith(family.name, "_seconds")) << family.name;
    }
    for (const char* unit : {"_ns", "_ms", "_us", "_milliseconds", "_kb"}) {
      EXPECT_FALSE(absl::EndsWith(family.name, unit)) << family.name;
    }
  }
}

TEST_F(CollectorTest, TellsWhatTheSourcesSay) {
  runs_.OnEnded(static_cast<size_t>(engine::RunState::kFailed), 1'500, 30'000, 2, 7);
  calls_.OnEnd(calls_.AddMethod("pto.v1.NodeService/GetNode"), absl::OkStatus(), 0);
  calls_.OnEnd(calls_.AddMethod("pto.v1.RunService/SubmitRun"), Error(reason::kRunLimit, "enough"),
               0);
  // What is refused in a stream counts beside what calls end with.
  in_streams_.Count(Error(reason::kRunLimit, "enough"));
  in_streams_.Count(Error(reason::kRunLimit, "enough"));
  in_streams_.Count(Error(reason::kQuotaTasks, "enough"));
  in_streams_.Count(Error(reason::kIdConflict, "no refusal of this kind"));
  const std::string text = prometheus::TextSerializer().Serialize(Collect());
  for (const char* line :
       {"ptod_build_info{version=\"1.2.3\"} 1", "ptod_runs_total{state=\"failed\"} 1",
        "ptod_runs_total{state=\"succeeded\"} 0", "ptod_tasks_failed_total 2",
        "ptod_tasks_skipped_total 7", "ptod_chip_cores{chip=\"1\"} 72",
        "ptod_chip_memory_used_bytes{chip=\"0\"} 0",
        "ptod_grpc_calls_total{method=\"pto.v1.NodeService/GetNode\",code=\"OK\"} 1",
        "ptod_grpc_calls_total{method=\"pto.v1.RunService/SubmitRun\","
        "code=\"RESOURCE_EXHAUSTED\"} 1",
        "ptod_quota_refusals_total{reason=\"RUN_LIMIT\"} 3",
        "ptod_quota_refusals_total{reason=\"QUOTA_TASKS\"} 1", "ptod_run_queue_seconds_count 1",
        "ptod_sessions 0"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\n", line))) << line;
  }
  EXPECT_THAT(text, HasSubstr("ptod_run_queue_seconds_bucket{le=\"1e-06\"} 0"));
  EXPECT_THAT(text, HasSubstr("ptod_run_queue_seconds_bucket{le=\"+Inf\"} 1"));
}

TEST_F(CollectorTest, ReadsNoClockForCoresThatNobodyCanUse) {
  ManualClock clock;
  TimerQueue timers(clock);
  bool in_use = false;
  const std::shared_ptr<BusySampler> sampler =
      BusySampler::Start(node_.engine(), timers, clock, [&] { return in_use; });
  EXPECT_EQ(timers.RunDue(), -1) << "it starts asleep";

  constexpr auto kHalf = absl::Nanoseconds(BusySampler::kPeriodNs / 2);
  in_use = true;
  sampler->Wake();
  clock.Advance(kHalf);
  sampler->Wake();
  for (int i = 0; i < 3; ++i) {
    clock.Advance(i == 0 ? kHalf : 2 * kHalf);
    EXPECT_EQ(timers.RunDue(), clock.NowNanos() + BusySampler::kPeriodNs)
        << "one that is awake is not woken again";
  }
  clock.Advance(2 * kHalf);
  in_use = false;
  EXPECT_EQ(timers.RunDue(), -1) << "it sleeps again";
  in_use = true;
  sampler->Wake();
  EXPECT_NE(timers.RunDue(), -1);
}

// One that has taken the first event and no more.
class SlowWatcher final : public EventWatcher {
 public:
  void OnEvents(bool) override {}
  uint64_t through() const override { return 1; }
};

TEST_F(CollectorTest, TellsWhatSessionsHoldAndWhoWatches) {
  std::vector<std::shared_ptr<EventWatcher>> watchers;
  for (const char* id : {"first", "second"}) {
    SessionManager::Request request;
    request.id = id;
    const std::shared_ptr<Session> session =
        node_.sessions().Create(auth::Daemon(), std::move(request)).value();
    DomainSpec spec;
    spec.chips = {0, 1};
    spec.signal_count = 1;
    ASSERT_THAT(session->domains().Create("d", spec), IsOk());
    watchers.push_back(std::make_shared<SlowWatcher>());
    session->log().AddWatcher(watchers.back());
  }
  // Two more in one than in the other.
  const std::shared_ptr<Session> busy = node_.sessions().Find(auth::Daemon(), "second").value();
  const auto run = std::make_shared<RunRecord>();
  for (int i = 0; i < 3; ++i) busy->log().AppendRun(run, engine::RunState::kRunning, absl::Now());
  std::string text = prometheus::TextSerializer().Serialize(Collect());
  for (const char* line :
       {"ptod_domains 2", "ptod_windows 4", "ptod_event_watchers 2", "ptod_event_lag_events 2"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\n", line, "\n"))) << line;
  }
  const uint64_t bytes = 2 * busy->domains().Find("d").value()->device_bytes();
  EXPECT_GT(bytes, 0u);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("\nptod_window_bytes ", bytes, "\n")));
  // More than the log holds.
  EXPECT_THAT(text, HasSubstr("\nptod_events_dropped_total 0\n"));
  while (EventLog::dropped_events() == 0) {
    busy->log().AppendRun(run, engine::RunState::kRunning, absl::Now());
  }
  text = prometheus::TextSerializer().Serialize(Collect());
  EXPECT_THAT(text, HasSubstr(absl::StrCat("\nptod_events_dropped_total ",
                                           EventLog::dropped_events(), "\n")));
}

TEST_F(CollectorTest, CountsTasksOfAllRunsThatHaveNotEnded) {
  SessionManager::Request request;
  request.id = "s";
  const std::shared_ptr<Session> session =
      node_.sessions().Create(auth::Daemon(), std::move(request)).value();
  ASSERT_THAT(session->options().quota->Take(Resource::kTasks, 7), IsOk());
  EXPECT_THAT(prometheus::TextSerializer().Serialize(Collect()),
              HasSubstr("\nptod_tasks_in_flight 7\n"));
  session->options().quota->Give(Resource::kTasks, 7);
}

int ConnectTo(const std::string& path) {
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  std::memcpy(place.sun_path, path.data(), path.size());
  const int connection = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  return connection;
}

// What one client gets that sends these bytes to a unix socket.
std::string Ask(const std::string& path, const std::string& request) {
  const int connection = ConnectTo(path);
  EXPECT_EQ(send(connection, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(connection, bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<size_t>(got));
  }
  close(connection);
  return answer;
}

class ScrapeServerTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ScrapeServer>> Start() {
    return ScrapeServer::Start(*ListenAddress::Parse(absl::StrCat("unix:", path_)),
                               [] { return std::string(100'000, 'x'); });
  }
  const testing::Directory directory_;
  const std::string path_ = directory_.path() + "/metrics.sock";
};

TEST_F(ScrapeServerTest, AnswersAndRefuses) {
  const auto server = Start();
  ASSERT_THAT(server, IsOk());
  const std::string answer = Ask(path_, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, AllOf(HasSubstr("HTTP/1.1 200 OK\r\n"), HasSubstr("version=0.0.4"),
                            HasSubstr("Content-Length: 100000\r\n")));
  EXPECT_TRUE(absl::EndsWith(answer, "\r\n\r\n" + std::string(100'000, 'x')));
  EXPECT_THAT(Ask(path_, "GET / HTTP/1.1\r\n\r\n"), HasSubstr("404"));
  EXPECT_THAT(Ask(path_, "POST /metrics HTTP/1.1\r\n\r\n"), HasSubstr("405"));
  EXPECT_THAT(Ask(path_, std::string(8500, 'y')), HasSubstr("431"));
}

TEST_F(ScrapeServerTest, StopsWhileAClientIsStillAsking) {
  auto server = Start();
  ASSERT_THAT(server, IsOk());
  const int connection = ConnectTo(path_);
  ASSERT_EQ(send(connection, "G", 1, MSG_NOSIGNAL), 1);
  // Until the server has taken the byte, and waits for the next one.
  for (int unread = 1; unread != 0; std::this_thread::yield()) {
    ASSERT_EQ(ioctl(connection, SIOCOUTQ, &unread), 0);
  }
  const absl::Time before = absl::Now();
  server->reset();
  EXPECT_LT(absl::Now() - before, absl::Milliseconds(1500)) << "it waits for a slow client";
  close(connection);
}

TEST_F(ScrapeServerTest, WhoAsksByteByByteIsCutOff) {
  const auto server = Start();
  ASSERT_THAT(server, IsOk());
  const int connection = ConnectTo(path_);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (send(connection, "G", 1, MSG_NOSIGNAL) == 1 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_LT(absl::Now(), deadline);
  close(connection);
  EXPECT_THAT(Ask(path_, "GET / HTTP/1.1\r\n\r\n"), HasSubstr("404"));
}

// Half of them say nothing and half of them do not read what they asked for.
TEST_F(ScrapeServerTest, SlowClientsDelayNobody) {
  constexpr int kSlow = 32;
  constexpr size_t kMoreThanASocketHolds = 4 << 20;
  int made = 0;
  const auto server =
      ScrapeServer::Start(*ListenAddress::Parse(absl::StrCat("unix:", path_)), [&made] {
        ++made;
        return std::string(kMoreThanASocketHolds, 'x');
      });
  ASSERT_THAT(server, IsOk());
  const std::string request = "GET /metrics HTTP/1.1\r\n\r\n";
  const absl::Time before = absl::Now();
  std::vector<int> slow;
  for (int i = 0; i < kSlow; ++i) {
    slow.push_back(ConnectTo(path_));
    const size_t size = i % 2 == 0 ? 1 : request.size();
    ASSERT_EQ(send(slow.back(), request.data(), size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  const absl::Time asked = absl::Now();
  EXPECT_THAT(Ask(path_, "GET / HTTP/1.1\r\n\r\n"), HasSubstr("404"));
  EXPECT_GT(Ask(path_, request).size(), kMoreThanASocketHolds);
  EXPECT_LT(absl::Now() - asked, absl::Seconds(1));
  // They share texts: at most four are made in a second.
  EXPECT_LE(made, 2 + (absl::Now() - before) / absl::Milliseconds(250));
  for (const int connection : slow) close(connection);
}

TEST_F(ScrapeServerTest, TheOldestOfTooManyConnectionsIsClosed) {
  const auto server = Start();
  ASSERT_THAT(server, IsOk());
  const int oldest = ConnectTo(path_);
  std::vector<int> others;
  for (size_t i = 0; i < ScrapeServer::kMaxConnections; ++i) others.push_back(ConnectTo(path_));
  char byte = 0;
  EXPECT_EQ(recv(oldest, &byte, 1, 0), 0);
  close(oldest);
  EXPECT_THAT(Ask(path_, "GET / HTTP/1.1\r\n\r\n"), HasSubstr("404"));
  for (const int connection : others) close(connection);
}

TEST_F(ScrapeServerTest, ReplacesWhatADeadDaemonLeft) {
  {
    const auto server = Start();
    ASSERT_THAT(server, IsOk());
    EXPECT_THAT(Start(), HasReason(reason::kListenFailed)) << "somebody listens there";
  }
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "it takes its socket with it";
  // A socket that nobody listens on.
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  std::memcpy(place.sun_path, path_.data(), path_.size());
  const int left = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  close(left);
  EXPECT_THAT(Start(), IsOk());
}

TEST_F(ScrapeServerTest, OnAPortOfTheMachine) {
  const auto server = ScrapeServer::Start(*ListenAddress::Parse("127.0.0.1:0"), [] { return ""; });
  ASSERT_THAT(server, IsOk());
  EXPECT_TRUE(absl::StartsWith((*server)->address(), "127.0.0.1:"));
  EXPECT_FALSE(absl::EndsWith((*server)->address(), ":0"));
}

}  // namespace
}  // namespace pto::daemon::metrics
