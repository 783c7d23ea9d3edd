// What a Prometheus server gets from a real daemon, and what `ptoctl top` shows.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/http_get.h"
#include "tests/harness/ptoctl.h"

namespace pto::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MetricsTest : public ::testing::Test {
 protected:
  // By name and labels, as written.
  std::map<std::string, double> Scrape() {
    std::map<std::string, double> samples;
    for (const absl::string_view line :
         absl::StrSplit(HttpGet(path_, "/metrics"), '\n', absl::SkipEmpty())) {
      if (line[0] == '#') continue;
      const size_t space = line.rfind(' ');
      double value = 0;
      EXPECT_TRUE(absl::SimpleAtod(line.substr(space + 1), &value)) << line;
      samples[std::string(line.substr(0, space))] = value;
    }
    return samples;
  }

  const Directory directory_;
  const std::string path_ = directory_.path() + "/metrics.sock";
  DaemonProcess daemon_{{"--sim-chips=2", absl::StrCat("--metrics-listen=unix:", path_),
                         "--max-session-active-runs=3", "--session-min-ttl=50ms",
                         "--event-log-bytes=64K"}};
  Client client_ = *Client::Connect(daemon_.address());
};

TEST_F(MetricsTest, TellsWhatHappened) {
  std::map<std::string, double> before = Scrape();
  EXPECT_EQ(before["ptod_sessions"], 0);
  EXPECT_EQ(before["ptod_chip_cores{chip=\"1\"}"], 72);
  EXPECT_EQ(before.count("ptod_chip_cores{chip=\"2\"}"), 0u);

  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  ASSERT_THAT(session->CreateBuffer("x", 1, 1 << 20), IsOk());
  GraphBuilder graph;
  for (int i = 0; i < 100; ++i) graph.Task("noop", 1, {});
  const absl::StatusOr<v1::Graph> registered = session->Register("g", graph);
  ASSERT_THAT(registered, IsOk());
  for (int i = 0; i < 40; ++i) {
    const absl::StatusOr<pto::Run> run = session->Launch(registered->name());
    ASSERT_THAT(run, IsOk());
    ASSERT_THAT(run->Wait(), IsOk());
  }
  // Some runs that stay active, and one too many.
  GraphBuilder spin;
  spin.Task("spin", 0, {}).Scalar(int64_t{3'600'000'000});
  std::vector<pto::Run> spinning;
  while (spinning.size() < 4) {
    const absl::StatusOr<pto::Run> run = session->Submit(spin);
    if (!run.ok()) break;
    spinning.push_back(*run);
  }
  ASSERT_FALSE(spinning.empty());
  ASSERT_LT(spinning.size(), 4u);
  ASSERT_TRUE(Eventually([&] { return Scrape()["ptod_chip_busy_cores{chip=\"0\"}"] >= 1; }));
  ASSERT_TRUE(
      Eventually([&] { return Scrape()["ptod_chip_core_busy_seconds_total{chip=\"0\"}"] > 0.1; }));

  std::map<std::string, double> now = Scrape();
  EXPECT_EQ(now["ptod_sessions"], 1);
  EXPECT_EQ(now["ptod_sessions_created_total"], 1);
  EXPECT_EQ(now["ptod_buffers"], 1);
  EXPECT_EQ(now["ptod_graphs"], 1);
  EXPECT_EQ(now["ptod_runs_active"], static_cast<double>(spinning.size()));
  EXPECT_EQ(now["ptod_runs_total{state=\"succeeded\"}"], 40);
  EXPECT_EQ(now["ptod_chip_tasks_total{chip=\"1\"}"], 4000);
  EXPECT_GE(now["ptod_chip_memory_used_bytes{chip=\"1\"}"], 1 << 20);
  EXPECT_EQ(now["ptod_run_queue_seconds_count"], 40);
  EXPECT_EQ(now["ptod_run_duration_seconds_count"], 40);
  EXPECT_GE(now["ptod_dispatch_latency_seconds_count"], 2);
  EXPECT_EQ(now["ptod_quota_refusals_total{reason=\"RUN_LIMIT\"}"], 1);
  EXPECT_EQ(now["ptod_grpc_calls_total{method=\"pto.v1.RunService/LaunchGraph\",code=\"OK\"}"], 40);
  EXPECT_EQ(
      now["ptod_grpc_calls_total{method=\"pto.v1.SessionService/CreateSession\",code=\"OK\"}"], 1);
  EXPECT_EQ(now["ptod_grpc_call_duration_seconds_count{method=\"pto.v1.RunService/LaunchGraph\"}"],
            40);
  EXPECT_GT(now["process_resident_memory_bytes"], 1e6);
  EXPECT_GT(now["ptod_event_log_bytes"], 0);
  EXPECT_EQ(now.count("ptod_grpc_calls_total{method=\"unknown\",code=\"OK\"}"), 0u);
  for (const pto::Run& run : spinning) EXPECT_THAT(run.Cancel(), IsOk());
}

TEST_F(MetricsTest, CountsWhatALaunchStreamRefuses) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  GraphBuilder spin;
  spin.Task("spin", 0, {}).Scalar(int64_t{3'600'000'000});
  spin.Task("noop", 1, {});
  const absl::StatusOr<v1::Graph> graph = session->Register("g", spin);
  ASSERT_THAT(graph, IsOk());
  absl::StatusOr<LaunchStream> stream = session->OpenLaunchStream();
  ASSERT_THAT(stream, IsOk());
  v1::LaunchGraphRequest launch;
  launch.set_graph(graph->name());
  // Three may be active.
  for (int i = 0; i < 5; ++i) ASSERT_THAT(stream->Launch(launch), IsOk());
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<v1::LaunchCompletion> refused = stream->Next();
    ASSERT_THAT(refused, IsOk());
    EXPECT_THAT(StatusOf(*refused), HasReason(reason::kRunLimit));
  }
  std::map<std::string, double> now = Scrape();
  EXPECT_EQ(now["ptod_quota_refusals_total{reason=\"RUN_LIMIT\"}"], 2);
  EXPECT_EQ(now["ptod_tasks_in_flight"], 6);
}

// A client that does not read its events, and a log too small for them.
TEST_F(MetricsTest, TellsOfWatchersThatLag) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  DomainSpec spec;
  spec.id = "d";
  spec.chips = {0, 1};
  spec.signal_count = 1;
  ASSERT_THAT(session->CreateDomain(spec), IsOk());
  GraphBuilder graph;
  for (int i = 0; i < 10'000; ++i) graph.Task("noop", 1, {});
  const absl::StatusOr<v1::Graph> registered = session->Register("g", graph);
  ASSERT_THAT(registered, IsOk());
  v1::WatchEventsRequest watch;
  watch.set_parent(session->name());
  grpc::ClientContext context;
  const auto unread = daemon_.api().event->WatchEvents(&context, watch);
  ASSERT_TRUE(Eventually([&] { return Scrape()["ptod_event_watchers"] == 1; }));
  ASSERT_TRUE(Eventually([&] {
    const absl::StatusOr<pto::Run> run = session->Launch(registered->name());
    EXPECT_THAT(run, IsOk());
    if (!run.ok()) return true;
    EXPECT_THAT(run->Wait(), IsOk());
    std::map<std::string, double> now = Scrape();
    return now["ptod_event_lag_events"] > 0 && now["ptod_events_dropped_total"] > 0;
  }));
  std::map<std::string, double> now = Scrape();
  EXPECT_EQ(now["ptod_domains"], 1);
  EXPECT_EQ(now["ptod_windows"], 2);
  EXPECT_GT(now["ptod_window_bytes"], 0);
  context.TryCancel();
  (void)unread->Finish();
  EXPECT_TRUE(Eventually([&] { return Scrape()["ptod_event_watchers"] == 0; }));
}

TEST_F(MetricsTest, TellsOfLeasesThatRanOut) {
  SessionOptions options;
  options.ttl = absl::Milliseconds(100);
  absl::StatusOr<Session> session = client_.CreateSession(options);
  ASSERT_THAT(session, IsOk());
  session->Detach();
  EXPECT_TRUE(Eventually([&] { return Scrape()["ptod_session_lease_expiries_total"] == 1; }));
  EXPECT_EQ(Scrape()["ptod_sessions"], 0);
}

TEST_F(MetricsTest, TopShowsTheSame) {
  absl::StatusOr<Session> session = client_.CreateSession();
  ASSERT_THAT(session, IsOk());
  GraphBuilder spin;
  spin.Task("spin", 1, {}).Scalar(int64_t{3'600'000'000});
  const absl::StatusOr<pto::Run> run = session->Submit(spin);
  ASSERT_THAT(run, IsOk());
  const ProgramResult top = RunPtoctl(daemon_.address(), {"top", "--once", "--interval", "200ms"});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_THAT(top.out, AllOf(HasSubstr("1 sessions, 1 active runs"), HasSubstr("chips/1"),
                             HasSubstr(session->name()), HasSubstr(run->name())));
  EXPECT_EQ(top.out.find('\x1b'), std::string::npos) << "there is no terminal";
}

TEST(MetricsListenTest, OffByDefaultAndOnlyForThisMachine) {
  const std::string ptod = Runfile("daemon/ptod");
  const ProgramResult result =
      RunProgram({ptod, "--listen=127.0.0.1:0", "--metrics-listen=0.0.0.0:9464"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("metrics_listen"));
}

}  // namespace
}  // namespace pto::testing
