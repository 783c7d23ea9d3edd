#include "runtime/engine/lane/post_table.h"

#include <gtest/gtest.h>

#include <vector>

namespace pto::engine {
namespace {

class PostTableTest : public ::testing::Test {
 protected:
  PostSlot& Post() {
    PostSlot* const slot = &table_.Take();
    table_.Begin(absl::MakeConstSpan(&slot, 1));
    return *slot;
  }
  // Returns how many posts have ended.
  size_t Answer(PostId id, absl::Status status = absl::OkStatus()) {
    LaneResult result{id, std::move(status)};
    PostTable::Ended ended;
    table_.Answer(absl::MakeSpan(&result, 1), &ended);
    return ended.posts.count;
  }

  PostTable table_{4};
};

TEST_F(PostTableTest, AnIdIsNotUsedAgain) {
  PostSlot& slot = Post();
  const PostId id = slot.post.id;
  EXPECT_NE(id, 0u);
  EXPECT_EQ(Answer(id), 1u);
  EXPECT_EQ(Answer(id), 0u);
  table_.Recycle(slot);
  EXPECT_EQ(Answer(id), 0u);
  PostSlot& next = Post();
  EXPECT_EQ(&next, &slot);
  EXPECT_NE(next.post.id, id);
  EXPECT_EQ(Answer(id), 0u);
  EXPECT_EQ(Answer(next.post.id), 1u);
  EXPECT_EQ(table_.counts().ignored, 3u);
  EXPECT_EQ(table_.counts().outstanding, 1u);
  table_.Recycle(next);
  EXPECT_EQ(table_.counts().outstanding, 0u);
}

TEST_F(PostTableTest, ASlotThatIsNotPostedYetCannotEnd) {
  PostSlot& slot = table_.Take();
  EXPECT_EQ(Answer(slot.post.id), 0u);
}

TEST_F(PostTableTest, LosesOnlyWhatHasNotEnded) {
  PostSlot& done = Post();
  PostSlot& lost = Post();
  EXPECT_EQ(Answer(done.post.id), 1u);
  PostTable::Ended ended;
  table_.LoseAll(&ended);
  EXPECT_EQ(ended.posts.count, 1u);
  EXPECT_EQ(ended.posts.first, &lost);
  EXPECT_EQ(lost.end, PostSlot::End::kLost);
  EXPECT_EQ(Answer(lost.post.id), 0u);
  EXPECT_EQ(table_.counts().answered, 1u);
  EXPECT_EQ(table_.counts().lost, 1u);
}

TEST_F(PostTableTest, CancelsOnce) {
  PostSlot& first = Post();
  PostSlot& second = Post();
  const auto all = [](const PostSlot&) { return true; };
  std::vector<PostId> ids;
  table_.Cancel([&](const PostSlot& slot) { return &slot == &second; }, 10, &ids);
  EXPECT_EQ(ids, std::vector<PostId>{second.post.id});
  table_.Cancel(all, 20, &ids);
  EXPECT_EQ(ids.size(), 2u);
  table_.Cancel(all, 30, &ids);
  EXPECT_EQ(ids.size(), 2u);
  PostId id = 0;
  int64_t since_ns = 0;
  ASSERT_TRUE(table_.FirstCancelled(&id, &since_ns));
  EXPECT_EQ(id, second.post.id);
  EXPECT_EQ(since_ns, 10);
  Answer(second.post.id);
  ASSERT_TRUE(table_.FirstCancelled(&id, &since_ns));
  EXPECT_EQ(id, first.post.id);
  EXPECT_EQ(since_ns, 20);
  Answer(first.post.id);
  EXPECT_FALSE(table_.FirstCancelled(&id, &since_ns));
  // The next post of the slot is not cancelled.
  table_.Recycle(second);
  Post();
  EXPECT_FALSE(table_.FirstCancelled(&id, &since_ns));
}

class TestWaiter final : public Waiter {
 public:
  TestWaiter() : Waiter({&word_, PTO_I64}, PTO_EQ, 1) {}

 private:
  void OnEnd(WaitEnd) override {}
  int64_t word_ = 0;
};

TEST_F(PostTableTest, APostHasOneCallAtATime) {
  PostSlot& slot = Post();
  EXPECT_EQ(table_.BeginCall(slot.post.id + 1), nullptr);
  ASSERT_EQ(table_.BeginCall(slot.post.id), &slot);
  EXPECT_EQ(table_.BeginCall(slot.post.id), nullptr);
  NewsList ended;
  table_.EndCall(slot, &ended);
  EXPECT_EQ(ended.count, 0u);
  EXPECT_EQ(table_.BeginCall(slot.post.id), &slot);
  table_.EndCall(slot, &ended);
  EXPECT_EQ(Answer(slot.post.id), 1u);
  EXPECT_EQ(table_.BeginCall(slot.post.id), nullptr);
  EXPECT_EQ(table_.counts().calls, 2u);
  EXPECT_EQ(table_.counts().ignored, 3u);
}

TEST_F(PostTableTest, APostThatEndsInACallStaysUntilTheCallIsOver) {
  for (const bool lost : {false, true}) {
    PostSlot& slot = Post();
    const PostId id = slot.post.id;
    ASSERT_NE(table_.BeginCall(id), nullptr);
    PostTable::Ended ended;
    if (lost) {
      table_.LoseAll(&ended);
    } else {
      LaneResult result{id, absl::OkStatus()};
      table_.Answer(absl::MakeSpan(&result, 1), &ended);
    }
    EXPECT_EQ(ended.posts.count, 0u);
    EXPECT_EQ(Answer(id), 0u) << "it has ended";
    TestWaiter late;
    EXPECT_FALSE(table_.BeginWait(slot, late)) << "nobody would end it";
    table_.EndCall(slot, &ended.posts);
    EXPECT_EQ(ended.posts.first, &slot);
    table_.Recycle(slot);
  }
}

TEST_F(PostTableTest, TheEndOfAPostClaimsItsWait) {
  PostSlot& slot = Post();
  const PostId id = slot.post.id;
  for (const bool claimed : {false, true}) {
    PostSlot& post = claimed ? Post() : slot;
    ASSERT_NE(table_.BeginCall(post.post.id), nullptr);
    TestWaiter waiter;
    ASSERT_TRUE(table_.BeginWait(post, waiter));
    // Somebody else may be about to end it.
    if (claimed) {
      EXPECT_TRUE(waiter.Claim());
    }
    LaneResult result{post.post.id, absl::OkStatus()};
    PostTable::Ended ended;
    table_.Answer(absl::MakeSpan(&result, 1), &ended);
    EXPECT_EQ(ended.waits.size(), claimed ? 0u : 1u);
    EXPECT_FALSE(waiter.Claim());
    table_.EndWait(post, 0);
    table_.EndCall(post, &ended.posts);
    EXPECT_EQ(ended.posts.count, 1u);
  }
  EXPECT_EQ(Answer(id), 0u);
}

TEST_F(PostTableTest, TheTimeOfAPostDoesNotCountItsWaits) {
  PostSlot& busy = table_.Take();
  busy.start_ns = 10;
  PostSlot* slots[] = {&busy};
  table_.Begin(slots);
  std::vector<const PostSlot*> late;
  const auto look = [&](int64_t now_ns) {
    late.clear();
    return table_.ForEachLong(now_ns, 100, [&](const PostSlot& slot) { late.push_back(&slot); });
  };
  EXPECT_EQ(look(50), 110);
  EXPECT_TRUE(late.empty());
  ASSERT_NE(table_.BeginCall(busy.post.id), nullptr);
  TestWaiter waiter;
  ASSERT_TRUE(table_.BeginWait(busy, waiter));
  EXPECT_EQ(look(500), 600);
  EXPECT_TRUE(late.empty());
  NewsList ended;
  table_.EndWait(busy, 550);
  table_.EndCall(busy, &ended);
  EXPECT_EQ(look(600), 650);
  EXPECT_EQ(look(650), 0);
  EXPECT_EQ(late, std::vector<const PostSlot*>{&busy});
  std::vector<PostId> ids;
  table_.Cancel([](const PostSlot&) { return true; }, 660, &ids);
  EXPECT_EQ(look(700), 0);
  EXPECT_TRUE(late.empty()) << "it has been told to end";
}

}  // namespace
}  // namespace pto::engine
