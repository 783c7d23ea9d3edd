#include "runtime/engine/lane/lane_reports.h"

namespace pto::engine {

void LaneReports::Complete(absl::Span<LaneResult> results) {
  MutexLock lock(mutex_);
  NewsList ended;
  table_.Answer(results, &ended);
  if (queue_ != nullptr) queue_->Push(ended);
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
  MutexLock lock(mutex_);
  if (queue_ != nullptr) queue_->Push(news);
}

}  // namespace pto::engine
