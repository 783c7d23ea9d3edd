#include "daemon/names/names.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::names {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

const std::string kLongest(63, 'a');

TEST(NamesTest, IdsFollowTheRule) {
  for (const std::string& id :
       {std::string("a"), std::string("a-0"), std::string("z9-"), kLongest}) {
    EXPECT_THAT(CheckId(id, "id"), IsOk()) << id;
  }
  for (const std::string& id :
       {std::string(), std::string("0a"), std::string("-a"), std::string("A"), std::string("aB"),
        std::string("a_b"), std::string("a/b"), std::string("a b"), std::string("é"),
        std::string("a\0b", 3), kLongest + "a"}) {
    EXPECT_THAT(CheckId(id, "id"), HasReason(reason::kIdInvalid)) << id;
  }
  EXPECT_EQ(GetErrorDetail(CheckId("A", "run_id"))->field, "run_id");
}

TEST(NamesTest, ParsesChips) {
  EXPECT_EQ(ParseChip("chips/0", "chip").value(), 0u);
  EXPECT_EQ(ParseChip("chips/3", "chip").value(), 3u);
  EXPECT_EQ(ParseChip("chips/4294967295", "chip").value(), 4294967295u);
  for (const char* name :
       {"", "chips", "chips/", "3", "chip/3", "chips/-1", "chips/+1", "chips/01", "chips/00",
        "chips/ 1", "chips/1 ", "chips/1/2", "chips/0x1", "chips/4294967296",
        "chips/99999999999999999999", "Chips/1", "/chips/1", "chips//1"}) {
    EXPECT_THAT(ParseChip(name, "chip"), HasReason(reason::kNameInvalid)) << name;
  }
  EXPECT_EQ(GetErrorDetail(ParseChip("3", "tasks[1].chip").status())->field, "tasks[1].chip");
}

TEST(NamesTest, ParsesChipsOfANode) {
  EXPECT_EQ(ParseChip("chips/1", "chip", 2).value(), 1u);
  EXPECT_THAT(ParseChip("chip/1", "chip", 2), HasReason(reason::kNameInvalid));
  const absl::StatusOr<uint32_t> beyond = ParseChip("chips/2", "tasks[1].chip", 2);
  ASSERT_THAT(beyond, HasReason(reason::kChipUnknown));
  const absl::optional<ErrorDetail> detail = GetErrorDetail(beyond.status());
  EXPECT_EQ(detail->field, "tasks[1].chip");
  EXPECT_THAT(detail->metadata, ::testing::UnorderedElementsAre(::testing::Pair("chip", "chips/2"),
                                                                ::testing::Pair("chips", "2")));
}

TEST(NamesTest, ParsesSessions) {
  EXPECT_EQ(ParseSession("sessions/s1", "name").value(), "s1");
  for (const char* name :
       {"", "s1", "session/s1", "sessions", "sessions/s1/", "sessions/a/runs/b"}) {
    EXPECT_THAT(ParseSession(name, "name"), HasReason(reason::kNameInvalid)) << name;
  }
  for (const char* name : {"sessions/", "sessions/S1", "sessions/1"}) {
    EXPECT_THAT(ParseSession(name, "name"), HasReason(reason::kIdInvalid)) << name;
  }
}

TEST(NamesTest, ParsesKernels) {
  EXPECT_EQ(ParseKernel("kernels/add_f32", "name").value(), "add_f32");
  EXPECT_THAT(ParseKernel("add", "name"), HasReason(reason::kNameInvalid));
  EXPECT_THAT(ParseKernel("kernels/a/b", "name"), HasReason(reason::kNameInvalid));
  EXPECT_THAT(ParseKernel("kernels/", "name"), HasReason(reason::kIdInvalid));
  EXPECT_THAT(ParseKernel("kernels/add-f32", "name"), HasReason(reason::kIdInvalid));
}

TEST(NamesTest, ParsesKernelsOfSessions) {
  EXPECT_EQ(ParseAnyKernel("kernels/add_f32", "name")->session, "");
  const Child child = ParseAnyKernel("sessions/s-1/kernels/add_f32", "name").value();
  EXPECT_EQ(child.session, "s-1");
  EXPECT_EQ(child.id, "add_f32");
  for (const char* name :
       {"", "add", "sessions/", "sessions/s", "sessions/s/add", "sessions/s/kernels",
        "sessions/s/kernels/a/b", "sessions/s/kernelsa", "kernels/a/b"}) {
    EXPECT_THAT(ParseAnyKernel(name, "name"), HasReason(reason::kNameInvalid)) << name;
  }
  for (const char* name :
       {"sessions/s/kernels/", "sessions/s/kernels/a-b", "sessions//kernels/a", "kernels/"}) {
    EXPECT_THAT(ParseAnyKernel(name, "name"), HasReason(reason::kIdInvalid)) << name;
  }
}

TEST(NamesTest, ParsesChildren) {
  const Child child = ParseChild("sessions/s1/runs/r-1", "runs", "name").value();
  EXPECT_EQ(child.session, "s1");
  EXPECT_EQ(child.id, "r-1");
  for (const char* name :
       {"", "r1", "runs/r1", "sessions/s1", "sessions/s1/runs", "sessions/s1/buffers/b",
        "sessions/s1/runs/r1/x", "sessions/s1/runsr1", "sessions/s1/runsx/r1", "sessions//runs"}) {
    EXPECT_THAT(ParseChild(name, "runs", "name"), HasReason(reason::kNameInvalid)) << name;
  }
  for (const char* name :
       {"sessions//runs/r1", "sessions/s1/runs/", "sessions/s1/runs/R", "sessions/S/runs/r1"}) {
    EXPECT_THAT(ParseChild(name, "runs", "name"), HasReason(reason::kIdInvalid)) << name;
  }
}

TEST(NamesTest, MakesWhatItParses) {
  EXPECT_EQ(Chip(7), "chips/7");
  EXPECT_EQ(Kernel("add"), "kernels/add");
  EXPECT_EQ(ParseSession(Session("s1"), "").value(), "s1");
  for (const char* collection : {"buffers", "graphs", "runs", "domains"}) {
    const Child child = ParseChild(ChildName("s1", collection, "x"), collection, "").value();
    EXPECT_EQ(child.session, "s1");
    EXPECT_EQ(child.id, "x");
  }
}

TEST(NamesTest, QuotesWhatClientsSend) {
  EXPECT_EQ(Quoted("a\nb"), "'a\\nb'");
  EXPECT_EQ(Quoted("é"), "'é'");
  // 79 bytes, then a character of two: the cut stands before it.
  const std::string text = std::string(79, 'x') + "éé";
  EXPECT_EQ(Quoted(text), "'" + std::string(79, 'x') + "…' (83 bytes)");
}

}  // namespace
}  // namespace pto::daemon::names
