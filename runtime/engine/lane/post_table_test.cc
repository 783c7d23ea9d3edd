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
    NewsList ended;
    table_.Answer(absl::MakeSpan(&result, 1), &ended);
    return ended.count;
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
  NewsList ended;
  table_.LoseAll(&ended);
  EXPECT_EQ(ended.count, 1u);
  EXPECT_EQ(ended.first, &lost);
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

}  // namespace
}  // namespace pto::engine
