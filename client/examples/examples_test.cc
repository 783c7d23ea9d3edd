// Every job file here can be run and has effective checks: they pass for the values that the client
// computes itself, and fail if one element differs.

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "client/examples/random_dag.h"
#include "client/job/check.h"
#include "client/job/job_file.h"
#include "client/job/prepared_job.h"
#include "client/job/read_file.h"
#include "client/job/replay.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::examples {
namespace {

class JobFileExample : public ::testing::TestWithParam<const char*> {};

TEST_P(JobFileExample, ChecksItsOwnResult) {
  absl::StatusOr<job::JobFile> file =
      job::LoadJobFile(std::string("client/examples/") + GetParam());
  ASSERT_THAT(file, testing::IsOk());
  absl::StatusOr<job::PreparedJob> job = job::PrepareJob(*std::move(file));
  ASSERT_THAT(job, testing::IsOk());
  ASSERT_GT(job->file.job.checks_size(), 0);
  absl::StatusOr<std::vector<std::string>> memory = job::Replay(*job);
  ASSERT_THAT(memory, testing::IsOk());
  absl::StatusOr<std::vector<job::CheckResult>> results = job::RunChecks(*job, *memory);
  ASSERT_THAT(results, testing::IsOk());
  for (const job::CheckResult& result : *results) {
    EXPECT_TRUE(result.ok()) << result.tensor << ": " << Describe(result);
    EXPECT_TRUE(std::isfinite(result.max_error));
  }
  for (const job::v1::Check& check : job->file.job.checks()) {
    const job::NamedView& named = job->views.at(check.tensor());
    std::vector<std::string> wrong = *memory;
    const int64_t last = named.view.size() - 1;
    named.view.Set(&wrong[named.buffer], last, named.view.Get(wrong[named.buffer], last) + 1000);
    absl::StatusOr<std::vector<job::CheckResult>> found = job::RunChecks(*job, wrong);
    ASSERT_THAT(found, testing::IsOk());
    bool noticed = false;
    for (const job::CheckResult& result : *found) noticed |= !result.ok();
    EXPECT_TRUE(noticed) << check.tensor();
  }
}

INSTANTIATE_TEST_SUITE_P(All, JobFileExample,
                         ::testing::Values("vector_add.json", "ffn.txtpb", "random_dag.json",
                                           "signals.txtpb", "domain_notify.txtpb"));

TEST(RandomDagTest, JobFileIsWhatTheProgramWrites) {
  const std::string written = job::ReadFile("client/examples/random_dag.json").value();
  EXPECT_TRUE(written == RandomDagJob(MakeRandomDag(1, 1000, 4), 4))
      << "write it again: random_dag --job > client/examples/random_dag.json";
  EXPECT_LT(written.size(), 300000u);
}

TEST(RandomDagTest, NamesOnlyEdgesWithoutData) {
  const std::vector<RandomStep> steps = MakeRandomDag(7, 500, 3);
  ASSERT_EQ(steps.size(), 500u);
  int across = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (int input : steps[i].inputs) {
      if (input < 0) continue;
      EXPECT_LT(input, static_cast<int>(i));
      EXPECT_EQ(steps[input].chip, steps[i].chip);
      EXPECT_EQ(std::find(steps[i].after.begin(), steps[i].after.end(), input),
                steps[i].after.end());
    }
    for (int before : steps[i].after) {
      EXPECT_LT(before, static_cast<int>(i));
      across += steps[before].chip != steps[i].chip ? 1 : 0;
    }
  }
  EXPECT_GT(across, 10);
}

}  // namespace
}  // namespace pto::examples
