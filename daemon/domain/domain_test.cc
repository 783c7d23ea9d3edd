#include "daemon/domain/domain.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/session/testing/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/small_stack.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A domain of two ranks, chips 1 and 0, in a session whose runs go on only with RunAll.
class DomainTest : public SessionTest {
 protected:
  explicit DomainTest(uint64_t chip_bytes = 1 << 20)
      : SessionTest({engine::SimChip::Create(0, 2, chip_bytes),
                     engine::SimChip::Create(1, 2, chip_bytes)}) {
    limits_.max_session_active_runs = 100;
    limits_.max_session_finished_runs = 1000;
    session_ = Create("s");
    domain_ = session_->domains().Create("d", Spec()).value();
  }

  static DomainSpec Spec() {
    DomainSpec spec;
    spec.chips = {1, 0};
    spec.buffers = {{"x", PTO_F32, 16}, {"y", PTO_F32, 16}};
    spec.signal_count = 2;
    return spec;
  }

  // One task: a kernel without a core on a signal of a rank.
  static std::shared_ptr<const engine::GraphImage> SignalGraph(const char* kernel, uint32_t rank,
                                                               uint32_t signal,
                                                               const std::vector<int64_t>& scalars,
                                                               absl::string_view domain = "d") {
    engine::GraphTarget target;
    target.kernels = &BuiltinKernels();
    target.chip_clusters = {2, 2};
    engine::GraphBuilder builder(target);
    const uint32_t layout = builder.AddLayout(PTO_I64, {1}, {}).value();
    const uint32_t slot =
        builder.AddSlot(absl::StrCat("domains/", domain, "/ranks/", rank, "/signals"));
    const uint32_t tensor = builder.AddTensor(slot, layout, signal).value();
    std::vector<engine::ScalarInput> values(scalars.size());
    for (size_t i = 0; i < scalars.size(); ++i) {
      values[i].kind = engine::ScalarInput::Kind::kInteger;
      values[i].i64 = scalars[i];
    }
    engine::TaskInput task;
    task.kernel = builder.AddKernel(kernel).value();
    task.args = absl::MakeConstSpan(&tensor, 1);
    task.scalars = values;
    builder.AddTask(task).value();
    return builder.Build().value();
  }
  static std::shared_ptr<const engine::GraphImage> AddOne(uint32_t rank = 0, uint32_t signal = 0) {
    return SignalGraph("notify", rank, signal, {PTO_ADD, 1});
  }
  static std::shared_ptr<const engine::GraphImage> WaitFor(int64_t value, uint32_t rank = 0,
                                                           uint32_t signal = 0) {
    return SignalGraph("wait", rank, signal, {PTO_GE, value, 0});
  }

  static std::shared_ptr<const engine::GraphImage> WaitForOther() {
    return SignalGraph("wait", 0, 0, {PTO_GE, 1, 0}, "other");
  }

  absl::StatusOr<std::shared_ptr<RunEntry>> TryStart(
      std::shared_ptr<const engine::GraphImage> image, std::vector<SlotBinding> bindings = {}) {
    RunRequest request;
    request.image = std::move(image);
    request.bindings = std::move(bindings);
    return session_->StartRun(std::move(request));
  }
  std::shared_ptr<RunEntry> Start(std::shared_ptr<const engine::GraphImage> image) {
    return TryStart(std::move(image)).value();
  }
  // A run that fills a buffer of rank 1, which is on chip 0.
  std::shared_ptr<RunEntry> StartFill(const std::string& buffer, uint64_t offset = 0) {
    return TryStart(image_, {{"x", "domains/d/ranks/1/buffers/" + buffer, offset}}).value();
  }
  static engine::RunState StateOf(const std::shared_ptr<RunEntry>& entry) {
    return entry->Status().state;
  }
  void Cancel(const std::shared_ptr<RunEntry>& entry) {
    entry->Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
    RunAll();
  }
  uint64_t UsedBytes() const {
    return engine_->chips()[0]->memory().used_bytes() + engine_->chips()[1]->memory().used_bytes();
  }

  std::shared_ptr<Session> session_;
  std::shared_ptr<Domain> domain_;
};

TEST_F(DomainTest, AWindowOnEveryChipOrOnNone) {
  EXPECT_EQ(domain_->spec().window_bytes, 128u + 16);
  EXPECT_EQ(session_->usage().device_bytes, 2u * (128 + 16));
  const uint64_t before = UsedBytes();
  ASSERT_THAT(MakeBuffers(*session_, {{"large", 0, 900'000}}), IsOk());
  DomainSpec large = Spec();
  large.window_bytes = 500'000;
  // Chip 1 is rank 0 and has the room, chip 0 has not.
  const absl::Status refused = session_->domains().Create("l", large).status();
  EXPECT_THAT(refused, HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(GetErrorDetail(refused)->field, "chips[1]");
  session_->RemoveBuffer("large");
  EXPECT_EQ(UsedBytes(), before);
  EXPECT_THAT(session_->domains().Find("l"), HasReason(reason::kDomainUnknown));
}

TEST_F(DomainTest, TheSameAgainIsTheSameDomain) {
  EXPECT_EQ(session_->domains().Create("d", Spec()).value(), domain_);
  DomainSpec spelled = Spec();
  spelled.window_bytes = 144;
  EXPECT_EQ(session_->domains().Create("d", spelled).value(), domain_);
  // As long as they mean the same, sizes may be left out or not.
  for (const bool counted : {true, false}) {
    DomainSpec sized = Spec();
    for (WindowBufferSpec& buffer : sized.buffers) {
      buffer.bytes = 64;
      if (!counted) buffer.count = 0;
    }
    EXPECT_EQ(session_->domains().Create("d", sized).value(), domain_);
  }
  DomainSpec longer = Spec();
  longer.buffers[1].bytes = 128;
  longer.buffers[1].count = 0;
  EXPECT_THAT(session_->domains().Create("d", longer), HasReason(reason::kIdConflict));
  DomainSpec other = Spec();
  std::swap(other.chips[0], other.chips[1]);
  EXPECT_THAT(session_->domains().Create("d", other), HasReason(reason::kIdConflict));
}

TEST_F(DomainTest, PartsOfWindows) {
  const auto x = session_->FindBuffer("domains/d/ranks/0/buffers/x");
  ASSERT_THAT(x, IsOk());
  EXPECT_EQ((*x)->memory->chip(), 1u);
  EXPECT_EQ((*x)->memory->bytes(), 64u);
  const auto y = session_->FindBuffer("domains/d/ranks/0/buffers/y");
  EXPECT_EQ((*y)->memory->AsHost()->data(), (*x)->memory->AsHost()->data() + 64);
  const auto signals = session_->FindBuffer("domains/d/ranks/1/signals");
  EXPECT_EQ((*signals)->memory->chip(), 0u);
  EXPECT_EQ((*signals)->memory->bytes(), 16u);

  const absl::Status rank = session_->FindBuffer("domains/d/ranks/2/signals").status();
  EXPECT_THAT(rank, HasReason(reason::kBufferUnknown));
  EXPECT_THAT(std::string(rank.message()), HasSubstr("domains/d has no rank 2"));
  const absl::Status buffer = session_->FindBuffer("domains/d/ranks/1/buffers/z").status();
  EXPECT_THAT(buffer, HasReason(reason::kBufferUnknown));
  EXPECT_THAT(std::string(buffer.message()), HasSubstr("it has 'x', 'y'"));
  EXPECT_THAT(session_->FindBuffer("domains/e/ranks/0/signals"), HasReason(reason::kDomainUnknown));
  DomainSpec silent = Spec();
  silent.signal_count = 0;
  ASSERT_THAT(session_->domains().Create("silent", silent), IsOk());
  EXPECT_THAT(session_->FindBuffer("domains/silent/ranks/0/signals"),
              HasReason(reason::kBufferUnknown));
}

TEST_F(DomainTest, SlotsMustBeThere) {
  // The graph runs on chip 0, where rank 0 is not.
  EXPECT_THAT(TryStart(image_, {{"x", "domains/d/ranks/0/buffers/x"}}),
              HasReason(reason::kBufferOnOtherChip));
  EXPECT_THAT(TryStart(image_, {{"x", "domains/d/ranks/9/buffers/x"}}),
              HasReason(reason::kBufferUnknown));
  EXPECT_THAT(TryStart(image_, {{"x", "domains/d/ranks/1/buffers/x", 64}}),
              HasReason(reason::kTensorOutOfBounds));
  const absl::Status unknown = TryStart(image_, {{"x", "domains/q/ranks/1/buffers/x"}}).status();
  EXPECT_THAT(unknown, HasReason(reason::kDomainUnknown));
  EXPECT_EQ(GetErrorDetail(unknown)->field, "buffers[0].buffer");
}

TEST_F(DomainTest, EveryRunFindsItsSignalsAtZero) {
  EXPECT_EQ(domain_->epoch(), 0u);
  for (uint64_t i = 1; i <= 100; ++i) {
    const auto run = Start(AddOne(1, 1));
    RunAll();
    ASSERT_EQ(StateOf(run), engine::RunState::kSucceeded);
    EXPECT_THAT(domain_->ReadSignals(1, 0, 0).value(), ElementsAre(0, 1));
    EXPECT_EQ(domain_->epoch(), i);
  }
}

TEST_F(DomainTest, AnOldCountReleasesNothing) {
  Start(AddOne());
  RunAll();
  EXPECT_THAT(domain_->ReadSignals(0, 0, 1).value(), ElementsAre(1));
  const auto waits = Start(WaitFor(1));
  RunAll();
  EXPECT_EQ(StateOf(waits), engine::RunState::kRunning);
  EXPECT_EQ(domain_->Notify(0, 0, PTO_ADD, 1).value(), 1u);
  RunAll();
  EXPECT_EQ(StateOf(waits), engine::RunState::kSucceeded);
  EXPECT_EQ(domain_->epoch(), 2u);
}

TEST_F(DomainTest, AClientsNotificationCountsForTheNextRun) {
  Start(AddOne());
  RunAll();
  EXPECT_EQ(domain_->Notify(0, 0, PTO_ADD, 2).value(), 2u);
  EXPECT_EQ(domain_->Notify(0, 0, PTO_ADD, 2).value(), 4u);
  const auto run = Start(WaitFor(4));
  RunAll();
  EXPECT_EQ(StateOf(run), engine::RunState::kSucceeded);
  EXPECT_EQ(domain_->epoch(), 2u);
  EXPECT_EQ(domain_->Notify(0, 0, PTO_ADD, 1).value(), 1u);
}

TEST_F(DomainTest, RunsThatUseSignalsTakeTurns) {
  const auto first = Start(WaitFor(1, 0, 0)), second = Start(WaitFor(1, 1, 1));
  RunAll();
  EXPECT_EQ(engine_->waiting(), 1u);
  EXPECT_EQ(StateOf(second), engine::RunState::kQueued);
  // For the first one: the second sees nothing of it.
  ASSERT_THAT(domain_->Notify(1, 1, PTO_SET, 1), IsOk());
  ASSERT_THAT(domain_->Notify(0, 0, PTO_SET, 1), IsOk());
  RunAll();
  EXPECT_EQ(StateOf(first), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(second), engine::RunState::kRunning);
  ASSERT_THAT(domain_->Notify(1, 1, PTO_SET, 1), IsOk());
  RunAll();
  EXPECT_EQ(StateOf(second), engine::RunState::kSucceeded);
}

TEST_F(DomainTest, RunsOnOtherBuffersOfAWindowDoNot) {
  const auto waits = Start(WaitFor(1));
  StartFill("x");
  StartFill("y");
  EXPECT_EQ(engine_->chip_use(0).ready_tasks, 2u);
  StartFill("x");
  EXPECT_EQ(engine_->chip_use(0).ready_tasks, 2u);
  RunAll();
  EXPECT_EQ(StateOf(waits), engine::RunState::kRunning);
  Cancel(waits);
}

TEST_F(DomainTest, ARevocationStopsWhatUsesTheDomainAndNothingElse) {
  DomainSpec spec = Spec();
  const auto other = session_->domains().Create("other", spec).value();
  const auto waits = Start(WaitFor(1)), queued = Start(WaitFor(1)), fills = StartFill("x");
  const auto free = TryStart(image_, {{"x", "domains/other/ranks/1/buffers/x"}}).value();
  domain_->Revoke("lunch");
  domain_->Revoke("dinner");
  RunAll();
  for (const auto& run : {waits, queued, fills}) {
    EXPECT_EQ(StateOf(run), engine::RunState::kFailed);
    EXPECT_THAT(run->Status().errors[0], HasReason(reason::kDomainRevoked));
    EXPECT_THAT(std::string(run->Status().errors[0].message()),
                HasSubstr("sessions/s/domains/d was revoked: lunch"));
  }
  EXPECT_EQ(StateOf(free), engine::RunState::kSucceeded);
  EXPECT_THAT(other->error(), IsOk());
  EXPECT_THAT(TryStart(WaitFor(1)), HasReason(reason::kDomainRevoked));
  EXPECT_THAT(TryStart(image_, {{"x", "domains/d/ranks/1/buffers/x"}}),
              HasReason(reason::kDomainRevoked));
  EXPECT_THAT(domain_->Notify(0, 0, PTO_SET, 1), HasReason(reason::kDomainRevoked));
  EXPECT_THAT(domain_->ReadSignals(0, 0, 0), IsOk());
  EXPECT_THAT(session_->FindBuffer("domains/d/ranks/0/buffers/x"), IsOk());
}

TEST_F(DomainTest, ARevokedDomainIsRefusedToALaunchThatUsedItBefore) {
  RunRequest request;
  request.graph = session_->AddGraph("g", Digest{}, AddOne()).value();
  request.image = request.graph->image;
  ASSERT_THAT(session_->StartRun(request), IsOk());
  RunAll();
  domain_->Revoke("");
  EXPECT_THAT(session_->StartRun(request), HasReason(reason::kDomainRevoked));
  // One of the same name is another.
  session_->RemoveDomain("d");
  EXPECT_THAT(session_->StartRun(request), HasReason(reason::kDomainUnknown));
  domain_ = session_->domains().Create("d", Spec()).value();
  ASSERT_THAT(session_->StartRun(request), IsOk());
  RunAll();
  EXPECT_THAT(domain_->ReadSignals(0, 0, 1).value(), ElementsAre(1));
}

TEST_F(DomainTest, ARunThatLeavesItsSignalsHalfWayRevokes) {
  const auto waits = Start(WaitFor(1)), queued = Start(AddOne());
  // It has not begun, so it left nothing.
  Cancel(Start(AddOne()));
  EXPECT_THAT(domain_->error(), IsOk());
  Cancel(waits);
  const absl::Status error = domain_->error();
  EXPECT_THAT(error, HasReason(reason::kDomainRevoked));
  EXPECT_THAT(std::string(error.message()),
              HasSubstr("sessions/s/runs/r-1 used its signals and ended as CANCELLED: a test"));
  EXPECT_EQ(StateOf(waits), engine::RunState::kCancelled);
  EXPECT_EQ(StateOf(queued), engine::RunState::kFailed);
  EXPECT_THAT(queued->Status().errors[0], HasReason(reason::kDomainRevoked));
  EXPECT_THAT(domain_->ReadSignals(0, 0, 1).value(), ElementsAre(0));
}

TEST_F(DomainTest, ARevocationNamesTheFirstFailureAlsoWhenItWentFromRunToRun) {
  const auto metadata = [](const absl::Status& error, const std::string& key) -> std::string {
    const ErrorDetail detail = *GetErrorDetail(error);
    for (const auto& [name, value] : detail.metadata) {
      if (name == key) return value;
    }
    return "";
  };
  const auto first = Start(WaitFor(1)), queued = Start(AddOne());
  Cancel(first);
  const absl::Status error = queued->Status().errors[0];
  EXPECT_EQ(metadata(error, "cause"), "RUN_CANCELLED");
  EXPECT_EQ(metadata(error, "cause_run"), "sessions/s/runs/r-1");
  // What stops another domain's user with that error leads back to the same.
  DomainSpec spec = Spec();
  const auto other = session_->domains().Create("other", spec).value();
  const auto victim = TryStart(WaitForOther()).value();
  victim->Stop(engine::RunState::kFailed, error);
  RunAll();
  EXPECT_THAT(other->error(), HasReason(reason::kDomainRevoked));
  EXPECT_EQ(metadata(other->error(), "run"), victim->Status().run->name());
  EXPECT_EQ(metadata(other->error(), "cause"), "RUN_CANCELLED");
  EXPECT_EQ(metadata(other->error(), "cause_run"), "sessions/s/runs/r-1");
}

class ManyDomainsTest : public DomainTest {
 protected:
  ManyDomainsTest() : DomainTest(16 << 20) {}
};

// Each run uses the signals of one domain and a buffer of the domain before it. So the end of the
// first run revokes its domain, which stops the second run, and so on.
TEST_F(ManyDomainsTest, AChainOfRevocationsNeedsNoDeepStack) {
  constexpr int kDomains = 1000;
  limits_.max_session_active_runs = kDomains;
  const auto name = [](int i) { return i == 0 ? std::string("d") : absl::StrCat("d-", i); };
  std::vector<std::shared_ptr<Domain>> domains = {domain_};
  std::vector<std::shared_ptr<RunEntry>> runs = {Start(WaitFor(1))};
  for (int i = 1; i < kDomains; ++i) {
    domains.push_back(session_->domains().Create(name(i), Spec()).value());
    engine::GraphTarget target;
    target.kernels = &BuiltinKernels();
    target.chip_clusters = {2, 2};
    engine::GraphBuilder builder(target);
    const auto add = [&](const char* kernel, const std::string& slot, pto_dtype type, int64_t size,
                         std::vector<engine::ScalarInput> scalars) {
      const uint32_t layout = builder.AddLayout(type, {size}, {}).value();
      const uint32_t tensor = builder.AddTensor(builder.AddSlot(slot), layout, 0).value();
      engine::TaskInput task;
      task.kernel = builder.AddKernel(kernel).value();
      task.args = absl::MakeConstSpan(&tensor, 1);
      task.scalars = scalars;
      builder.AddTask(task).value();
    };
    std::vector<engine::ScalarInput> wait(3);
    for (engine::ScalarInput& scalar : wait) scalar.kind = engine::ScalarInput::Kind::kInteger;
    wait[0].i64 = PTO_GE;
    wait[1].i64 = 1;
    add("wait", absl::StrCat("domains/", name(i), "/ranks/0/signals"), PTO_I64, 1, wait);
    add("fill", absl::StrCat("domains/", name(i - 1), "/ranks/1/buffers/x"), PTO_F32, 16, {{}});
    runs.push_back(Start(builder.Build().value()));
  }
  RunAll();
  for (const auto& run : runs) ASSERT_EQ(StateOf(run), engine::RunState::kRunning);
  engine::testing::OnSmallStack([&] { Cancel(runs[0]); });
  EXPECT_EQ(StateOf(runs[0]), engine::RunState::kCancelled);
  for (int i = 1; i < kDomains; ++i) {
    ASSERT_EQ(StateOf(runs[i]), engine::RunState::kFailed) << i;
    ASSERT_THAT(domains[i]->error(), HasReason(reason::kDomainRevoked)) << i;
  }
  EXPECT_EQ(session_->usage().active_runs, 0u);
}

TEST_F(DomainTest, ARunThatUsedOnlyBuffersDoesNot) {
  Cancel(StartFill("x"));
  EXPECT_THAT(domain_->error(), IsOk());
  StartFill("x");
  RunAll();
}

TEST_F(DomainTest, BoundsNameTheNumbers) {
  const absl::Status rank = domain_->Notify(2, 0, PTO_SET, 1).status();
  EXPECT_THAT(rank, HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(std::string(rank.message()), HasSubstr("has no rank 2; its ranks are 0 to 1"));
  const absl::Status signal = domain_->Notify(1, 2, PTO_SET, 1).status();
  EXPECT_THAT(signal, HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(std::string(signal.message()), HasSubstr("has no signal 2; each rank has 2"));
  EXPECT_THAT(domain_->ReadSignals(2, 0, 0), HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(domain_->ReadSignals(0, 3, 0), HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(domain_->ReadSignals(0, 1, 2), HasReason(reason::kRangeOutOfBounds));
  EXPECT_THAT(domain_->ReadSignals(0, ~0u, ~0u), HasReason(reason::kRangeOutOfBounds));
  EXPECT_EQ(domain_->ReadSignals(0, 2, 0)->size(), 0u);
  EXPECT_EQ(domain_->ReadSignals(0, 1, 1)->size(), 1u);
  EXPECT_EQ(domain_->epoch(), 0u);
}

TEST_F(DomainTest, MemoryStaysUntilTheLastRunHasEnded) {
  const auto waits = Start(WaitFor(1)), queued = Start(WaitFor(0));
  EXPECT_GT(UsedBytes(), 0u);
  EXPECT_EQ(session_->RemoveDomain("d"), domain_);
  EXPECT_EQ(session_->RemoveDomain("d"), nullptr);
  EXPECT_EQ(session_->usage().device_bytes, 0u);
  EXPECT_THAT(TryStart(AddOne()), HasReason(reason::kDomainUnknown));
  EXPECT_GT(UsedBytes(), 0u);
  RunAll();
  // It is known to those that have it.
  EXPECT_EQ(domain_->Notify(0, 0, PTO_SET, 1).value(), 1u);
  RunAll();
  EXPECT_EQ(StateOf(waits), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(queued), engine::RunState::kSucceeded);
  EXPECT_EQ(UsedBytes(), 0u);
  EXPECT_THAT(domain_->Notify(0, 0, PTO_SET, 1), HasReason(reason::kDomainUnknown));
  EXPECT_THAT(domain_->ReadSignals(0, 0, 0), HasReason(reason::kDomainUnknown));
}

TEST_F(DomainTest, TheEndOfTheSessionFreesAll) {
  const auto waits = Start(WaitFor(1)), queued = Start(WaitFor(1));
  session_->End("is over");
  RunAll();
  EXPECT_EQ(StateOf(waits), engine::RunState::kCancelled);
  EXPECT_EQ(StateOf(queued), engine::RunState::kCancelled);
  EXPECT_EQ(UsedBytes(), 0u);
  EXPECT_THAT(session_->domains().Create("d", Spec()), HasReason(reason::kSessionEnded));
}

}  // namespace
}  // namespace pto::daemon
