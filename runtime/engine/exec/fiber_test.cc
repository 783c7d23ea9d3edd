#include "runtime/engine/exec/fiber.h"

#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace pto::engine {
namespace {

struct Counting {
  Fiber* fiber = nullptr;
  int rounds = 0;
  int reached = 0;
};

void Count(void* argument) {
  auto& counting = *static_cast<Counting*>(argument);
  for (int i = 0; i < counting.rounds; ++i) {
    ++counting.reached;
    counting.fiber->Suspend();
  }
}

TEST(FiberTest, GoesOnWhereItWasLeft) {
  std::unique_ptr<Fiber> fiber = Fiber::Create();
  ASSERT_NE(fiber, nullptr);
  EXPECT_TRUE(fiber->idle());
  Counting counting{fiber.get(), 3, 0};
  fiber->Start(&Count, &counting);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(counting.reached, i);
    EXPECT_FALSE(fiber->idle());
    fiber->Resume();
  }
  EXPECT_TRUE(fiber->idle());
}

TEST(FiberTest, ServesOneFunctionAfterTheOther) {
  std::unique_ptr<Fiber> fiber = Fiber::Create();
  for (int i = 0; i < 1000; ++i) {
    Counting counting{fiber.get(), 0, 0};
    fiber->Start(&Count, &counting);
    ASSERT_TRUE(fiber->idle());
  }
}

// More than the executors of any machine have cores, in any order.
TEST(FiberTest, ThousandsTakeTurns) {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Counting> countings(3000);
  for (Counting& counting : countings) {
    fibers.push_back(Fiber::Create());
    ASSERT_NE(fibers.back(), nullptr);
    counting = {fibers.back().get(), 2, 0};
    fibers.back()->Start(&Count, &counting);
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = fibers.size(); i-- > 0;) fibers[i]->Resume();
  }
  for (size_t i = 0; i < fibers.size(); ++i) {
    EXPECT_TRUE(fibers[i]->idle());
    EXPECT_EQ(countings[i].reached, 2);
  }
}

struct Catching {
  Fiber* fiber = nullptr;
  std::string text;
};

void CatchAndSuspend(void* argument) {
  auto& catching = *static_cast<Catching*>(argument);
  try {
    throw std::runtime_error(catching.text);
  } catch (const std::exception&) {
    catching.fiber->Suspend();
    // What is thrown again is what was caught here, whoever caught something meanwhile.
    try {
      throw;
    } catch (const std::exception& again) {
      catching.text = again.what();
    }
  }
}

TEST(FiberTest, ExceptionsStayWithTheirFiber) {
  std::unique_ptr<Fiber> first = Fiber::Create();
  std::unique_ptr<Fiber> second = Fiber::Create();
  Catching a{first.get(), "a"};
  Catching b{second.get(), "b"};
  first->Start(&CatchAndSuspend, &a);
  EXPECT_EQ(std::current_exception(), nullptr);
  second->Start(&CatchAndSuspend, &b);
  try {
    throw std::runtime_error("outside");
  } catch (const std::exception& outside) {
    first->Resume();
    EXPECT_STREQ(outside.what(), "outside");
  }
  second->Resume();
  EXPECT_EQ(a.text, "a");
  EXPECT_EQ(b.text, "b");
  EXPECT_EQ(std::uncaught_exceptions(), 0);
}

// 100 KiB of frames, each of which is written.
int Deep(int depth) {
  volatile char frame[1024];
  frame[0] = static_cast<char>(depth);
  if (depth == 0) return 0;
  return Deep(depth - 1) + (frame[0] == static_cast<char>(depth) ? 1 : 0);
}

TEST(FiberTest, HasRoomForDeepCalls) {
  std::unique_ptr<Fiber> fiber = Fiber::Create();
  int depth = 0;
  fiber->Start([](void* result) { *static_cast<int*>(result) = Deep(100); }, &depth);
  EXPECT_EQ(depth, 100);
}

struct Nesting {
  Fiber* outer = nullptr;
  Fiber* inner = nullptr;
  std::string order;
};

TEST(FiberTest, OneRunsInsideOfAnother) {
  std::unique_ptr<Fiber> outer = Fiber::Create();
  std::unique_ptr<Fiber> inner = Fiber::Create();
  Nesting nesting{outer.get(), inner.get(), {}};
  const auto body = [](void* argument) {
    auto& nested = *static_cast<Nesting*>(argument);
    nested.order += "a";
    nested.inner->Start(
        [](void* own) {
          auto& deepest = *static_cast<Nesting*>(own);
          deepest.order += "b";
          deepest.inner->Suspend();
          deepest.order += "d";
        },
        argument);
    nested.order += "c";
    nested.outer->Suspend();
    nested.order += "e";
  };
  outer->Start(body, &nesting);
  inner->Resume();
  outer->Resume();
  EXPECT_EQ(nesting.order, "abcde");
}

}  // namespace
}  // namespace pto::engine
