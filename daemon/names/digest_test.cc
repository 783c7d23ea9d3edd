#include "daemon/names/digest.h"

#include <set>
#include <string>
#include <vector>

#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/run.pb.h"

namespace pto::daemon {
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

// Journals keep digests over releases. When this fails, the hash or the form of a request has
// changed: raise Digest::kVersion together with the values here.
TEST(DigestTest, TheFormOfAVersionNeverChanges) {
  EXPECT_EQ(Digest::kVersion, 2u);
  DigestBuilder builder;
  EXPECT_EQ(builder.Finish().version, Digest::kVersion);
  // What others say XXH3-128 of nothing is.
  EXPECT_EQ(builder.Finish().ToString(), "99aa06d3014798d86001c324468d497f");
  builder.Add("text");
  EXPECT_EQ(builder.Finish().ToString(), "63c981f3e90e3e7e3c212cd0f8a7f1ab");

  v1::SubmitRunRequest request;
  request.set_parent("sessions/s");
  request.set_run_id("r");
  *request.mutable_graph() = Graph(2);
  v1::TensorSpec* tensor = request.mutable_graph()->add_tensors();
  tensor->set_name("x");
  for (const int64_t size : {1, 200, 3}) tensor->add_shape(size);
  request.mutable_options()->mutable_timeout()->set_seconds(5);
  (*request.mutable_options()->mutable_labels())["b"] = "2";
  (*request.mutable_options()->mutable_labels())["a"] = "1";
  EXPECT_EQ(DigestOf(request).version, Digest::kVersion);
  EXPECT_EQ(DigestOf(request).ToString(), "906f0059e357886e2d4b1eefc66608c3");
  // More than a buffer full.
  *request.mutable_graph() = Graph(1000);
  EXPECT_EQ(DigestOf(request).ToString(), "4aff9900425ecbd3bdcbc8e83f7ab357");
}

TEST(DigestTest, AnotherVersionIsAnotherDigest) {
  Digest digest = DigestOf(Graph(1));
  EXPECT_NE(digest, Digest());
  digest.version = Digest::kFirstVersion;
  EXPECT_NE(digest, DigestOf(Graph(1)));
}

// The same tensor as two clients may write it: fields in any order, numbers packed or not.
TEST(DigestTest, WaysToWriteAMessageDoNotMatter) {
  v1::TensorSpec tidy, loose, other;
  ASSERT_TRUE(tidy.ParseFromString("\x0a\x01x\x12\x01y\x22\x02\x05\x06"));
  ASSERT_TRUE(loose.ParseFromString("\x20\x05\x12\x01y\x20\x06\x0a\x01w\x0a\x01x"));
  EXPECT_EQ(tidy.shape_size(), 2);
  EXPECT_EQ(DigestOf(tidy), DigestOf(loose));
  ASSERT_TRUE(other.ParseFromString("\x0a\x01x\x12\x01y\x22\x02\x06\x05"));
  EXPECT_NE(DigestOf(tidy), DigestOf(other));
}

TEST(DigestTest, FieldsOfALaterReleaseCount) {
  v1::TensorSpec plain, more, same;
  plain.set_name("x");
  more = same = plain;
  more.GetReflection()->MutableUnknownFields(&more)->AddVarint(1000, 1);
  same.GetReflection()->MutableUnknownFields(&same)->AddVarint(1000, 1);
  EXPECT_NE(DigestOf(plain), DigestOf(more));
  EXPECT_EQ(DigestOf(same), DigestOf(more));
}

// Lengths around the sizes of what is taken at once, and one bit changed at each end.
TEST(DigestTest, AnyChangeChangesIt) {
  std::set<std::string> seen;
  int made = 0;
  for (const size_t size :
       {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 200, 240, 250, 4090, 4095, 4096, 4097, 8192, 10000}) {
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
}  // namespace pto::daemon
