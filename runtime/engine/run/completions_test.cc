#include "runtime/engine/run/completions.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pto::engine {
namespace {

using Step = CompletionStep;

// Writes its name and step, and does what a test wants then.
class Noted final : public Completion {
 public:
  using Then = std::function<void(Step, Completions&)>;
  Noted(std::string name, std::vector<std::string>& notes, Then then = nullptr)
      : name_(std::move(name)), notes_(notes), then_(std::move(then)) {}

  void Complete(Step step, Completions& completions) override {
    notes_.push_back(name_ + std::to_string(static_cast<int>(step)));
    if (then_ != nullptr) then_(step, completions);
  }

 private:
  const std::string name_;
  std::vector<std::string>& notes_;
  const Then then_;
};

// Adds the item again for its next step.
void AddNext(Step step, Completions& completions, Completion& item) {
  if (step == Step::kSuccessors) return;
  completions.Add(static_cast<Step>(static_cast<int>(step) + 1), item);
}

TEST(CompletionsTest, StepsAreDoneInOrderAndEqualOnesFirstInFirstOut) {
  std::vector<std::string> notes;
  Noted a("a", notes), b("b", notes), c("c", notes), d("d", notes);
  Completions completions;
  EXPECT_TRUE(completions.empty());
  completions.Add(Step::kSuccessors, a);
  completions.Add(Step::kEvents, b);
  completions.Add(Step::kJournal, c);
  completions.Add(Step::kEvents, d);
  EXPECT_FALSE(completions.empty());
  completions.Drain();
  EXPECT_TRUE(completions.empty());
  EXPECT_EQ(notes, (std::vector<std::string>{"c0", "b1", "d1", "a3"}));
}

// The end of `b` follows from the last step of `a`.
TEST(CompletionsTest, AllStepsOfOneComeBeforeThoseOfItsSuccessor) {
  std::vector<std::string> notes;
  Noted* items[2] = {};
  Noted b("b", notes, [&](Step step, Completions& queue) { AddNext(step, queue, *items[1]); });
  Noted a("a", notes, [&](Step step, Completions& queue) {
    AddNext(step, queue, *items[0]);
    if (step == Step::kSuccessors) queue.Add(Step::kJournal, b);
  });
  items[0] = &a;
  items[1] = &b;
  Completions completions;
  completions.Add(Step::kJournal, a);
  completions.Drain();
  EXPECT_EQ(notes, (std::vector<std::string>{"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"}));
}

TEST(CompletionsTest, LaterStepsCanWait) {
  std::vector<std::string> notes;
  Noted* self = nullptr;
  Noted a("a", notes, [&](Step step, Completions& queue) { AddNext(step, queue, *self); });
  self = &a;
  Completions completions;
  completions.Add(Step::kJournal, a);
  completions.Drain(Step::kJournal);
  EXPECT_EQ(notes, (std::vector<std::string>{"a0"}));
  EXPECT_FALSE(completions.empty());
  completions.Drain(Step::kJournal);
  EXPECT_EQ(notes.size(), 1u);
  completions.Drain();
  EXPECT_EQ(notes.size(), 4u);
}

TEST(CompletionsTest, TheEndOfTheScopeDrains) {
  std::vector<std::string> notes;
  Noted a("a", notes);
  {
    Completions completions;
    completions.Add(Step::kResponses, a);
  }
  EXPECT_EQ(notes, (std::vector<std::string>{"a2"}));
}

// A run may be destroyed by its last step.
TEST(CompletionsTest, ACompletionMayDestroyItself) {
  std::vector<std::string> notes;
  std::unique_ptr<Noted> a;
  a = std::make_unique<Noted>("a", notes, [&](Step, Completions&) { a.reset(); });
  Completions completions;
  completions.Add(Step::kSuccessors, *a);
  completions.Drain();
  EXPECT_EQ(a, nullptr);
}

TEST(CompletionsDeathTest, ACompletionMustNotDrainItsQueue) {
  std::vector<std::string> notes;
  Noted b("b", notes);
  Noted a("a", notes, [&](Step, Completions& queue) {
    queue.Add(Step::kJournal, b);
    queue.Drain();
  });
  EXPECT_DEATH(
      {
        Completions completions;
        completions.Add(Step::kJournal, a);
      },
      "drains its own queue");
}

}  // namespace
}  // namespace pto::engine
