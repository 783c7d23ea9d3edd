// A full event log of a session, with readers that fall behind, leave and resume anywhere: each
// gets every event once and in order, or is told which events were dropped.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/events/event_log.h"
#include "runtime/base/log.h"
#include "tests/fuzz/byte_reader.h"

namespace pto::fuzz {
namespace {

constexpr uint64_t kAll = 1'000'000;
constexpr size_t kMaxEvents = 3'000;
constexpr size_t kReaders = 3;

// What was appended to the log under one number.
struct Told {
  enum Kind : uint8_t { kRun, kTask, kErrors, kStall, kEnd };
  Kind kind = kRun;
  uint8_t outcome = 0;  // of a task
  uint32_t what = 0;    // a run's state, a task's number
  const daemon::RunRecord* run = nullptr;
  bool gone = false;  // some reader was told that it was dropped
};

class Watcher final : public daemon::EventWatcher {
 public:
  void OnEvents(bool urgent) override {
    ++calls;
    last_urgent = urgent;
  }
  uint64_t through() const override { return through_sequence; }

  uint64_t calls = 0;
  bool last_urgent = false;
  uint64_t through_sequence = 0;
};

// The numbers of a packed column.
std::vector<uint64_t> Unpack(absl::string_view column) {
  std::vector<uint64_t> numbers;
  uint64_t number = 0;
  int shift = 0;
  for (const char c : column) {
    number |= uint64_t{static_cast<uint8_t>(c) & 0x7fu} << shift;
    shift += 7;
    if ((static_cast<uint8_t>(c) & 0x80) != 0) continue;
    numbers.push_back(number);
    number = 0;
    shift = 0;
  }
  PTO_CHECK(shift == 0, "a column ends with a number");
  return numbers;
}

class Scenario {
 public:
  explicit Scenario(ByteReader input)
      : input_(input), max_bytes_(1 + input_.Number<uint16_t>()), log_(max_bytes_) {
    for (int i = 0; i < 3; ++i) {
      auto run = std::make_shared<daemon::RunRecord>();
      run->id = absl::StrCat("r", i);
      if (i > 0) run->labels["a"] = std::string(static_cast<size_t>(100 * i), 'b');
      if (i == 2) run->errors.emplace_back(absl::StatusCode::kAborted, "it went wrong");
      runs_.push_back(std::move(run));
    }
    log_.AddWatcher(watcher_);
  }

  void Run() {
    const uint64_t dropped_before = daemon::EventLog::dropped_events();
    while (!input_.empty() && told_.size() < kMaxEvents) Step();
    for (uint64_t& cursor : cursors_) ReadOn(cursor, 1 + input_.Byte());
    uint64_t from_start = 0;
    ReadOn(from_start, kAll);
    const auto gone = static_cast<uint64_t>(
        std::count_if(told_.begin(), told_.end(), [](const Told& told) { return told.gone; }));
    PTO_CHECK(daemon::EventLog::dropped_events() - dropped_before == gone,
              "what was dropped is counted");
  }

 private:
  void Step() {
    const uint8_t choice = input_.Byte();
    switch (choice % 8) {
      case 0:
        return AppendRun();
      case 1:
        return AppendTasks(1 + input_.Byte() % 32);
      case 2:
        // Sometimes more than a group has room for.
        return AppendTasks(1 + 6 * input_.Byte());
      case 3:
        return AppendSeveral();
      case 4:
        // Rarely, although a log may continue after it.
        if (input_.Byte() == 0) AppendEnd();
        return;
      case 5: {
        // Like a client that lost what it had read, or is new.
        uint64_t& cursor = cursors_[choice / 8 % kReaders];
        cursor -= std::min<uint64_t>(cursor, input_.Number<uint16_t>());
        return;
      }
      default:
        ReadSome(cursors_[choice / 8 % kReaders], 1 + input_.Byte());
        return;
    }
  }

  const std::shared_ptr<daemon::RunRecord>& AnyRun() { return runs_[input_.Byte() % runs_.size()]; }

  // Called after an append, which returned `last`.
  void Added(uint64_t last, uint64_t calls_before, bool urgent) {
    PTO_CHECK(last == told_.size() && log_.last_sequence() == last, "numbers without gaps");
    PTO_CHECK(watcher_->calls == calls_before + 1, "a watcher is told once");
    PTO_CHECK(watcher_->last_urgent == urgent, "states are urgent, tasks are not");
    CheckSize();
  }

  void AppendRun() {
    const uint64_t calls = watcher_->calls;
    const std::shared_ptr<daemon::RunRecord>& run = AnyRun();
    const auto state = static_cast<engine::RunState>(1 + input_.Byte() % 6);
    told_.push_back({Told::kRun, 0, static_cast<uint32_t>(state), run.get(), false});
    Added(log_.AppendRun(run, state, absl::UnixEpoch()), calls, true);
  }

  std::vector<engine::RecordBlock> MakeRecords(uint32_t count, const daemon::RunRecord* run) {
    std::vector<engine::TaskRecord> records(count);
    const uint32_t step = input_.Number<uint32_t>() % 100'000;
    const uint8_t shape = input_.Byte();
    for (engine::TaskRecord& record : records) {
      record = {};
      record.task = next_task_ += step;
      record.outcome = shape % 4 == 0 && record.task % 3 == 0 ? engine::TaskOutcome::kFailed
                                                              : engine::TaskOutcome::kDone;
      record.chip = shape % 5 == 0 ? 300 : shape % 5;
      record.core = shape;
      record.start_ns = record.task;
      record.end_ns = int64_t{record.task} * (shape + 1);
      record.deferred_ns = shape % 3 == 0 ? record.task : 0;
      told_.push_back({Told::kTask, static_cast<uint8_t>(record.outcome), record.task, run, false});
    }
    engine::RecordBlocks blocks;
    blocks.Add(records);
    return blocks.Take();
  }

  void AppendTasks(uint32_t count) {
    const uint64_t calls = watcher_->calls;
    const std::shared_ptr<daemon::RunRecord>& run = AnyRun();
    const std::vector<engine::RecordBlock> blocks = MakeRecords(count, run.get());
    Added(log_.AppendTasks(run, blocks), calls, false);
  }

  // All events of a short run at once.
  void AppendSeveral() {
    const uint64_t calls = watcher_->calls;
    const std::shared_ptr<daemon::RunRecord>& run = AnyRun();
    std::vector<daemon::LogEntry> entries;
    const auto add = [&](Told::Kind kind, uint32_t what, auto event) {
      entries.emplace_back().event = std::move(event);
      told_.push_back({kind, 0, what, run.get(), false});
    };
    const auto state = [&](engine::RunState in) {
      add(Told::kRun, static_cast<uint32_t>(in), daemon::RunEvent{run, in});
    };
    state(engine::RunState::kQueued);
    const std::vector<engine::RecordBlock> blocks = MakeRecords(input_.Byte() % 4, run.get());
    daemon::EventLog::AddTasks(run, blocks, &entries);
    const uint8_t errors = input_.Byte() % 3;
    for (uint8_t i = 0; i < errors; ++i) {
      add(Told::kErrors, i,
          daemon::RunErrors{
              run, std::make_shared<const std::vector<absl::Status>>(i, absl::InternalError("e"))});
    }
    const uint8_t stalls = input_.Byte() % 3;
    for (uint8_t i = 0; i < stalls; ++i) {
      add(Told::kStall, i,
          daemon::RunStall{run, i, absl::Seconds(i), std::string(input_.Byte(), 's')});
    }
    state(engine::RunState::kSucceeded);
    Added(log_.Append(absl::MakeSpan(entries)), calls, true);
  }

  void AppendEnd() {
    const uint64_t calls = watcher_->calls;
    told_.push_back({Told::kEnd, 0, 0, nullptr, false});
    Added(log_.AppendSessionEnded("enough", absl::UnixEpoch()), calls, true);
    PTO_CHECK(log_.ended(), "the log has ended");
  }

  // The size is bounded, except for the last entry.
  void CheckSize() const {
    if (log_.bytes() <= max_bytes_) return;
    size_t held = 0;
    for (const daemon::LogEntry& entry : log_.Read(0, kAll)) {
      held += std::holds_alternative<daemon::Dropped>(entry.event) ? 0 : 1;
    }
    PTO_CHECK(held <= 1, "a log that is too large has one entry");
  }

  void ReadOn(uint64_t& cursor, uint64_t max_events) {
    while (cursor < log_.last_sequence()) ReadSome(cursor, max_events);
    PTO_CHECK(log_.Read(cursor, max_events).empty(), "nothing comes after the end");
    PTO_CHECK(log_.Read(cursor + 1, max_events).empty(), "nothing comes from the future");
  }

  void ReadSome(uint64_t& cursor, uint64_t max_events) {
    const std::vector<daemon::LogEntry> entries = log_.Read(cursor, max_events);
    PTO_CHECK(entries.empty() == (cursor >= log_.last_sequence()), "there is more, or nothing");
    uint64_t events = 0;
    for (const daemon::LogEntry& entry : entries) {
      PTO_CHECK(events < max_events || &entry == &entries.front(), "not many more than asked for");
      PTO_CHECK(entry.sequence == cursor + 1 && entry.count > 0, "the next event, once");
      PTO_CHECK(entry.last_sequence() <= told_.size(), "an event that was told");
      if (const auto* gap = std::get_if<daemon::Dropped>(&entry.event)) {
        PTO_CHECK(gap->last_sequence == entry.last_sequence(), "a gap says how far it goes");
        for (uint64_t i = entry.sequence; i <= entry.last_sequence(); ++i) told_[i - 1].gone = true;
      } else {
        CheckEntry(entry);
        events += entry.count;
      }
      cursor = entry.last_sequence();
    }
    watcher_->through_sequence = *std::min_element(cursors_, cursors_ + kReaders);
    PTO_CHECK(log_.watchers().count == 1, "one watches");
    PTO_CHECK(log_.watchers().largest_lag == log_.last_sequence() - watcher_->through_sequence,
              "so much it has not taken");
  }

  void CheckEntry(const daemon::LogEntry& entry) const {
    const Told* const first = &told_[entry.sequence - 1];
    for (uint64_t i = 0; i < entry.count; ++i) {
      PTO_CHECK(!first[i].gone, "what is gone does not come back");
    }
    if (const auto* block = std::get_if<daemon::TaskBlock>(&entry.event)) {
      return CheckTasks(entry, *block, first);
    }
    PTO_CHECK(entry.count == 1 && entry.skip == 0, "one event");
    if (const auto* run = std::get_if<daemon::RunEvent>(&entry.event)) {
      PTO_CHECK(first->kind == Told::kRun && run->run.get() == first->run &&
                    static_cast<uint32_t>(run->state) == first->what,
                "the run's event");
    } else if (const auto* errors = std::get_if<daemon::RunErrors>(&entry.event)) {
      PTO_CHECK(first->kind == Told::kErrors && errors->run.get() == first->run &&
                    errors->errors->size() == first->what,
                "the run's errors");
    } else if (const auto* stall = std::get_if<daemon::RunStall>(&entry.event)) {
      PTO_CHECK(first->kind == Told::kStall && stall->run.get() == first->run &&
                    stall->verdict == static_cast<int>(first->what),
                "the run's stall");
    } else {
      PTO_CHECK(first->kind == Told::kEnd, "the session's end");
    }
  }

  static void CheckTasks(const daemon::LogEntry& entry, const daemon::TaskBlock& block,
                         const Told* first) {
    const std::vector<uint64_t> tasks =
        Unpack(block.tasks.Get(daemon::PackedTasks::kTask, entry.skip));
    const std::vector<uint64_t> outcomes =
        Unpack(block.tasks.Get(daemon::PackedTasks::kOutcome, entry.skip));
    PTO_CHECK(tasks.size() == entry.count, "as many tasks as events");
    PTO_CHECK(outcomes.empty() || outcomes.size() == entry.count, "an outcome for each, or none");
    for (uint64_t i = 0; i < entry.count; ++i) {
      const uint64_t outcome =
          outcomes.empty() ? static_cast<uint64_t>(engine::TaskOutcome::kDone) : outcomes[i];
      PTO_CHECK(first[i].kind == Told::kTask && block.run.get() == first[i].run, "the run's tasks");
      PTO_CHECK(tasks[i] == first[i].what && outcome == first[i].outcome, "the task's end");
    }
    for (const daemon::PackedTasks::Column column :
         {daemon::PackedTasks::kChip, daemon::PackedTasks::kCore, daemon::PackedTasks::kStartNs,
          daemon::PackedTasks::kDurationNs}) {
      PTO_CHECK(Unpack(block.tasks.Get(column, entry.skip)).size() == entry.count,
                "a number for each task");
    }
    const size_t deferred =
        Unpack(block.tasks.Get(daemon::PackedTasks::kDeferredNs, entry.skip)).size();
    PTO_CHECK(deferred == 0 || deferred == entry.count, "a number for each task, or none");
  }

  ByteReader input_;
  const uint64_t max_bytes_;
  daemon::EventLog log_;
  std::vector<std::shared_ptr<daemon::RunRecord>> runs_;
  const std::shared_ptr<Watcher> watcher_ = std::make_shared<Watcher>();
  std::vector<Told> told_;
  uint32_t next_task_ = 0;
  uint64_t cursors_[kReaders] = {};
};

}  // namespace
}  // namespace pto::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pto::fuzz::Scenario(pto::fuzz::ByteReader(data, size)).Run();
  return 0;
}
