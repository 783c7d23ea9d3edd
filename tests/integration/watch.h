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

// One open WatchEvents call. Destroying it cancels the call. For one thread.
class Watch {
 public:
  Watch(Api& api, const v1::WatchEventsRequest& request, absl::Duration timeout = kCallTimeout);
  ~Watch();

  // The next batch, which may be empty; false at the end of the stream.
  bool Next(v1::EventBatch* batch) { return reader_->Read(batch); }
  // The final status. Call once, after Next returned false.
  absl::Status End();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::EventBatch>> reader_;
  bool ended_ = false;
};

// Takes the events of one session and checks that every number arrives once and in order.
class EventLedger {
 public:
  // `filtered`: the stream omits numbers on request.
  explicit EventLedger(bool filtered = false) : filtered_(filtered) {}

  // Takes the events of the batch with numbers up to `last`; a group of tasks may be taken
  // partially.
  void Take(const v1::EventBatch& batch, uint64_t last = UINT64_MAX);

  // The number of the last event taken: the position to resume from.
  uint64_t through() const { return through_; }
  uint64_t dropped() const { return dropped_; }
  uint64_t tasks() const { return tasks_.size(); }
  bool session_ended() const { return session_ended_; }
  // The states of a run in the order of arrival.
  const std::vector<v1::Run::State>& states(const std::string& run) { return states_[run]; }
  // The number of reported tasks of a run.
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
