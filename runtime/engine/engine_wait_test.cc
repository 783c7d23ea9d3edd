// Kernels that wait: on fibers, and on threads of their own.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/base/status_matchers.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::testing::HasReason;

TEST(EngineWaitTest, AKernelThatWaitsLetsOthersRun) {
  SlowEngine node({1});
  const KernelBody waits = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node.signal(0);
    EXPECT_EQ(context.api->wait(&context, &signal, PTO_GE, 2, 0), PTO_OK);
    EXPECT_EQ(*node.word(0), 2);
    return 0;
  };
  std::shared_ptr<pto::engine::Run> waiting = node.Start({{.kernel = "waits"}}, waits);
  const auto observer = node.observer;
  node.RunAll();
  EXPECT_EQ(waiting->state(), RunState::kRunning);
  const KernelBody notifies = [&](uint32_t, const pto_context& context) {
    EXPECT_EQ(node.engine->chip_use(0).busy_cores, 2u);  // a core stays with who waits
    EXPECT_EQ(waiting->state(), RunState::kRunning);
    const pto_signal signal = node.signal(0);
    return context.api->notify(&context, &signal, PTO_ADD, 1);
  };
  std::shared_ptr<pto::engine::Run> other = node.Start({{}, {.after = {0}}}, notifies);
  node.RunAll();
  EXPECT_EQ(other->state(), RunState::kSucceeded);
  EXPECT_EQ(waiting->state(), RunState::kSucceeded);
  EXPECT_EQ(waiting->counts().done, 1u);
  EXPECT_EQ(observer->records().size(), 1u);
  node.ExpectClean();
}

TEST(EngineWaitTest, WhatFollowsRunsOnTheSameCore) {
  SlowEngine node({1});
  uint32_t cores[2] = {99, 98};
  const KernelBody body = [&](uint32_t task, const pto_context& context) {
    cores[task] = context.core;
    const pto_signal signal = node.signal(0);
    return task == 0 ? context.api->wait(&context, &signal, PTO_EQ, 1, 0) : 0;
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({{.kernel = "waits"}, {.after = {0}}}, body);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kRunning);
  EXPECT_EQ(node.engine->waiting(), 1u);
  node.Notify(0, PTO_SET, 1);
  EXPECT_TRUE(node.engine->RunOne());
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(cores[0], cores[1]);
  node.ExpectClean();
}

TEST(EngineWaitTest, APlainKernelMustNotWait) {
  SlowEngine node({1});
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node.signal(0);
    EXPECT_EQ(context.api->barrier(&context, PTO_SCOPE_TASK), PTO_NOT_ALLOWED);
    return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({{}}, body);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kFailed);
  EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelFailed));
  EXPECT_NE(run->errors()[0].message().find("does not say that it waits"), std::string::npos);
}

TEST(EngineWaitTest, NonsenseIsInvalid) {
  SlowEngine node({1});
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_kernel_api& api = *context.api;
    const pto_signal good = node.signal(0);
    const pto_signal odd = {reinterpret_cast<char*>(node.word(0)) + 1, PTO_I32};
    const pto_signal real = {node.word(0), PTO_F64};
    EXPECT_EQ(api.wait(&context, nullptr, PTO_EQ, 1, 0), PTO_INVALID);
    EXPECT_EQ(api.wait(&context, &odd, PTO_EQ, 1, 0), PTO_INVALID);
    EXPECT_EQ(api.wait(&context, &real, PTO_EQ, 1, 0), PTO_INVALID);
    EXPECT_EQ(api.wait(&context, &good, static_cast<pto_compare>(7), 1, 0), PTO_INVALID);
    EXPECT_EQ(api.wait(&context, &good, PTO_EQ, 1, -1), PTO_INVALID);
    EXPECT_EQ(api.notify(&context, &odd, PTO_SET, 1), PTO_INVALID);
    EXPECT_EQ(api.notify(&context, &good, static_cast<pto_notify_op>(3), 1), PTO_INVALID);
    EXPECT_EQ(api.barrier(&context, static_cast<pto_scope>(3)), PTO_INVALID);
    EXPECT_EQ(api.wait_copy(&context, 1, 0), PTO_INVALID);
    EXPECT_EQ(api.defer(&context, &odd, PTO_EQ, 1, 0), PTO_INVALID);
    EXPECT_EQ(api.defer_copy(&context, 0, 0), PTO_INVALID);
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({{.kernel = "waits"}}, body);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

TEST(EngineWaitTest, FailuresOnAFiberLookLikeOthers) {
  for (const char* kernel : {"plain", "waits"}) {
    SlowEngine node({1});
    const KernelBody body = [&](uint32_t task, const pto_context& context) -> int32_t {
      if (task == 0) throw std::runtime_error("oh no");
      context.api->set_error(&context, "as asked");
      return 7;
    };
    std::shared_ptr<pto::engine::Run> run =
        node.Start({{.kernel = kernel}, {.kernel = kernel}, {.after = {0}}}, body);
    node.RunAll();
    EXPECT_EQ(run->state(), RunState::kFailed);
    EXPECT_EQ(run->counts().failed, 2u);
    EXPECT_EQ(run->counts().skipped, 1u);
    ASSERT_EQ(run->errors().size(), 2u);
    EXPECT_THAT(run->errors()[0], HasReason(reason::kKernelThrew));
    EXPECT_THAT(run->errors()[1], HasReason(reason::kKernelFailed));
    EXPECT_EQ(run->errors()[1].message(),
              std::string("task 1: kernel '") + kernel +
                  "' returned 7 in block 0 of 1 on chips/0 core 1: as asked");
    node.ExpectClean();
  }
}

TEST(EngineWaitTest, CancelEndsWaits) {
  SlowEngine node({1});
  int32_t result = 0;
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node.signal(0);
    result = context.api->wait(&context, &signal, PTO_EQ, 1, 0);
    // From now on no wait begins.
    EXPECT_EQ(context.api->wait(&context, &signal, PTO_EQ, 1, 0), PTO_CANCELLED);
    return result;
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({{.kernel = "waits"}, {.after = {0}}}, body);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kRunning);
  node.Cancel(*run);
  EXPECT_EQ(run->state(), RunState::kCancelling);
  node.RunAll();
  EXPECT_EQ(run->state(), RunState::kCancelled);
  EXPECT_EQ(result, PTO_CANCELLED);
  EXPECT_EQ(run->counts().done, 0u);
  EXPECT_EQ(run->errors().size(), 1u);
  node.ExpectClean();
}

TEST(EngineWaitTest, OnlyKernelsThatSaySoNotifyAndOnlyTheirOwnWords) {
  SlowEngine node({1});
  int64_t elsewhere = 0;
  int32_t own = 99, foreign = 99, with_copy = 99;
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node.signal(0);
    const pto_signal other = {&elsewhere, PTO_I64};
    const pto_tensor to = node.words(8, 1), from = node.words(16, 1);
    own = context.api->notify(&context, &signal, PTO_ADD, 1);
    foreign = context.api->notify(&context, &other, PTO_ADD, 1);
    with_copy = context.api->copy(&context, &to, &from, &signal, PTO_ADD, 1, nullptr);
    return 0;
  };
  for (const char* const kernel : {"silent", "plain"}) {
    *node.word(0) = 0;
    const bool says_so = std::string(kernel) == "plain";
    auto run = node.Start({{.kernel = kernel}}, body);
    node.RunAll();
    EXPECT_EQ(run->state(), RunState::kSucceeded);
    EXPECT_EQ(own, says_so ? PTO_OK : PTO_NOT_ALLOWED);
    EXPECT_EQ(foreign, says_so ? PTO_INVALID : PTO_NOT_ALLOWED);
    EXPECT_EQ(with_copy, says_so ? PTO_OK : PTO_NOT_ALLOWED);
    EXPECT_EQ(*node.word(0), says_so ? 2 : 0);
    EXPECT_EQ(elsewhere, 0);
    node.ExpectClean();
  }
}

TEST(EngineWaitTest, TheEngineEndsWhileKernelsWait) {
  for (const uint32_t executors : {0u, 2u}) {
    for (const char* kernel : {"waits", "blocks"}) {
      SlowEngine node({2}, executors);
      std::atomic<int> waiting{0};
      const KernelBody body = [&](uint32_t, const pto_context& context) {
        const pto_signal signal = node.signal(0);
        ++waiting;
        return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
      };
      std::shared_ptr<pto::engine::Run> run =
          node.Start({{.kernel = kernel, .block_num = 3}, {.kernel = kernel}}, body);
      if (executors == 0) node.RunAll();
      while (waiting < 4) std::this_thread::yield();
      node.engine.reset();
      EXPECT_EQ(run->state(), RunState::kCancelled);
    }
  }
}

TEST(EngineWaitTest, BlockingKernelsHoldNoExecutor) {
  SlowEngine node({24}, 1);
  std::atomic<uint32_t> here{0};
  const KernelBody blocks = [&](uint32_t task, const pto_context& context) {
    if (task == 1) return 0;
    const pto_signal signal = node.signal(0);
    ++here;
    return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
  };
  std::shared_ptr<pto::engine::Run> blocked =
      node.Start({{.kernel = "blocks", .block_num = 40}, {.after = {0}}}, blocks);
  const auto observer = node.observer;
  while (here < 40) std::this_thread::yield();
  const KernelBody nothing = [](uint32_t, const pto_context&) { return 0; };
  std::shared_ptr<pto::engine::Run> other = node.Start({{}, {.kernel = "blocks"}}, nothing);
  node.observer->WaitFinished();
  EXPECT_EQ(other->state(), RunState::kSucceeded);
  EXPECT_EQ(blocked->state(), RunState::kRunning);
  node.Notify(0, PTO_SET, 1);
  observer->WaitFinished();
  EXPECT_EQ(blocked->state(), RunState::kSucceeded);
  EXPECT_EQ(blocked->counts().done, 2u);
}

TEST(EngineWaitTest, BlockingKernelsRunInWaves) {
  SlowEngine node({1}, 1);
  std::atomic<uint32_t> calls{0};
  const KernelBody body = [&](uint32_t, const pto_context&) {
    ++calls;
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run = node.Start({{.kernel = "blocks", .block_num = 50}}, body);
  node.observer->WaitFinished();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
  EXPECT_EQ(calls, 50u);
}

// A ring of fibers that wake each other, over two executors: nothing is lost, all are resumed.
TEST(EngineWaitTest, ManyFibersOverFewExecutors) {
  SlowEngine node({24}, 2);
  constexpr uint32_t kBlocks = 48;
  constexpr int64_t kRounds = 50;
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal own = node.signal(context.block_index);
    const pto_signal next = node.signal((context.block_index + 1) % kBlocks);
    for (int64_t round = 1; round <= kRounds; ++round) {
      if (context.block_index == 0) context.api->notify(&context, &next, PTO_SET, round);
      if (context.api->wait(&context, &own, PTO_GE, round, 0) != PTO_OK) return 1;
      if (context.block_index != 0) context.api->notify(&context, &next, PTO_SET, round);
    }
    return 0;
  };
  std::shared_ptr<pto::engine::Run> run =
      node.Start({{.kernel = "waits", .block_num = kBlocks}}, body);
  node.observer->WaitFinished();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

// 16 chips with all vector cores waiting. They sleep on a condition of the test, so that a second
// passes in which nothing has to happen.
TEST(EngineWaitTest, WhoWaitsCostsNothing) {
  SlowEngine node(std::vector<uint32_t>(16, 36), 2);
  std::vector<SlowTask> tasks;
  for (uint32_t chip = 0; chip < 16; ++chip) {
    tasks.push_back({.kernel = "waits", .chip = chip, .block_num = 72});
  }
  std::atomic<uint32_t> here{0};
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node.signal(0);
    ++here;
    return context.api->wait(&context, &signal, PTO_EQ, 1, 0);
  };
  std::shared_ptr<pto::engine::Run> run = node.Start(tasks, body);
  while (here < 16 * 72 || node.engine->waiting() < 16 * 72) std::this_thread::yield();
  const double before = CpuSeconds();
  EXPECT_FALSE(node.engine->WaitIdle(absl::Seconds(1)));
  EXPECT_LT(CpuSeconds() - before, 0.01);
  node.Notify(0, PTO_SET, 1);
  node.observer->WaitFinished();
  EXPECT_EQ(run->state(), RunState::kSucceeded);
}

}  // namespace
}  // namespace pto::engine
