#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tests/harness/api.h"

namespace pto::testing {

// One open WatchEvents call. Destroying it breaks the call off. For one thread.
class Watch {
 public:
  Watch(Api& api, const v1::WatchEventsRequest& request, absl::Duration timeout = kCallTimeout);
  ~Watch();

  // The next batch, which may be empty; false when the stream has ended.
  bool Next(v1::EventBatch* batch) { return reader_->Read(batch); }
  // How it ended. Once, after Next returned false.
  absl::Status End();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::EventBatch>> reader_;
  bool ended_ = false;
};

// Takes the events of one session and checks that every number comes once and in order.
class EventLedger {
 public:
  // `filtered`: the stream leaves numbers out on request.
  explicit EventLedger(bool filtered = false) : filtered_(filtered) {}

  // Takes those events of the batch whose numbers are not greater than `last`; a block of tasks
  // may be taken in part.
  void Take(const v1::EventBatch& batch, uint64_t last = UINT64_MAX);

  // The number of the last event taken: where to resume.
  uint64_t through() const { return through_; }
  uint64_t dropped() const { return dropped_; }
  uint64_t tasks() const { return tasks_.size(); }
  bool session_ended() const { return session_ended_; }
  // States of a run in the order in which they came.
  const std::vector<v1::Run::State>& states(const std::string& run) { return states_[run]; }
  // How many tasks of a run have been reported.
  uint64_t tasks_of(const std::string& run) { return tasks_of_[run]; }
  bool ended(const std::string& run) {
    return !states_[run].empty() && states_[run].back() >= v1::Run::SUCCEEDED;
  }

 private:
  void TakeTasks(const v1::Event& event, uint64_t count);

  const bool filtered_;
  uint64_t through_ = 0;
  uint64_t dropped_ = 0;
  bool session_ended_ = false;
  std::map<std::pair<std::string, uint32_t>, int> tasks_;
  std::map<std::string, uint64_t> tasks_of_;
  std::map<std::string, std::vector<v1::Run::State>> states_;
};

}  // namespace pto::testing
