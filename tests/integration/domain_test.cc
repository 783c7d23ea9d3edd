// Chips that communicate, through a real daemon: windows, signals, epochs and revocation.

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/open_run.h"
#include "client/run_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kCount = 64;
constexpr int64_t kShape[] = {kCount};
constexpr int64_t kOne[] = {1};

class DomainTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { daemon_ = new DaemonProcess({"--sim-chips=4"}); }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }
  DomainTest()
      : client_(Client::Connect(daemon_->address()).value()),
        session_(client_.CreateSession().value()) {}

  static DomainSpec Spec(const std::string& id, std::vector<uint32_t> chips) {
    DomainSpec spec;
    spec.id = id;
    spec.chips = std::move(chips);
    spec.buffers = {{"x", v1::F32, kCount}, {"y", v1::F32, kCount}, {"z", v1::F32, kCount}};
    spec.signal_count = 2;
    return spec;
  }
  Domain Make(const std::string& id, std::vector<uint32_t> chips) {
    return session_.CreateDomain(Spec(id, std::move(chips))).value();
  }
  // A tensor of the whole buffer of a rank.
  static TensorRef Whole(GraphBuilder& graph, const Domain& domain, uint32_t rank,
                         const std::string& buffer) {
    return graph.Tensor(absl::StrCat(buffer, rank), domain.Window(rank, buffer).value(), v1::F32,
                        kShape);
  }
  static TensorRef Signal(GraphBuilder& graph, const Domain& domain, uint32_t rank,
                          int64_t signal) {
    return graph.Tensor(absl::StrCat("signal", rank, "-", signal), domain.Signals(rank).value(),
                        v1::I64, kOne, {}, signal);
  }
  static uint32_t ChipOf(const Domain& domain, uint32_t rank) {
    return domain.Window(rank, "x")->chip();
  }
  static void Write(const Domain& domain, uint32_t rank, const std::string& buffer, float value) {
    ASSERT_THAT(domain.Window(rank, buffer)->Write(std::vector<float>(kCount, value)), IsOk());
  }
  static std::vector<float> Read(const Domain& domain, uint32_t rank, const std::string& buffer) {
    return domain.Window(rank, buffer)->Read<float>(kCount).value();
  }
  // A graph that waits for signal 0 of rank 0.
  pto::Run StartWait(Session& session, const Domain& domain, absl::Duration timeout = {}) {
    GraphBuilder graph;
    graph.WaitFor(Signal(graph, domain, 0, 0), v1::GE, 1, timeout);
    return session.Submit(graph).value();
  }
  static bool IsRunning(const pto::Run& run) {
    return Eventually([&] { return run.Get()->state() == v1::Run::RUNNING; });
  }
  static uint64_t UsedBytes() {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 4; ++i) bytes += GetChip(daemon_->api(), i).memory_used_bytes();
    return bytes;
  }

  static DaemonProcess* daemon_;
  Client client_;
  Session session_;
};
DaemonProcess* DomainTest::daemon_ = nullptr;

TEST_F(DomainTest, CreateListGetDelete) {
  const Domain b = Make("b", {3, 1});
  const Domain a = Make("a", {0});
  EXPECT_EQ(b.name(), session_.name() + "/domains/b");
  EXPECT_EQ(b.info().state(), v1::Domain::ACTIVE);
  EXPECT_THAT(b.info().chips(), ElementsAre("chips/3", "chips/1"));
  EXPECT_EQ(b.info().window_bytes(), 3u * kCount * sizeof(float) + 16);
  EXPECT_EQ(b.info().epoch(), 0u);
  const auto list = client_.ListDomains(session_.name());
  ASSERT_THAT(list, IsOk());
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0].name(), a.name());
  EXPECT_EQ((*list)[1].name(), b.name());
  EXPECT_THAT(session_.CreateDomain(Spec("b", {3, 1})), IsOk());
  EXPECT_THAT(session_.CreateDomain(Spec("b", {1, 3})), HasReason(reason::kIdConflict));
  // The same domain, with sizes in bytes.
  DomainSpec sized = Spec("b", {3, 1});
  for (WindowBufferSpec& buffer : sized.buffers) {
    buffer.bytes = std::exchange(buffer.count, 0) * sizeof(float);
  }
  const absl::StatusOr<Domain> same = session_.CreateDomain(sized);
  ASSERT_THAT(same, IsOk());
  EXPECT_EQ(same->info().buffers(1).count(), kCount);
  EXPECT_EQ(same->info().buffers(1).bytes(), kCount * sizeof(float));
  const absl::StatusOr<Buffer> window = session_.GetBuffer("domains/b/ranks/1/buffers/y");
  ASSERT_THAT(window, IsOk());
  EXPECT_EQ(window->name(), b.name() + "/ranks/1/buffers/y");
  EXPECT_EQ(window->id(), "domains/b/ranks/1/buffers/y");
  EXPECT_EQ(window->chip(), 1u);
  EXPECT_EQ(window->bytes(), kCount * sizeof(float));
  EXPECT_THAT(a.Delete(), IsOk());
  EXPECT_THAT(a.Delete(), HasReason(reason::kDomainUnknown));
  EXPECT_THAT(session_.GetDomain("a"), HasReason(reason::kDomainUnknown));
  EXPECT_THAT(session_.GetDomain("b"), IsOk());
}

TEST_F(DomainTest, AGroupOverTheWindows) {
  const Domain domain = Make("d", {2, 0, 3, 1});
  GraphBuilder graph;
  std::vector<GroupMember> members;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(Read(domain, rank, "x"), std::vector<float>(kCount, 0));
    Write(domain, rank, "x", static_cast<float>(rank));
    Write(domain, rank, "y", 10);
    const uint32_t chip = domain.Window(rank, "x")->chip();
    members.push_back({chip,
                       {Whole(graph, domain, rank, "x"), Whole(graph, domain, rank, "y"),
                        Whole(graph, domain, rank, "z")}});
  }
  graph.Group("add", members);
  const absl::StatusOr<pto::Run> run = session_.Submit(graph);
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(StatusOf(run->Wait().value()), IsOk());
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(Read(domain, rank, "z"), std::vector<float>(kCount, static_cast<float>(rank) + 10));
  }
  // Only buffers were used.
  EXPECT_EQ(domain.Get()->epoch(), 0u);
}

// A producer sends to the other chip and notifies; a consumer there waits for the signal. Only the
// signal delays the consumer, no dependency.
class ProducerTest : public DomainTest {
 protected:
  ProducerTest() {
    graph_.ExplicitDependenciesOnly();
    const TensorRef sent = Whole(graph_, domain_, 0, "x"), arrived = Whole(graph_, domain_, 1, "y");
    const TaskRef make =
        graph_.Task("fill", 3, {sent}).Scalar(graph_.Scalar("value", 0.0)).Name("make");
    const TaskRef send = graph_.Copy(arrived, sent).After(make);
    graph_.Notify(Signal(graph_, domain_, 1, 1), 1, v1::ADD).After(send);
    const TaskRef wait = graph_.WaitFor(Signal(graph_, domain_, 1, 0), v1::GE, 0);  // always true
    const TaskRef hear =
        graph_.WaitFor(graph_.Tensor("heard", domain_.Signals(1).value(), v1::I64, kOne, {}, 1),
                       v1::GE, 1, absl::Seconds(30));
    graph_.Task("scale", 0, {arrived, Whole(graph_, domain_, 1, "z")})
        .Scalar(2.0)
        .After({wait, hear});
    EXPECT_THAT(session_.Register("g", graph_), IsOk());
  }

  const Domain domain_ = Make("d", {3, 0});
  GraphBuilder graph_;
};

TEST_F(ProducerTest, TheSameGraphAHundredTimesWithoutClearing) {
  for (int i = 1; i <= 100; ++i) {
    v1::LaunchGraphRequest launch;
    launch.set_graph(session_.name() + "/graphs/g");
    launch.mutable_wait()->set_seconds(30);
    v1::ScalarSpec& value = *launch.add_scalars();
    value.set_name("value");
    value.mutable_value()->set_f64(i);
    const absl::StatusOr<pto::Run> run = session_.Launch(launch);
    ASSERT_THAT(run, IsOk());
    ASSERT_EQ(run->snapshot().state(), v1::Run::SUCCEEDED);
    ASSERT_EQ(Read(domain_, 1, "z"), std::vector<float>(kCount, 2 * static_cast<float>(i))) << i;
    ASSERT_THAT(domain_.ReadSignals(1).value(), ElementsAre(0, 1));
  }
  EXPECT_EQ(domain_.Get()->epoch(), 100u);
}

TEST_F(ProducerTest, ManyLaunchesAtOnceTakeTurns) {
  std::vector<pto::Run> runs;
  for (int i = 0; i < 200; ++i) runs.push_back(session_.Launch("g").value());
  for (const pto::Run& run : runs) EXPECT_THAT(StatusOf(run.Wait().value()), IsOk());
  EXPECT_EQ(domain_.Get()->epoch(), 200u);
  EXPECT_THAT(domain_.ReadSignals(1).value(), ElementsAre(0, 1));
}

TEST_F(DomainTest, AClientsNotificationReleasesARunThatWaits) {
  const Domain domain = Make("d", {0, 1});
  const pto::Run run = StartWait(session_, domain);
  ASSERT_TRUE(IsRunning(run));
  // Other signals do not end the wait.
  EXPECT_EQ(domain.Notify(1, 0, 5).value(), 5u);
  EXPECT_EQ(domain.Notify(0, 1, 5).value(), 5u);
  EXPECT_EQ(run.Get()->state(), v1::Run::RUNNING);
  EXPECT_EQ(domain.Notify(0, 0, 1, v1::NotifyRequest::ADD).value(), 1u);
  EXPECT_THAT(StatusOf(run.Wait().value()), IsOk());
  // The value can be read until the next use, but does not count for it.
  EXPECT_THAT(domain.ReadSignals(0).value(), ElementsAre(1, 5));
  const pto::Run next = StartWait(session_, domain);
  ASSERT_TRUE(IsRunning(next));
  EXPECT_THAT(domain.ReadSignals(0).value(), ElementsAre(0, 0));
  EXPECT_EQ(domain.Get()->epoch(), 2u);
  ASSERT_THAT(domain.Notify(0, 0, 1), IsOk());
  EXPECT_THAT(StatusOf(next.Wait().value()), IsOk());
  // A notification before a run counts for it.
  ASSERT_THAT(domain.Notify(0, 0, 1), IsOk());
  EXPECT_THAT(StatusOf(StartWait(session_, domain).Wait().value()), IsOk());
  EXPECT_EQ(domain.Get()->epoch(), 3u);
}

TEST_F(DomainTest, ARevocationEndsWhatWaits) {
  const Domain domain = Make("d", {0, 1});
  const pto::Run waits = StartWait(session_, domain), queued = StartWait(session_, domain);
  ASSERT_TRUE(IsRunning(waits));
  const absl::StatusOr<v1::Domain> revoked = domain.Revoke("chip 1 smokes");
  ASSERT_THAT(revoked, IsOk());
  EXPECT_EQ(revoked->state(), v1::Domain::REVOKED);
  EXPECT_THAT(revoked->error().message(), HasSubstr("chip 1 smokes"));
  for (const pto::Run& run : {waits, queued}) {
    const v1::Run ended = run.Wait().value();
    EXPECT_EQ(ended.state(), v1::Run::FAILED);
    EXPECT_THAT(StatusOf(ended), HasReason(reason::kDomainRevoked));
    EXPECT_THAT(ended.error().message(), HasSubstr(domain.name() + " was revoked: chip 1 smokes"));
  }
  GraphBuilder graph;
  graph.Task("fill", 0, {Whole(graph, domain, 0, "x")}).Scalar(1.0);
  EXPECT_THAT(session_.Submit(graph), HasReason(reason::kDomainRevoked));
  EXPECT_THAT(domain.Notify(0, 0, 1), HasReason(reason::kDomainRevoked));
  EXPECT_EQ(Read(domain, 0, "x"), std::vector<float>(kCount, 0));
  // A recreated domain is as new.
  EXPECT_THAT(domain.Delete(), IsOk());
  const Domain again = Make("d", {0, 1});
  const absl::StatusOr<pto::Run> run = session_.Submit(graph);
  ASSERT_THAT(run, IsOk());
  EXPECT_THAT(StatusOf(run->Wait().value()), IsOk());
  EXPECT_EQ(Read(again, 0, "x"), std::vector<float>(kCount, 1));
}

TEST_F(DomainTest, ARunThatDoesNotSucceedRevokesOnlyWhatItTouched) {
  const Domain domain = Make("d", {0, 1}), other = Make("other", {0, 1});
  const pto::Run bystander = StartWait(session_, other);
  const pto::Run run = StartWait(session_, domain, absl::Milliseconds(10));
  EXPECT_THAT(StatusOf(run.Wait().value()), HasReason(reason::kWaitTimeout));
  const v1::Domain revoked = domain.Get().value();
  EXPECT_EQ(revoked.state(), v1::Domain::REVOKED);
  EXPECT_THAT(revoked.error().message(), HasSubstr(run.name() + " used its signals and ended as"));
  EXPECT_EQ(other.Get()->state(), v1::Domain::ACTIVE);
  ASSERT_THAT(other.Notify(0, 0, 1), IsOk());
  EXPECT_THAT(StatusOf(bystander.Wait().value()), IsOk());
  // A failed run that used only buffers left no signals in an unknown state.
  GraphBuilder graph;
  graph.Task("fail", 0, {}).Scalar(1);
  graph.Task("fill", 0, {Whole(graph, other, 0, "x")}).Scalar(1.0);
  const absl::StatusOr<pto::Run> fails = session_.Submit(graph);
  ASSERT_THAT(fails, IsOk());
  EXPECT_EQ(fails->Wait()->state(), v1::Run::FAILED);
  EXPECT_EQ(other.Get()->state(), v1::Domain::ACTIVE);
}

TEST_F(DomainTest, AnOpenRunWorksOnWindowsBlockByBlock) {
  const Domain domain = Make("d", {2, 0, 1});
  OpenRun run = session_.BeginOpenRun().value();
  GraphBuilder& graph = run.graph();
  std::vector<GroupMember> members;
  std::vector<TensorRef> in;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    in.push_back(Whole(graph, domain, rank, "x"));
    members.push_back({ChipOf(domain, rank), {in[rank], Whole(graph, domain, rank, "y")}});
  }
  const TensorRef signal = Signal(graph, domain, 1, 0);
  constexpr int kSegments = 100;
  for (int i = 1; i <= kSegments; ++i) {
    for (uint32_t rank = 0; rank < 3; ++rank) {
      graph.Task("fill", ChipOf(domain, rank), {in[rank]}).Scalar(static_cast<double>(i + rank));
    }
    // Every segment starts with the signal at zero, so each waits for its own notification.
    const TaskRef sum =
        graph.Group("all_reduce", members).Scalar(int64_t{1}).Scalar(int64_t{0}).Scalar(int64_t{0});
    const TaskRef waits = graph.WaitFor(signal, v1::EQ, 1);
    graph.Notify(signal, 1, v1::ADD).After(sum);
    graph.Join({sum, waits});
    ASSERT_THAT(run.Flush(), IsOk());
  }
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  ASSERT_THAT(StatusOf(*ended), IsOk());
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(Read(domain, rank, "y"), std::vector<float>(kCount, 3.0f * kSegments + 3));
  }
  EXPECT_EQ(domain.Get()->epoch(), static_cast<uint64_t>(kSegments));
  EXPECT_EQ(domain.ReadSignals(1).value()[0], 1u);
}

TEST_F(DomainTest, ARevocationEndsAnOpenRunThatUsesIt) {
  const Domain domain = Make("d", {0, 1});
  OpenRun run = session_.BeginOpenRun().value();
  run.graph().WaitFor(Signal(run.graph(), domain, 0, 0), v1::GE, 1);
  ASSERT_THAT(run.Flush(), IsOk());
  ASSERT_TRUE(Eventually([&] { return domain.Get()->epoch() == 1; }));
  ASSERT_THAT(domain.Revoke("enough"), IsOk());
  const absl::StatusOr<v1::Run> ended = run.Finish();
  ASSERT_THAT(ended, IsOk());
  EXPECT_EQ(ended->state(), v1::Run::FAILED);
  EXPECT_THAT(StatusOf(*ended), HasReason(reason::kDomainRevoked));
  // Another run is refused at its first segment.
  OpenRun late = session_.BeginOpenRun().value();
  late.graph().Task("fill", 0, {Whole(late.graph(), domain, 0, "x")}).Scalar(1.0);
  EXPECT_THAT(late.Finish(), HasReason(reason::kDomainRevoked));
}

TEST_F(DomainTest, OverlappingDomainsRunAtTheSameTime) {
  const Domain a = Make("a", {0, 1, 2}), b = Make("b", {2, 1, 3});
  const pto::Run in_a = StartWait(session_, a), in_b = StartWait(session_, b);
  ASSERT_TRUE(IsRunning(in_a));
  ASSERT_TRUE(IsRunning(in_b));
  ASSERT_THAT(b.Notify(0, 0, 1), IsOk());
  EXPECT_THAT(StatusOf(in_b.Wait().value()), IsOk());
  EXPECT_EQ(in_a.Get()->state(), v1::Run::RUNNING);
  EXPECT_THAT(a.ReadSignals(0).value(), ElementsAre(0, 0));
  ASSERT_THAT(a.Notify(0, 0, 1), IsOk());
  EXPECT_THAT(StatusOf(in_a.Wait().value()), IsOk());
}

// Every rank notifies the next one, in a ring, and adds what it received: `rounds` times.
void RunRing(const std::string& address, const std::vector<uint32_t>& chips, int rounds) {
  const absl::StatusOr<Client> client = Client::Connect(address);
  ASSERT_THAT(client, IsOk());
  Session session = const_cast<Client&>(*client).CreateSession().value();
  DomainSpec spec;
  spec.chips = chips;
  spec.buffers = {{"mine", v1::F32, kCount}, {"got", v1::F32, kCount}, {"sum", v1::F32, kCount}};
  spec.signal_count = 1;
  const Domain domain = session.CreateDomain(spec).value();
  const auto ranks = static_cast<uint32_t>(chips.size());
  GraphBuilder graph;
  graph.ExplicitDependenciesOnly();
  const auto whole = [&](uint32_t rank, const std::string& buffer) {
    return graph.Tensor(absl::StrCat(buffer, rank), domain.Window(rank, buffer).value(), v1::F32,
                        kShape);
  };
  std::vector<TensorRef> mine, got, sum, signals;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    ASSERT_THAT(domain.Window(rank, "mine")
                    ->Write(std::vector<float>(kCount, static_cast<float>(rank + 1))),
                IsOk());
    mine.push_back(whole(rank, "mine"));
    got.push_back(whole(rank, "got"));
    sum.push_back(whole(rank, "sum"));
    signals.push_back(
        graph.Tensor(absl::StrCat("signal", rank), domain.Signals(rank).value(), v1::I64, kOne));
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t next = (rank + 1) % ranks;
    const TaskRef send = graph.Copy(got[next], mine[rank]);
    graph.Notify(signals[next], 1, v1::ADD).After(send);
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const TaskRef hear = graph.WaitFor(signals[rank], v1::EQ, 1, absl::Seconds(60));
    graph.Task("add", chips[rank], {mine[rank], got[rank], sum[rank]}).After(hear);
  }
  ASSERT_THAT(session.Register("ring", graph), IsOk());
  RunOptions options;
  options.wait = absl::Seconds(60);
  for (int i = 0; i < rounds; ++i) {
    const absl::StatusOr<pto::Run> run = session.Launch("ring", options);
    ASSERT_THAT(run, IsOk());
    ASSERT_THAT(StatusOf(run->snapshot()), IsOk()) << i;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const uint32_t before = (rank + ranks - 1) % ranks;
    EXPECT_EQ(domain.Window(rank, "sum")->Read<float>(kCount).value(),
              std::vector<float>(kCount, static_cast<float>(rank + before + 2)));
  }
  EXPECT_EQ(domain.Get()->epoch(), static_cast<uint64_t>(rounds));
}

TEST_F(DomainTest, TwoClientsInOverlappingDomains) {
  constexpr int kRounds = 300;
  std::thread other([] { RunRing(daemon_->address(), {3, 1, 0}, kRounds); });
  RunRing(daemon_->address(), {0, 1, 2, 3}, kRounds);
  other.join();
}

TEST_F(DomainTest, OnlyWhatARunUsesIsKeptFromTheClient) {
  const Domain domain = Make("d", {0, 1});
  GraphBuilder graph;
  const TaskRef wait = graph.WaitFor(Signal(graph, domain, 0, 0), v1::GE, 1);
  graph.Task("fill", 0, {Whole(graph, domain, 0, "x")}).Scalar(1.0).After(wait);
  const pto::Run run = session_.Submit(graph).value();
  EXPECT_THAT(domain.Window(0, "x")->Read<float>(kCount), HasReason(reason::kBufferInUse));
  EXPECT_THAT(domain.Signals(0)->Read<int64_t>(2), HasReason(reason::kBufferInUse));
  EXPECT_THAT(domain.Window(1, "x")->Read<float>(kCount), IsOk());
  Write(domain, 0, "y", 1);
  ASSERT_THAT(domain.Notify(0, 0, 1), IsOk());
  EXPECT_THAT(StatusOf(run.Wait().value()), IsOk());
  EXPECT_THAT(domain.Signals(0)->Read<int64_t>(2).value(), ElementsAre(1, 0));
}

TEST_F(DomainTest, MemoryComesBack) {
  const uint64_t before = UsedBytes();
  const Domain domain = Make("d", {0, 1, 2, 3});
  EXPECT_EQ(UsedBytes(), before + 4 * 4096);
  EXPECT_EQ(client_.GetSession(session_.name())->usage().device_bytes(),
            4 * domain.info().window_bytes());
  const pto::Run run = StartWait(session_, domain);
  ASSERT_TRUE(IsRunning(run));
  ASSERT_THAT(domain.Delete(), IsOk());
  EXPECT_EQ(UsedBytes(), before + 4 * 4096);
  ASSERT_THAT(run.Cancel(), IsOk());
  EXPECT_EQ(run.Wait()->state(), v1::Run::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return UsedBytes() == before; }));
  Make("d", {0, 1, 2, 3});
  EXPECT_THAT(session_.Close(), IsOk());
  EXPECT_TRUE(Eventually([&] { return UsedBytes() == before; }));
}

}  // namespace
}  // namespace pto::testing
