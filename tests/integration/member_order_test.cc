// A collective over windows takes its ranks from the task's members, not from the domain.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/domain.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"

namespace pto::testing {
namespace {

using ::testing::ElementsAre;

// Four ranks, each with the value 10 times its rank in the domain.
class MemberOrderTest : public ::testing::Test {
 protected:
  MemberOrderTest()
      : daemon_({"--sim-chips=4"}),
        client_(Client::Connect(daemon_.address()).value()),
        session_(client_.CreateSession().value()),
        domain_(session_
                    .CreateDomain({.chips = {2, 0, 3, 1},
                                   .buffers = {{"in", v1::I32, 1}, {"out", v1::I32, 4}}})
                    .value()) {
    for (uint32_t rank = 0; rank < domain_.ranks(); ++rank) {
      const std::vector<int32_t> number = {static_cast<int32_t>(10 * rank)};
      EXPECT_THAT(domain_.Window(rank, "in")->Write(number), IsOk());
    }
  }

  // Gathers the values of these ranks of the domain, as members in this order.
  void Gather(const std::vector<uint32_t>& ranks) {
    GraphBuilder graph;
    std::vector<GroupMember> members;
    const auto count = static_cast<int64_t>(ranks.size());
    for (const uint32_t rank : ranks) {
      const Buffer in = domain_.Window(rank, "in").value();
      const Buffer out = domain_.Window(rank, "out").value();
      members.push_back({in.chip(),
                         {graph.Tensor(absl::StrCat("in", rank), in, v1::I32, {1}),
                          graph.Tensor(absl::StrCat("out", rank), out, v1::I32, {count})}});
    }
    graph.Group("all_gather", members);
    const absl::StatusOr<pto::Run> run = session_.Submit(graph);
    ASSERT_THAT(run, IsOk());
    ASSERT_THAT(StatusOf(run->Wait().value()), IsOk());
  }

  std::vector<int32_t> Out(uint32_t rank) {
    return domain_.Window(rank, "out")->Read<int32_t>(4).value();
  }

  DaemonProcess daemon_;
  Client client_;
  Session session_;
  Domain domain_;
};

TEST_F(MemberOrderTest, MembersInTheOrderOfTheDomain) {
  Gather({0, 1, 2, 3});
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_THAT(Out(rank), ElementsAre(0, 10, 20, 30));
}

TEST_F(MemberOrderTest, MembersInAnotherOrder) {
  Gather({3, 0, 2, 1});
  for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_THAT(Out(rank), ElementsAre(30, 0, 20, 10));
}

TEST_F(MemberOrderTest, SomeMembers) {
  Gather({2, 0});
  for (const uint32_t rank : {2, 0}) EXPECT_THAT(Out(rank), ElementsAre(20, 0, 0, 0));
  for (const uint32_t rank : {1, 3}) EXPECT_THAT(Out(rank), ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace pto::testing
