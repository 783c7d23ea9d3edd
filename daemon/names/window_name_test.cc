#include "daemon/names/window_name.h"

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::names {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

TEST(WindowNameTest, ABufferAndSignals) {
  const absl::StatusOr<Window> buffer = ParseWindow("domains/d/ranks/12/buffers/in-0", "f");
  ASSERT_THAT(buffer, IsOk());
  EXPECT_EQ(buffer->session, "");
  EXPECT_EQ(buffer->domain, "d");
  EXPECT_EQ(buffer->rank, 12u);
  EXPECT_EQ(buffer->buffer, "in-0");
  EXPECT_FALSE(buffer->signals());
  EXPECT_EQ(buffer->relative(), "domains/d/ranks/12/buffers/in-0");

  const absl::StatusOr<Window> signals = ParseWindow("sessions/s/domains/d/ranks/0/signals", "f");
  ASSERT_THAT(signals, IsOk());
  EXPECT_EQ(signals->session, "s");
  EXPECT_TRUE(signals->signals());
  EXPECT_EQ(signals->relative(), "domains/d/ranks/0/signals");
}

TEST(WindowNameTest, WrongForms) {
  for (const char* name :
       {"domains/d", "domains/d/ranks/0", "domains/d/ranks/0/buffers", "domains/d/ranks/0/signals/",
        "domains/d/ranks/00/signals", "domains/d/ranks/+1/signals", "domains/d/ranks//signals",
        "domains/d/ranks/4294967296/signals", "domains/d/ranks/x/signals",
        "domains/d/rank/0/signals", "domains/d/ranks/0/buffers/b/c", "x/d/ranks/0/signals"}) {
    EXPECT_THAT(ParseWindow(name, "f"), HasReason(reason::kNameInvalid)) << name;
  }
  for (const char* name : {"domains/D/ranks/0/signals", "domains/d/ranks/0/buffers/",
                           "sessions/S/domains/d/ranks/0/signals"}) {
    EXPECT_THAT(ParseWindow(name, "f"), HasReason(reason::kIdInvalid)) << name;
  }
}

TEST(WindowNameTest, WhatAGraphCallsABuffer) {
  EXPECT_EQ(ParseOwnBuffer("b", "s", "f").value(), "b");
  EXPECT_EQ(ParseOwnBuffer("sessions/s/buffers/b", "s", "f").value(), "b");
  EXPECT_EQ(ParseOwnBuffer("domains/d/ranks/0/signals", "s", "f").value(),
            "domains/d/ranks/0/signals");
  EXPECT_EQ(ParseOwnBuffer("sessions/s/domains/d/ranks/0/buffers/b", "s", "f").value(),
            "domains/d/ranks/0/buffers/b");
  EXPECT_THAT(ParseOwnBuffer("sessions/t/buffers/b", "s", "f"),
              HasReason(reason::kSessionMismatch));
  EXPECT_THAT(ParseOwnBuffer("sessions/t/domains/d/ranks/0/signals", "s", "f"),
              HasReason(reason::kSessionMismatch));
  EXPECT_THAT(ParseOwnBuffer("x/b", "s", "f"), HasReason(reason::kNameInvalid));
  EXPECT_THAT(ParseOwnBuffer("", "s", "f"), HasReason(reason::kIdInvalid));
}

TEST(WindowNameTest, FullNames) {
  EXPECT_EQ(ParseAnyBuffer("sessions/s/buffers/b", "f")->id, "b");
  const absl::StatusOr<Child> window = ParseAnyBuffer("sessions/s/domains/d/ranks/1/signals", "f");
  ASSERT_THAT(window, IsOk());
  EXPECT_EQ(window->session, "s");
  EXPECT_EQ(window->id, "domains/d/ranks/1/signals");
  EXPECT_THAT(ParseAnyBuffer("domains/d/ranks/1/signals", "f"), HasReason(reason::kNameInvalid));
  EXPECT_EQ(AnyBufferName("s", "b"), "sessions/s/buffers/b");
  EXPECT_EQ(AnyBufferName("s", window->id), "sessions/s/domains/d/ranks/1/signals");
}

}  // namespace
}  // namespace pto::daemon::names
