#include "client/ptoctl/top_view.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/ptoctl/table.h"
#include "client/ptoctl/units.h"

namespace pto::ptoctl {
namespace {

absl::Time TimeOf(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

std::string Age(const TopSample& sample, const google::protobuf::Timestamp& since) {
  return DurationText(std::max(sample.time - TimeOf(since), absl::ZeroDuration()));
}

// `[####      ]  40 %`
std::string Bar(double part) {
  constexpr int kWidth = 10;
  part = std::clamp(part, 0.0, 1.0);
  const int full = static_cast<int>(part * kWidth + 0.5);
  return absl::StrFormat("[%s%s] %3.0f %%", std::string(static_cast<size_t>(full), '#'),
                         std::string(static_cast<size_t>(kWidth - full), ' '), part * 100);
}

double At(const std::vector<double>& values, size_t i) { return i < values.size() ? values[i] : 0; }

std::string More(size_t all, size_t shown) {
  return all > shown ? absl::StrCat("... and ", all - shown, " more\n") : "";
}

}  // namespace

void BusyMeter::Add(const std::vector<v1::Chip>& chips) {
  sums_.resize(std::max(sums_.size(), chips.size()));
  for (size_t i = 0; i < chips.size(); ++i) {
    const uint32_t cores = chips[i].aic_cores() + chips[i].aiv_cores();
    if (cores > 0) sums_[i] += static_cast<double>(chips[i].busy_cores()) / cores;
  }
  ++samples_;
}

std::vector<double> BusyMeter::Take() {
  std::vector<double> means = std::exchange(sums_, {});
  for (double& mean : means) mean /= static_cast<double>(std::max<size_t>(samples_, 1));
  samples_ = 0;
  return means;
}

std::string FormatTop(const TopSample& sample, size_t max_rows) {
  std::string out =
      absl::StrCat("ptod ", sample.node.version(), ", up ", Age(sample, sample.node.start_time()),
                   ", ", sample.node.session_count(), " sessions, ", sample.node.active_run_count(),
                   " active runs", sample.node.draining() ? ", DRAINING" : "", "\n\n");

  Table chips({"CHIP", "STATE", "BUSY", "CORES", "READY", "TASKS/S", "MEMORY"});
  for (size_t i = 0; i < sample.chips.size(); ++i) {
    const v1::Chip& chip = sample.chips[i];
    chips.Add({chip.name(), v1::Chip::State_Name(chip.state()), Bar(At(sample.busy, i)),
               absl::StrCat(chip.aic_cores() + chip.aiv_cores()), absl::StrCat(chip.ready_tasks()),
               absl::StrFormat("%.0f", At(sample.tasks_per_second, i)),
               absl::StrCat(BytesText(chip.memory_used_bytes()), " / ",
                            BytesText(chip.memory_total_bytes()))});
  }
  absl::StrAppend(&out, chips.Format(), "\n");

  std::vector<const v1::Session*> order;
  for (const v1::Session& session : sample.sessions) order.push_back(&session);
  // Busiest sessions first.
  std::sort(order.begin(), order.end(), [](const v1::Session* a, const v1::Session* b) {
    const auto use_a = std::make_pair(a->usage().active_runs(), a->usage().device_bytes());
    const auto use_b = std::make_pair(b->usage().active_runs(), b->usage().device_bytes());
    return use_a != use_b ? use_a > use_b : a->name() < b->name();
  });
  Table sessions({"SESSION", "AGE", "WEIGHT", "RUNS", "ENDED", "BUFFERS", "MEMORY", "EVENT LOG"});
  const size_t shown_sessions = std::min(order.size(), max_rows);
  for (size_t i = 0; i < shown_sessions; ++i) {
    const v1::Session& session = *order[i];
    const v1::Session::Usage& usage = session.usage();
    sessions.Add({session.name(), Age(sample, session.create_time()),
                  absl::StrCat(session.weight()), absl::StrCat(usage.active_runs()),
                  absl::StrCat(usage.finished_runs()), absl::StrCat(usage.buffers()),
                  BytesText(usage.device_bytes()), BytesText(usage.event_log_bytes())});
  }
  absl::StrAppend(&out, sessions.Format(), More(order.size(), shown_sessions), "\n");

  Table runs({"RUN", "STATE", "TASKS", "AGE"});
  const size_t shown_runs = std::min(sample.runs.size(), max_rows);
  for (size_t i = 0; i < shown_runs; ++i) {
    const v1::Run& run = sample.runs[i];
    const uint64_t ended = run.tasks_done() + run.tasks_failed() + run.tasks_skipped();
    runs.Add({run.name(), v1::Run::State_Name(run.state()),
              absl::StrCat(ended, "/", run.tasks_total(), run.open() ? "+" : ""),
              Age(sample, run.create_time())});
  }
  absl::StrAppend(&out, runs.Format(), More(sample.runs.size(), shown_runs));
  return out;
}

}  // namespace pto::ptoctl
