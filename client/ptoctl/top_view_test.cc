#include "client/ptoctl/top_view.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace pto::ptoctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

template <typename Message>
Message Proto(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

TEST(BusyMeterTest, TakesTheMean) {
  BusyMeter meter;
  meter.Add({Proto<v1::Chip>("aic_cores: 24 aiv_cores: 48 busy_cores: 36"), v1::Chip()});
  meter.Add({Proto<v1::Chip>("aic_cores: 24 aiv_cores: 48"), v1::Chip()});
  EXPECT_THAT(meter.Take(), ElementsAre(0.25, 0));
  EXPECT_THAT(meter.Take(), IsEmpty());
}

TEST(FormatTopTest, ShowsChipsSessionsAndRuns) {
  TopSample sample;
  sample.time = absl::FromUnixSeconds(1000);
  sample.node = Proto<v1::Node>(
      "version: '1.0.0' start_time { seconds: 940 } session_count: 2 active_run_count: 3");
  sample.chips = {
      Proto<v1::Chip>("name: 'chips/0' state: ACTIVE aic_cores: 24 aiv_cores: 48 ready_tasks: 7 "
                      "memory_total_bytes: 17179869184 memory_used_bytes: 1073741824")};
  sample.busy = {0.4};
  sample.tasks_per_second = {1234.4};
  sample.sessions = {
      Proto<v1::Session>("name: 'sessions/idle' weight: 1 create_time { seconds: 990 }"),
      Proto<v1::Session>("name: 'sessions/busy' weight: 3 create_time { seconds: 970 } "
                         "usage { active_runs: 2 finished_runs: 5 }")};
  sample.runs = {Proto<v1::Run>("name: 'sessions/busy/runs/r-2' state: RUNNING tasks_total: 10 "
                                "tasks_done: 4 create_time { seconds: 999 }"),
                 Proto<v1::Run>("name: 'sessions/busy/runs/r-1' state: QUEUED open: true")};
  const std::string all = FormatTop(sample, 10);
  EXPECT_THAT(all, HasSubstr("ptod 1.0.0, up 1m 0s, 2 sessions, 3 active runs"));
  EXPECT_THAT(all, HasSubstr("[####      ]  40 %"));
  EXPECT_THAT(all, HasSubstr("1234"));
  EXPECT_THAT(all, HasSubstr("1 GiB / 16 GiB"));
  EXPECT_LT(all.find("sessions/busy"), all.find("sessions/idle"));
  EXPECT_THAT(all, HasSubstr("4/10"));
  EXPECT_THAT(all, HasSubstr("0/0+"));
  const std::string few = FormatTop(sample, 1);
  EXPECT_THAT(few, Not(HasSubstr("sessions/idle")));
  EXPECT_THAT(few, HasSubstr("... and 1 more"));
}

}  // namespace
}  // namespace pto::ptoctl
