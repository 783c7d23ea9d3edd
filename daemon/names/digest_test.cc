#include "daemon/names/digest.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "pto/v1/graph.pb.h"

namespace pto {
namespace {

v1::GraphSpec Graph(int tasks) {
  v1::GraphSpec graph;
  for (int i = 0; i < tasks; ++i) {
    v1::TaskSpec* task = graph.add_tasks();
    task->set_name("task-" + std::to_string(i));
    task->set_kernel("nop");
  }
  return graph;
}

TEST(DigestTest, EqualContentEqualDigest) {
  EXPECT_EQ(DigestOf(Graph(1000)), DigestOf(Graph(1000)));
  EXPECT_EQ(DigestOf(Graph(3)).ToString().size(), 32u);
  EXPECT_EQ((Digest{1, 0xab}.ToString()), "000000000000000100000000000000ab");
}

// Lengths around the sizes of what is taken at once, and one bit changed at each end.
TEST(DigestTest, AnyChangeChangesIt) {
  std::set<std::string> seen;
  int made = 0;
  for (const size_t size : {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 4095, 4096, 4097, 8192, 10000}) {
    v1::TaskSpec task;
    task.set_name(std::string(size, 'a'));
    seen.insert(DigestOf(task).ToString());
    ++made;
    if (size == 0) continue;
    for (const size_t place : std::set<size_t>{0, size / 2, size - 1}) {
      task.set_name(std::string(size, 'a'));
      (*task.mutable_name())[place] = 'b';
      seen.insert(DigestOf(task).ToString());
      ++made;
    }
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(made));
}

TEST(DigestTest, OrderOfAMapDoesNotMatter) {
  v1::RunOptions up, down;
  for (int i = 0; i < 100; ++i) (*up.mutable_labels())[std::to_string(i)] = "x";
  for (int i = 100; i-- > 0;) (*down.mutable_labels())[std::to_string(i)] = "x";
  // Other buckets, the same content.
  down.mutable_labels()->insert({"more", "x"});
  for (int i = 0; i < 5000; ++i) (*down.mutable_labels())["n" + std::to_string(i)] = "";
  for (int i = 0; i < 5000; ++i) down.mutable_labels()->erase("n" + std::to_string(i));
  EXPECT_NE(DigestOf(up), DigestOf(down));
  down.mutable_labels()->erase("more");
  EXPECT_EQ(DigestOf(up), DigestOf(down));
}

TEST(DigestTest, PartsCountOneByOne) {
  const auto digest = [](const std::vector<std::string>& names) {
    DigestBuilder builder;
    for (const std::string& name : names) {
      v1::TaskSpec part;
      part.set_name(name);
      builder.Add(part);
    }
    return builder.Finish();
  };
  EXPECT_EQ(digest({"a", "b"}), digest({"a", "b"}));
  EXPECT_NE(digest({"a", "b"}), digest({"b", "a"}));
  EXPECT_NE(digest({"a", "b"}), digest({"a"}));
  EXPECT_NE(digest({"a"}), digest({"a", ""}));
  EXPECT_NE(digest({}), digest({""}));

  // Two fields in one message or in two: the same bytes in a row, but not the same parts.
  v1::TaskSpec name, kernel, both;
  name.set_name("a");
  kernel.set_kernel("k");
  both = name;
  both.MergeFrom(kernel);
  DigestBuilder one, two;
  one.Add(both);
  two.Add(name);
  two.Add(kernel);
  EXPECT_NE(one.Finish(), two.Finish());
  EXPECT_EQ(one.Finish(), DigestOf(both));
}

TEST(DigestTest, GoesOnAfterFinish) {
  DigestBuilder one, two;
  one.Add(Graph(5));
  two.Add(Graph(5));
  EXPECT_EQ(one.Finish(), one.Finish());
  one.Add("run-1");
  two.Add("run-1");
  EXPECT_EQ(one.Finish(), two.Finish());
  two.Add("");
  EXPECT_NE(one.Finish(), two.Finish());
}

}  // namespace
}  // namespace pto
