#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/turn/run_turn.h"

namespace pto::daemon {

// The place of one segment of an open run among the runs of its session. The segments of one run do
// not wait for each other: their tasks do, where they have to. Only segments that use signals of
// one domain also take turns among themselves, because the signals begin at zero for each.
class SegmentTurn final : public RunTurn {
 public:
  // `run` identifies the run and is only compared. `number` is the number of the run, `first_task`
  // that of the segment's first task. Both functions are called at most once.
  SegmentTurn(const void* run, uint64_t number, uint32_t first_task,
              std::function<void(engine::Completions&)> on_turn,
              std::function<void(RunTurn&)> on_late)
      : RunTurn(run), on_turn_(std::move(on_turn)), on_late_(std::move(on_late)) {
    set_shown_number(number);
    set_shown_part(first_task);
  }

 protected:
  void OnTurn(engine::Completions& completions) override { on_turn_(completions); }
  void OnPassedLate() override { on_late_(*this); }

 private:
  const std::function<void(engine::Completions&)> on_turn_;
  const std::function<void(RunTurn&)> on_late_;
};

}  // namespace pto::daemon
