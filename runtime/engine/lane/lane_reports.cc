#include "runtime/engine/lane/lane_reports.h"

namespace pto::engine {

void LaneReports::Complete(absl::Span<LaneResult> results) {
  PostTable::Ended ended;
  table_.Answer(results, &ended);
  Pass(ended);
}

bool LaneReports::Call(const LaneCall& call) {
  PostSlot* const slot = table_.BeginCall(call.id);
  if (slot == nullptr) return false;
  // The post stays until the end of the call, and with it the run and the engine.
  calls_.Handle(*slot, call);
  return true;
}

void LaneReports::Pass(const PostTable::Ended& ended) {
  // First: they are not among the posts yet, so the engine is still there.
  for (Waiter* const waiter : ended.waits) calls_.EndWait(*waiter);
  Push(ended.posts);
}

void LaneReports::ReportDeath(absl::string_view what, PostId running) {
  MutexLock lock(mutex_);
  if (queue_ == nullptr || died_) return;
  death_.port = port_.lock();
  // Without a port nothing can be posted, so nothing is lost.
  if (death_.port == nullptr) return;
  died_ = true;
  death_.what = std::string(what);
  death_.running = running;
  NewsList news;
  news.Add(death_);
  queue_->Push(news);
}

void LaneReports::Push(const NewsList& news) {
  if (news.count == 0) return;
  MutexLock lock(mutex_);
  if (queue_ != nullptr) queue_->Push(news);
}

}  // namespace pto::engine
