// The words for what the engine knows, with an engine that a test moves step by step.

#include "daemon/explain/describe.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::daemon {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::testing::HasSubstr;
using ::testing::Not;

using Response = v1::ExplainRunResponse;

constexpr int64_t kStall = 30'000'000'000;

// Three of the four vector cores are taken, and a gang that needs two has reserved the last.
class DescribeCoresTest : public ::testing::Test {
 protected:
  DescribeCoresTest() {
    holds_ = node_.Start({{.kernel = "waits", .block_num = 3}}, body_);
    node_.RunAll();
    gang_ = node_.Start({{.block_num = 2, .together = true}}, nothing_, Of("uid-2"));
    plain_ = node_.Start({{}}, nothing_, Of("uid-1"));
    now_ = node_.engine->Look();
    EXPECT_EQ(now_.runs.size(), 3u);
    EXPECT_EQ(now_.runs[0].run, plain_);
  }
  ~DescribeCoresTest() override {
    now_ = {};
    for (const auto& run : {holds_, gang_, plain_}) node_.Cancel(*run);
    node_.RunAll();
    node_.ExpectClean();
  }

  static engine::RunSpec Of(const std::string& owner) {
    engine::RunSpec spec;
    spec.account = std::make_shared<engine::Account>("sessions/of-" + owner, 1, owner);
    return spec;
  }

  // As long as the gang keeps it; the engine takes it back after a while.
  void Reserve() {
    now_.chips[0].gang_run = gang_.get();
    now_.chips[0].gang_task = 0;
    now_.chips[0].gang_have = 1;
    now_.chips[0].gang_want = 2;
  }
  // Of the run that needs one core.
  Response Describe(const auth::Principal* viewer = &auth::Daemon()) const {
    const engine::Diagnosis diagnosis(now_);
    return Describer(now_, diagnosis, viewer).Describe({0}, {0}, kStall, 16);
  }

  SlowEngine node_{{2}};
  const KernelBody nothing_ = [](uint32_t, const pto_context&) { return 0; };
  const KernelBody body_ = [this](uint32_t, const pto_context& context) {
    const pto_signal signal = node_.signal(0);
    return context.api->wait(&context, &signal, PTO_GE, 1, 0);
  };
  std::shared_ptr<pto::engine::Run> holds_;
  std::shared_ptr<pto::engine::Run> gang_;
  std::shared_ptr<pto::engine::Run> plain_;
  engine::EngineNow now_;
};

TEST_F(DescribeCoresTest, AReservedCoreIsNotAboutToBeTaken) {
  Reserve();
  const Response response = Describe();
  EXPECT_EQ(response.verdict(), Response::WAITING_FOR_CAPACITY);
  ASSERT_EQ(response.blocked_size(), 1);
  EXPECT_EQ(response.blocked(0).kind(), Response::BlockedTask::CORES);
  EXPECT_THAT(response.blocked(0).reason(),
              HasSubstr("1 free, all of them reserved for test task 0"));
  EXPECT_THAT(response.blocked(0).reason(), Not(HasSubstr("take it")));
}

TEST_F(DescribeCoresTest, OnlyWhoMayLookAtARunReadsItsName) {
  Reserve();
  const auth::Principal owner("uid-1", {});
  auth::Rights rights;
  rights.reader = true;
  const auth::Principal reader("uid-3", rights);
  EXPECT_THAT(Describe(&reader).blocked(0).reason(), HasSubstr("reserved for test task 0"));
  // The second one is what the log of its session gets.
  const auth::Principal* const nobody = nullptr;
  for (const auth::Principal* viewer : {&owner, nobody}) {
    EXPECT_THAT(Describe(viewer).blocked(0).reason(),
                HasSubstr("reserved for another client's run, which starts"));
    EXPECT_THAT(Describe(viewer).DebugString(), Not(HasSubstr("of-uid-2")));
  }
}

TEST_F(DescribeCoresTest, AFreeCoreIsAboutToBeTaken) {
  const Response response = Describe();
  EXPECT_EQ(response.verdict(), Response::WAITING_FOR_CAPACITY);
  ASSERT_EQ(response.blocked_size(), 1);
  EXPECT_EQ(response.blocked(0).reason(),
            "is ready and waits for one of the AIV cores of chips/0: 1 free; a thread will take it "
            "soon");
}

}  // namespace
}  // namespace pto::daemon
