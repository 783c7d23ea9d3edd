#include "client/job/domain_windows.h"

#include <string>

#include "client/job/job_file.h"
#include "client/job/prepared_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::job {
namespace {

using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<PreparedJob> Prepare(const std::string& domains, const std::string& more = "") {
  absl::StatusOr<JobFile> file = ParseJob(
      "job.txtpb", "chips: \"4-6\"\n" + domains + more + "graph { tasks { kernel: \"join\" } }\n");
  if (!file.ok()) return file.status();
  return PrepareJob(*std::move(file));
}

std::string MessageOf(const std::string& domains) {
  const absl::StatusOr<PreparedJob> job = Prepare(domains);
  return job.ok() ? "" : std::string(job.status().message());
}

TEST(DomainWindowsTest, PartsAreBuffersOfTheJob) {
  const absl::StatusOr<PreparedJob> job = Prepare(R"(
      buffers { name: "own" dtype: F32 }
      domains { name: "d" chips: [2, 0] signal_count: 3 window_bytes: 4096
                buffers { name: "x" dtype: F32 shape: [2, 2]
                          init { constant: 1 } init { constant: 2 } }
                buffers { name: "y" dtype: I32 bytes: 4 init { constant: 7 } }
                buffers { name: "s" dtype: U32 shape: 8 zero_before_run: true } }
      domains { name: "all" signal_count: 1 })");
  ASSERT_THAT(job, IsOk());
  ASSERT_EQ(job->domains.size(), 2u);
  const pto::v1::CreateDomainRequest& d = job->domains[0];
  EXPECT_EQ(d.domain_id(), "d");
  EXPECT_THAT(d.chips(), ElementsAre("chips/6", "chips/4"));
  EXPECT_EQ(d.window_bytes(), 4096u);
  EXPECT_EQ(d.signal_count(), 3u);
  ASSERT_EQ(d.buffers_size(), 3);
  EXPECT_FALSE(d.buffers(1).zero_before_run());
  EXPECT_TRUE(d.buffers(2).zero_before_run());
  EXPECT_EQ(d.buffers(0).count(), 4u);
  EXPECT_EQ(d.buffers(0).bytes(), 0u);
  EXPECT_EQ(d.buffers(1).count(), 1u);
  EXPECT_EQ(d.buffers(1).bytes(), 4u);
  EXPECT_THAT(job->domains[1].chips(), ElementsAre("chips/4", "chips/5", "chips/6"));

  ASSERT_EQ(job->buffers.size(), 1u + 2 * 4 + 3);
  EXPECT_FALSE(job->buffers[0].window.has_value());
  const PreparedBuffer& x1 = job->buffers[2];
  EXPECT_EQ(x1.name, "domains/d/ranks/1/buffers/x");
  EXPECT_EQ(x1.chip, 4u);
  EXPECT_EQ(x1.position, 0u);
  EXPECT_EQ(x1.initial.Get(3), 2);
  EXPECT_EQ(job->buffers[4].initial.Get(0), 7);
  const PreparedBuffer& signals = job->buffers[7];
  EXPECT_EQ(signals.name, "domains/d/ranks/0/signals");
  EXPECT_TRUE(signals.window->signals());
  EXPECT_TRUE(signals.zeros);
  EXPECT_EQ(signals.chip, 6u);
  EXPECT_EQ(signals.initial.size(), 3);
  EXPECT_TRUE(job->views.contains("domains/all/ranks/2/signals"));
}

TEST(DomainWindowsTest, AGraphNamesThem) {
  absl::StatusOr<JobFile> file = ParseJob("job.txtpb", R"(
      chips: "0-1"
      domains { name: "d" buffers { name: "x" dtype: F32 shape: 4 } }
      graph { tensors { name: "t" buffer: "domains/d/ranks/1/buffers/x" shape: 2 offset: 2 }
              tasks { kernel: "fill" args: "t" scalars { f64: 3 } }
              tasks { kernel: "fill" args: "domains/d/ranks/0/buffers/x" scalars { f64: 3 } } }
      checks { tensor: "domains/d/ranks/0/buffers/x" values { constant: 3 } })");
  ASSERT_THAT(file, IsOk());
  const absl::StatusOr<PreparedJob> job = PrepareJob(*std::move(file));
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->graph.tasks(0).chip(), "chips/1");
  EXPECT_EQ(job->graph.tasks(1).chip(), "chips/0");
  ASSERT_EQ(job->graph.tensors_size(), 2);
  EXPECT_EQ(job->graph.tensors(0).dtype(), pto::v1::F32);
  EXPECT_EQ(job->graph.tensors(1).buffer(), "domains/d/ranks/0/buffers/x");
}

TEST(DomainWindowsTest, MistakesAreFoundInTheFile) {
  EXPECT_THAT(MessageOf("domains { name: \"D\" signal_count: 1 }"),
              HasSubstr("job.txtpb:2:11: expected 1 to 63 characters from a-z"));
  EXPECT_THAT(MessageOf("domains { name: \"d\" }"), HasSubstr("expected a buffer or a signal"));
  EXPECT_THAT(MessageOf("domains { name: \"d\" signal_count: 1 chips: 3 }"),
              HasSubstr("expected a position from 0 to 2, got 3"));
  EXPECT_THAT(MessageOf("domains { name: \"d\" signal_count: 1 chips: [1, 1] }"),
              HasSubstr("position 1 is already a rank"));
  EXPECT_THAT(MessageOf("domains { name: \"d\" signal_count: 1 }\n"
                        "domains { name: \"d\" signal_count: 1 }"),
              HasSubstr("duplicate domain 'd'"));
  EXPECT_THAT(MessageOf("domains { name: \"d\" buffers { name: \"x\" } }"),
              HasSubstr("expected an element type"));
  EXPECT_THAT(MessageOf("domains { name: \"d\" buffers { name: \"x\" dtype: F32 } "
                        "buffers { name: \"x\" dtype: F32 } }"),
              HasSubstr("duplicate buffer 'x'"));
  EXPECT_THAT(MessageOf("domains { name: \"d\" buffers { name: \"x\" dtype: F32 shape: -1 } }"),
              HasSubstr("negative dimension"));
  EXPECT_THAT(MessageOf("domains { name: \"d\" buffers { name: \"x\" dtype: F32 "
                        "zero_before_run: true init { constant: 1 } } }"),
              HasSubstr("it is set to zero before each run"));
  for (const char* bytes : {"12", "17", "20"}) {
    EXPECT_THAT(MessageOf(std::string("domains { name: \"d\" buffers { name: \"x\" dtype: F32 "
                                      "shape: 4 bytes: ") +
                          bytes + " } }"),
                HasSubstr(std::string("expected the size of 4 elements of 4 bytes, got ") + bytes));
  }
  EXPECT_THAT(MessageOf("domains { name: \"d\" buffers { name: \"x\" dtype: F32 "
                        "init { zeros: true } init { zeros: true } } }"),
              HasSubstr("one per rank (3), got 2"));
}

}  // namespace
}  // namespace pto::job
