// Runs whose tasks name a domain, and window buffers that begin with zeros.

#include "kernels/domain_scalar.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/domain/domain.h"
#include "daemon/session/testing/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/registry.h"
#include "runtime/base/error.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::SessionTest;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The numbers that the kernel was given.
Mutex mutex;
std::vector<int64_t>& Given() {
  static auto* const given = new std::vector<int64_t>;
  return *given;
}

int32_t Ranked(const pto_context* context) {
  MutexLock lock(mutex);
  Given().push_back(context->scalars[0].i64);
  return context->scalars[1].i64 == 0 ? 0 : -1;
}

// A domain of two ranks, chips 1 and 0, of three chips.
class DomainScalarTest : public SessionTest {
 protected:
  explicit DomainScalarTest(uint64_t chip_bytes = 1 << 20)
      : SessionTest({engine::SimChip::Create(0, 2, chip_bytes),
                     engine::SimChip::Create(1, 2, chip_bytes),
                     engine::SimChip::Create(2, 2, chip_bytes)}) {
    limits_.max_session_active_runs = 100;
    session_ = Create("s");
    static constexpr pto_scalar_info kScalars[] = {{"domain", kDomainScalar},
                                                   {"fails", PTO_INTEGER}};
    pto_kernel_info info = {};
    info.struct_size = sizeof info;
    info.name = "ranked";
    info.description = "For tests.";
    info.function = &Ranked;
    info.default_core = PTO_AIV;
    info.scalars = kScalars;
    info.scalar_count = 2;
    EXPECT_THAT(kernels_.Add(info), IsOk());
    target_.kernels = &kernels_;
    target_.chip_clusters = {2, 2, 2};
    MutexLock lock(mutex);
    Given().clear();
  }

  static DomainSpec Spec(bool zero = false, uint64_t floats = 16) {
    DomainSpec spec;
    spec.chips = {1, 0};
    spec.buffers = {{"x", PTO_F32, floats, 0, zero}, {"y", PTO_F32, 16}};
    spec.signal_count = 2;
    return spec;
  }
  std::shared_ptr<Domain> Make(const DomainSpec& spec = Spec()) {
    return session_->domains().Create("d", spec).value();
  }

  template <typename Builder>
  void AddTasks(Builder& builder, const std::vector<uint32_t>& chips, bool fails = false) {
    const uint32_t kernel = builder.AddKernel("ranked").value();
    std::vector<engine::ScalarInput> scalars(2);
    scalars[0].kind = engine::ScalarInput::Kind::kNamed;
    scalars[0].named = builder.AddDomain("domains/d");
    scalars[1].kind = engine::ScalarInput::Kind::kInteger;
    scalars[1].i64 = fails ? 1 : 0;
    for (const uint32_t chip : chips) {
      engine::TaskInput task;
      task.kernel = kernel;
      task.chip = chip;
      task.scalars = scalars;
      builder.AddTask(task).value();
    }
  }
  std::shared_ptr<const engine::GraphImage> Graph(const std::vector<uint32_t>& chips,
                                                  bool fails = false) {
    engine::GraphBuilder builder(target_);
    AddTasks(builder, chips, fails);
    return builder.Build().value();
  }
  absl::StatusOr<std::shared_ptr<RunEntry>> TryStart(
      std::shared_ptr<const engine::GraphImage> image, std::vector<SlotBinding> bindings = {}) {
    RunRequest request;
    request.image = std::move(image);
    request.bindings = std::move(bindings);
    return session_->StartRun(std::move(request));
  }
  static engine::RunState StateOf(const std::shared_ptr<RunEntry>& entry) {
    return entry->Status().state;
  }
  float* Data(const char* name) {
    return reinterpret_cast<float*>(session_->FindBuffer(name).value()->memory->AsHost()->data());
  }

  KernelRegistry kernels_;
  engine::GraphTarget target_;
  std::shared_ptr<Session> session_;
};

TEST_F(DomainScalarTest, ARunGetsTheNumberOfTheDomainThatHasTheNameThen) {
  const auto image = Graph({0, 1});
  EXPECT_THAT(TryStart(image), HasReason(reason::kDomainUnknown));
  const std::shared_ptr<Domain> first = Make();
  TryStart(image).value();
  RunAll();
  const auto number = static_cast<int64_t>(first->number());
  EXPECT_THAT(Given(), ElementsAre(number, number));
  EXPECT_EQ(first->epoch(), 1u);
  session_->RemoveDomain("d");
  EXPECT_THAT(TryStart(image), HasReason(reason::kDomainUnknown));
  const std::shared_ptr<Domain> second = Make();
  EXPECT_NE(second->number(), first->number());
  TryStart(image).value();
  RunAll();
  EXPECT_EQ(Given().back(), static_cast<int64_t>(second->number()));
}

TEST_F(DomainScalarTest, ATaskOnAChipWithoutARankIsRefused) {
  Make();
  const absl::Status refused = TryStart(Graph({0, 2})).status();
  EXPECT_THAT(refused, HasReason(reason::kScalarInvalid));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("task 1 is on chips/2"));
}

TEST_F(DomainScalarTest, RunsTakeTurnsAndKeepTheWindows) {
  const std::shared_ptr<Domain> domain = Make();
  const auto first = TryStart(Graph({0})).value();
  const auto second = TryStart(Graph({1})).value();
  // It reads a buffer of a window, which the kernels of the others may write.
  const auto reader = TryStart(image_, {{"x", "domains/d/ranks/1/buffers/y", 0}}).value();
  session_->RemoveDomain("d");
  EXPECT_EQ(domain->windows().size(), 2u) << "runs use them";
  EXPECT_EQ(session_->usage().buffers, 0u);
  RunAll();
  EXPECT_EQ(StateOf(first), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(second), engine::RunState::kSucceeded);
  EXPECT_EQ(StateOf(reader), engine::RunState::kSucceeded);
  EXPECT_EQ(domain->epoch(), 2u);
  EXPECT_TRUE(domain->windows().empty());
}

TEST_F(DomainScalarTest, AFailureRevokesTheDomain) {
  const std::shared_ptr<Domain> domain = Make();
  const auto failed = TryStart(Graph({0, 1}, true)).value();
  const auto behind = TryStart(Graph({1})).value();
  RunAll();
  EXPECT_EQ(StateOf(failed), engine::RunState::kFailed);
  EXPECT_THAT(domain->error(), HasReason(reason::kDomainRevoked));
  EXPECT_EQ(StateOf(behind), engine::RunState::kFailed);
  EXPECT_THAT(TryStart(Graph({0})), HasReason(reason::kDomainRevoked));
}

TEST_F(DomainScalarTest, TheRankWithoutATaskIsNamedWhenTimeIsUp) {
  Make();
  RunRequest request;
  request.image = Graph({1});
  request.timeout_ns = 1000;
  const auto late = session_->StartRun(std::move(request)).value();
  clock_.Advance(absl::Seconds(1));
  timers_.RunDue();
  RunAll();
  EXPECT_EQ(StateOf(late), engine::RunState::kFailed);
  const std::string error(late->Status().errors[0].message());
  EXPECT_THAT(error, HasSubstr("no task of the run is for rank 1 of domains/d, chips/0"));
}

TEST_F(DomainScalarTest, OnlyMarkedBuffersBeginWithZeros) {
  Make(Spec(/*zero=*/true));
  float* const x = Data("domains/d/ranks/1/buffers/x");
  float* const y = Data("domains/d/ranks/1/buffers/y");
  for (int round = 0; round < 3; ++round) {
    std::fill_n(x, 16, 5.f);
    std::fill_n(y, 16, 6.f);
    const auto run = TryStart(Graph({0})).value();
    EXPECT_EQ(x[3], 0) << "it has begun";
    EXPECT_EQ(y[3], 6);
    std::fill_n(x, 16, 7.f);
    RunAll();
    EXPECT_EQ(StateOf(run), engine::RunState::kSucceeded);
    EXPECT_EQ(x[3], 7) << "what a run left can be read until the next";
  }
}

TEST_F(DomainScalarTest, UsersOfAMarkedBufferTakeTurnsWithZeros) {
  const std::shared_ptr<Domain> domain = Make(Spec(/*zero=*/true));
  float* const x = Data("domains/d/ranks/1/buffers/x");
  const auto first = TryStart(image_, {{"x", "domains/d/ranks/1/buffers/x", 0}}).value();
  const auto second = TryStart(image_, {{"x", "domains/d/ranks/1/buffers/x", 0}}).value();
  x[15] = 9;
  RunAll();
  EXPECT_EQ(StateOf(second), engine::RunState::kSucceeded);
  EXPECT_EQ(domain->epoch(), 2u);
  // A use of the others is none of the signals.
  TryStart(image_, {{"x", "domains/d/ranks/1/buffers/y", 0}}).value();
  RunAll();
  EXPECT_EQ(domain->epoch(), 2u);
}

TEST_F(DomainScalarTest, AUseSetsOnlyThoseBuffersToZeroThatItNames) {
  const std::shared_ptr<Domain> domain = Make(Spec(/*zero=*/true));
  float* const named = Data("domains/d/ranks/1/buffers/x");
  float* const other = Data("domains/d/ranks/0/buffers/x");
  const std::shared_ptr<SessionBuffer> buffer =
      session_->FindBuffer("domains/d/ranks/0/buffers/x").value();
  named[15] = other[15] = 9;
  const auto run = TryStart(image_, {{"x", "domains/d/ranks/1/buffers/x", 0}}).value();
  EXPECT_EQ(named[15], 0);
  EXPECT_EQ(other[15], 9) << "clients may write it meanwhile";
  EXPECT_EQ(buffer->in_use.load(), 0u);
  RunAll();
  EXPECT_EQ(StateOf(run), engine::RunState::kSucceeded);
  const auto whole = TryStart(Graph({0})).value();
  EXPECT_EQ(other[15], 0);
  EXPECT_EQ(buffer->in_use.load(), 1u);
  RunAll();
  EXPECT_EQ(StateOf(whole), engine::RunState::kSucceeded);
}

TEST_F(DomainScalarTest, ARunThatNamesADomainOfManyPartsCountsForThem) {
  DomainSpec spec = Spec();
  for (int i = 0; i < 1000; ++i) spec.buffers.push_back({absl::StrCat("b", i), PTO_F32, 1});
  Make(spec);
  const uint64_t before = session_->memory()->used();
  const auto first = TryStart(Graph({0})).value();
  const uint64_t each = session_->memory()->used() - before;
  EXPECT_GT(each, 2000 * sizeof(engine::RunSlot));
  const auto second = TryStart(Graph({0})).value();
  EXPECT_GT(session_->memory()->used() - before, each + 2000 * sizeof(engine::RunSlot));
  session_->memory()->SetLimit(session_->memory()->used() + each / 2);
  EXPECT_THAT(TryStart(Graph({0})), HasReason(reason::kMemoryBudget));
  RunAll();
  EXPECT_EQ(StateOf(second), engine::RunState::kSucceeded);
  EXPECT_LT(session_->memory()->used() - before, each);
}

class LargeDomainTest : public DomainScalarTest {
 protected:
  LargeDomainTest() : DomainScalarTest(uint64_t{64} << 20) {}
};

TEST_F(LargeDomainTest, LargeBuffersAreSetToZeroByAnotherThread) {
  constexpr uint64_t kFloats = uint64_t{1} << 20;
  Make(Spec(/*zero=*/true, kFloats));
  float* const x = Data("domains/d/ranks/0/buffers/x");
  for (int round = 0; round < 3; ++round) {
    std::fill_n(x, kFloats, 5.f);
    const auto first = TryStart(Graph({0, 1})).value();
    const auto second = TryStart(Graph({1})).value();
    while (StateOf(second) != engine::RunState::kSucceeded) RunAll();
    EXPECT_EQ(StateOf(first), engine::RunState::kSucceeded);
    EXPECT_TRUE(std::all_of(x, x + kFloats, [](float value) { return value == 0; }));
  }
}

TEST_F(LargeDomainTest, ARunThatIsStoppedBeforeItBeginsLeavesTheDomainAlone) {
  const std::shared_ptr<Domain> domain = Make(Spec(/*zero=*/true, uint64_t{1} << 20));
  for (int round = 0; round < 20; ++round) {
    const auto run = TryStart(Graph({0, 1})).value();
    run->Stop(engine::RunState::kCancelled, Error(reason::kRunCancelled, "a test"));
    while (!engine::IsFinal(StateOf(run))) RunAll();
    // It may have begun: then its end revokes the domain.
    if (!domain->error().ok()) break;
  }
}

}  // namespace
}  // namespace pto::daemon
