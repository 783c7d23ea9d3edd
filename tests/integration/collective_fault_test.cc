// A rank that fails, stalls or is cancelled in the middle of a collective, through a real daemon:
// the error names the rank, and unrelated runs continue.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/domain.h"
#include "client/run_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"

namespace pto::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr uint64_t kCount = 1000;
constexpr int64_t kShape[] = {kCount};
constexpr int64_t kOne[] = {1};

// The scalars of the kernel `falter`, for rank 1 in the last of 3 phases.
constexpr int64_t kRank = 1;
constexpr int64_t kPhase = 2;
constexpr int64_t kFails = 1;
constexpr int64_t kStalls = 2;

class CollectiveFaultTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // A stalled rank keeps an executor busy.
    daemon_ = new DaemonProcess({"--sim-chips=4", "--executor-threads=2"});
  }
  static void TearDownTestSuite() {
    delete daemon_;
    daemon_ = nullptr;
  }
  CollectiveFaultTest()
      : client_(Client::Connect(daemon_->address()).value()),
        session_(client_.CreateSession().value()) {}

  Domain Make(const std::string& id, std::vector<uint32_t> chips) {
    DomainSpec spec;
    spec.id = id;
    spec.chips = std::move(chips);
    spec.buffers = {{"x", v1::F32, kCount}, {"sum", v1::F32, kCount}, {"word", v1::I64, 1}};
    spec.signal_count = 1;
    return session_.CreateDomain(spec).value();
  }
  // Rank 1 of this domain is on chips/0.
  Domain MakeFaulty() { return Make("faulty", {2, 0, 3}); }
  Domain MakeOther() { return Make("other", {3, 1, 0}); }

  static uint32_t ChipOf(const Domain& domain, uint32_t rank) {
    return domain.Window(rank, "x")->chip();
  }
  static TensorRef Signal(GraphBuilder& graph, const Domain& domain, uint32_t rank) {
    return graph.Tensor(absl::StrCat("signal", rank), *domain.Signals(rank), v1::I64, kOne);
  }

  // A collective over the domain in which one rank falters; with or without the domain's signals.
  static void AddFault(GraphBuilder& graph, const Domain& domain, int64_t fault, bool signals) {
    std::vector<GroupMember> members;
    for (uint32_t rank = 0; rank < domain.ranks(); ++rank) {
      const TensorRef word = signals ? Signal(graph, domain, rank)
                                     : graph.Tensor(absl::StrCat("word", rank),
                                                    *domain.Window(rank, "word"), v1::I64, kOne);
      members.push_back({ChipOf(domain, rank), {word}});
    }
    graph.Group("falter", members).Name("meet").Scalar(kRank).Scalar(kPhase).Scalar(fault);
  }
  absl::StatusOr<pto::Run> StartFault(const Domain& domain, int64_t fault, bool signals,
                                      const RunOptions& options = {}) {
    GraphBuilder graph;
    AddFault(graph, domain, fault, signals);
    return session_.Submit(graph, options);
  }

  // Sums over the ranks, optionally after the signal of rank 0.
  absl::StatusOr<pto::Run> StartSum(const Domain& domain, bool waits = false) {
    GraphBuilder graph;
    std::vector<GroupMember> members;
    for (uint32_t rank = 0; rank < domain.ranks(); ++rank) {
      EXPECT_THAT(
          domain.Window(rank, "x")->Write(std::vector<float>(kCount, static_cast<float>(rank + 1))),
          IsOk());
      const auto whole = [&](const char* buffer) {
        return graph.Tensor(absl::StrCat(buffer, rank), *domain.Window(rank, buffer), v1::F32,
                            kShape);
      };
      members.push_back({ChipOf(domain, rank), {whole("x"), whole("sum")}});
    }
    std::vector<TaskRef> before;
    if (waits) before.push_back(graph.WaitFor(Signal(graph, domain, 0), v1::GE, 1));
    TaskRef sum = graph.Group("all_reduce", members).Scalar(1).Scalar(0).Scalar(0);
    for (const TaskRef& task : before) sum.After(task);
    return session_.Submit(graph);
  }
  static void ExpectSum(const Domain& domain, const absl::StatusOr<pto::Run>& run) {
    ASSERT_THAT(run, IsOk());
    EXPECT_THAT(StatusOf(run->Wait().value()), IsOk());
    const uint32_t ranks = domain.ranks();
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(domain.Window(rank, "sum")->Read<float>(kCount).value(),
                std::vector<float>(kCount, static_cast<float>(ranks * (ranks + 1) / 2)))
          << "rank " << rank;
    }
  }

  // Expects that the error names the faltering rank, its chip and its phase.
  static void ExpectNamed(const absl::Status& error, const std::string& task = "task 0 'meet': ") {
    const std::string text(error.message());
    EXPECT_THAT(text, HasSubstr(task));
    EXPECT_THAT(text, HasSubstr("on chips/0 core "));
    EXPECT_THAT(text, HasSubstr(", rank 1 of 3, phase 2 of 3"));
    const ErrorDetail detail = GetErrorDetail(error).value_or(ErrorDetail());
    EXPECT_THAT(detail.metadata, Contains(Pair("rank", "1")));
    EXPECT_THAT(detail.metadata, Contains(Pair("chip", "chips/0")));
    EXPECT_THAT(detail.metadata, Contains(Pair("phase", "2")));
    EXPECT_THAT(detail.metadata, Contains(Pair("kernel", "falter")));
  }

  // After a run that used the domain's signals, their values are unreliable.
  void ExpectRevoked(const Domain& domain, const pto::Run& run) {
    const v1::Domain revoked = domain.Get().value();
    EXPECT_EQ(revoked.state(), v1::Domain::REVOKED);
    EXPECT_THAT(revoked.error().message(),
                HasSubstr(run.name() + " used its signals and ended as"));
    EXPECT_THAT(revoked.error().message(), HasSubstr(", rank 1 of 3, phase 2 of 3"));
    EXPECT_THAT(StartFault(domain, 0, true), HasReason(reason::kDomainRevoked));
    // A recreated domain is as new.
    ASSERT_THAT(domain.Delete(), IsOk());
    const Domain again = MakeFaulty();
    ExpectSum(again, StartSum(again));
  }

  static DaemonProcess* daemon_;
  Client client_;
  Session session_;
};
DaemonProcess* CollectiveFaultTest::daemon_ = nullptr;

TEST_F(CollectiveFaultTest, ARankThatFails) {
  const Domain domain = MakeFaulty(), other = MakeOther();
  const absl::StatusOr<pto::Run> bystander = StartSum(other, /*waits=*/true);
  const pto::Run run = StartFault(domain, kFails, /*signals=*/true).value();
  const v1::Run ended = run.Wait().value();
  EXPECT_EQ(ended.state(), v1::Run::FAILED);
  EXPECT_THAT(StatusOf(ended), HasReason(reason::kKernelFailed));
  ExpectNamed(StatusOf(ended));
  EXPECT_THAT(ended.error().message(), HasSubstr("falter: asked to fail"));
  ExpectRevoked(domain, run);
  // A domain on the same chips is not affected.
  EXPECT_EQ(other.Get()->state(), v1::Domain::ACTIVE);
  ASSERT_THAT(other.Notify(0, 0, 1), IsOk());
  ExpectSum(other, bystander);
}

TEST_F(CollectiveFaultTest, ARankThatStallsPastItsTime) {
  const Domain domain = MakeFaulty(), other = MakeOther();
  const absl::StatusOr<pto::Run> bystander = StartSum(other, /*waits=*/true);
  RunOptions options;
  options.task_timeout = absl::Milliseconds(300);
  const pto::Run run = StartFault(domain, kStalls, /*signals=*/true, options).value();
  const v1::Run ended = run.Wait().value();
  EXPECT_EQ(ended.state(), v1::Run::FAILED);
  EXPECT_THAT(StatusOf(ended), HasReason(reason::kTaskDeadline));
  ExpectNamed(StatusOf(ended));
  EXPECT_THAT(ended.error().message(), HasSubstr("the task's time of 300ms is up in block 0 of 1"));
  ExpectRevoked(domain, run);
  EXPECT_EQ(other.Get()->state(), v1::Domain::ACTIVE);
  ASSERT_THAT(other.Notify(0, 0, 1), IsOk());
  ExpectSum(other, bystander);
}

TEST_F(CollectiveFaultTest, ARankThatIsCancelled) {
  const Domain domain = MakeFaulty(), other = MakeOther();
  const pto::Run run = StartFault(domain, kStalls, /*signals=*/true).value();
  ASSERT_TRUE(Eventually([&] { return domain.ReadSignals(kRank).value()[0] == 1; }));
  // While the rank stalls, others use the same chips.
  ExpectSum(other, StartSum(other));
  ASSERT_THAT(run.Cancel("it takes too long"), IsOk());
  const v1::Run ended = run.Wait().value();
  EXPECT_EQ(ended.state(), v1::Run::CANCELLED);
  EXPECT_THAT(StatusOf(ended), HasReason(reason::kRunCancelled));
  EXPECT_THAT(ended.error().message(), HasSubstr("it takes too long"));
  ExpectNamed(StatusOf(ended));
  ExpectRevoked(domain, run);
  EXPECT_EQ(other.Get()->state(), v1::Domain::ACTIVE);
  ExpectSum(other, StartSum(other));
}

// All ranks except rank 1 have what they wait for. Its blocks are stopped for one reason, which is
// reported once, with the location.
TEST_F(CollectiveFaultTest, ARankThatIsCancelledInAnOpenRun) {
  const Domain domain = MakeFaulty();
  absl::StatusOr<pto::OpenRun> open = session_.BeginOpenRun();
  ASSERT_THAT(open, IsOk());
  AddFault(open->graph(), domain, kStalls, /*signals=*/true);
  ASSERT_THAT(open->Flush(), IsOk());
  ASSERT_TRUE(Eventually([&] { return domain.ReadSignals(kRank).value()[0] == 1; }));
  const pto::Run run = session_.GetRun(open->name());
  ASSERT_THAT(run.Cancel("it takes too long"), IsOk());
  const v1::Run ended = run.Wait().value();
  EXPECT_EQ(ended.state(), v1::Run::CANCELLED);
  EXPECT_THAT(ended.error().message(), HasSubstr("it takes too long"));
  ExpectNamed(StatusOf(ended), "task 0: ");
  EXPECT_EQ(ended.more_errors_size(), 0) << ended.DebugString();
}

TEST_F(CollectiveFaultTest, ARankThatWaitsInVain) {
  for (const bool whole_task : {false, true}) {
    const Domain domain = MakeFaulty();
    GraphBuilder graph;
    graph.ExplicitDependenciesOnly();
    std::vector<GroupMember> members;
    for (uint32_t rank = 0; rank < domain.ranks(); ++rank) {
      const TensorRef signal = Signal(graph, domain, rank);
      members.push_back({ChipOf(domain, rank), {signal}});
      if (rank != kRank) graph.Notify(signal, 1);
    }
    graph.Group("hold", members).Scalar(1);
    RunOptions options;
    (whole_task ? options.task_timeout : options.wait_timeout) = absl::Milliseconds(300);
    const v1::Run ended = session_.Submit(graph, options)->Wait().value();
    const absl::Status error = StatusOf(ended);
    EXPECT_THAT(error, HasReason(whole_task ? reason::kTaskDeadline : reason::kWaitTimeout));
    EXPECT_THAT(ended.error().message(),
                HasSubstr("block 0 of rank 1 on chips/0 waited for "
                          "'domains/faulty/ranks/1/signals'[0] >= 1, had 0"));
    const ErrorDetail detail = GetErrorDetail(error).value_or(ErrorDetail());
    EXPECT_THAT(detail.metadata, Contains(Pair("rank", "1")));
    EXPECT_THAT(detail.metadata, Contains(Pair("chip", "chips/0")));
    EXPECT_EQ(domain.Get()->state(), v1::Domain::REVOKED);
    ASSERT_THAT(domain.Delete(), IsOk());
  }
}

// Without signals, only the run's own output is incomplete.
TEST_F(CollectiveFaultTest, ADomainWhoseSignalsWereNotUsedStays) {
  const Domain domain = MakeFaulty();
  RunOptions options;
  options.task_timeout = absl::Milliseconds(300);
  for (const int64_t fault : {kFails, kStalls}) {
    const pto::Run run = StartFault(domain, fault, /*signals=*/false, options).value();
    const v1::Run ended = run.Wait().value();
    EXPECT_EQ(ended.state(), v1::Run::FAILED);
    ExpectNamed(StatusOf(ended));
    EXPECT_EQ(domain.Get()->state(), v1::Domain::ACTIVE);
    ExpectSum(domain, StartSum(domain));
  }
}

}  // namespace
}  // namespace pto::testing
