#include "tests/integration/watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace pto::testing {

Watch::Watch(Api& api, const v1::WatchEventsRequest& request, absl::Duration timeout) {
  context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  reader_ = api.event->WatchEvents(&context_, request);
}

Watch::~Watch() {
  if (ended_) return;
  context_.TryCancel();
  v1::EventBatch batch;
  while (reader_->Read(&batch)) {
  }
  reader_->Finish();
}

absl::Status Watch::End() {
  ended_ = true;
  return FromGrpcStatus(reader_->Finish());
}

void EventLedger::Take(const v1::EventBatch& batch, uint64_t last) {
  EXPECT_FALSE(batch.boot_id().empty());
  uint64_t before = through_;
  for (const v1::Event& event : batch.events()) {
    if (event.sequence() > last) return;
    if (filtered_) {
      ASSERT_GT(event.sequence(), before);
    } else {
      ASSERT_EQ(event.sequence(), before + 1) << event.ShortDebugString();
    }
    uint64_t count = 1;
    switch (event.event_case()) {
      case v1::Event::kRun:
        EXPECT_EQ(event.run().as_of_sequence(), event.sequence());
        states_[event.run().name()].push_back(event.run().state());
        break;
      case v1::Event::kSession:
        session_ended_ = event.session().state() == v1::Session::ENDED;
        break;
      case v1::Event::kTasks:
        count = std::min<uint64_t>(event.tasks().task_size(), last - event.sequence() + 1);
        TakeTasks(event, count);
        break;
      case v1::Event::kDropped:
        count = event.dropped().last_sequence() - event.sequence() + 1;
        EXPECT_EQ(event.dropped().count(), count);
        dropped_ += count;
        break;
      case v1::Event::kStalled:
        EXPECT_FALSE(event.stalled().run().empty());
        break;
      case v1::Event::kErrors:
        EXPECT_FALSE(event.errors().run().empty());
        EXPECT_GT(event.errors().errors_size(), 0);
        break;
      case v1::Event::EVENT_NOT_SET:
        ADD_FAILURE() << "an event without content";
    }
    before = event.sequence() + count - 1;
    through_ = before;
  }
  if (last < batch.through_sequence()) return;
  if (filtered_) {
    EXPECT_GE(batch.through_sequence(), before);
  } else {
    EXPECT_EQ(batch.through_sequence(), before);
  }
  through_ = batch.through_sequence();
}

void EventLedger::TakeTasks(const v1::Event& event, uint64_t count) {
  const v1::TaskEvents& tasks = event.tasks();
  EXPECT_GT(tasks.task_size(), 0);
  for (const int size :
       {tasks.chip_size(), tasks.core_size(), tasks.start_ns_size(), tasks.duration_ns_size()}) {
    EXPECT_EQ(size, tasks.task_size()) << "columns differ in length";
  }
  if (!tasks.outcome().empty()) {
    EXPECT_EQ(tasks.outcome_size(), tasks.task_size());
  }
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t task = tasks.task(static_cast<int>(i));
    const int times = ++tasks_[{tasks.run(), task}];
    EXPECT_EQ(times, 1) << tasks.run() << ", task " << task << " came again as number "
                        << event.sequence() + i;
    ++tasks_of_[tasks.run()];
  }
}

}  // namespace pto::testing
