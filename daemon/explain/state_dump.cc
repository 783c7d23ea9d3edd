#include "daemon/explain/state_dump.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/kernels/session_kernels.h"
#include "daemon/names/names.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace pto::daemon {
namespace {

constexpr absl::string_view kLog = "log";

// A JSON object on one line.
std::string ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = false;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : "{}";
}

// An object with one member, which names the subject of the line.
class DumpLine {
 public:
  explicit DumpLine(const std::string& subject)
      : fields_((*object_.mutable_fields())[subject].mutable_struct_value()->mutable_fields()) {}
  DumpLine& With(const std::string& key, const std::string& text) {
    (*fields_)[key].set_string_value(text);
    return *this;
  }
  DumpLine& With(const std::string& key, uint64_t number) {
    (*fields_)[key].set_number_value(static_cast<double>(number));
    return *this;
  }
  std::string ToText() const { return ToJson(object_); }

 private:
  google::protobuf::Struct object_;
  google::protobuf::Map<std::string, google::protobuf::Value>* const fields_;
};

void LogLines(const std::vector<std::string>& lines) {
  for (size_t i = 0; i < std::min(lines.size(), StateDump::kMaxLogLines); ++i) {
    PTO_LOG(kWarning, "state", {{"line", lines[i]}});
  }
  if (lines.size() > StateDump::kMaxLogLines) {
    PTO_LOG(kWarning, "state: more lines are omitted; set --state-dir to keep all",
            {{"lines", lines.size() - StateDump::kMaxLogLines}});
  }
}

}  // namespace

std::vector<std::string> StateDump::Lines(const std::string& why, const std::string& boot_id,
                                          absl::Time time, const engine::EngineNow& now,
                                          const std::vector<v1::ExplainRunResponse>& runs) {
  std::vector<std::string> lines;
  lines.push_back(DumpLine("dump")
                      .With("why", why)
                      .With("time", absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone()))
                      .With("bootId", boot_id)
                      .With("executors", now.executors)
                      .With("sleepingExecutors", now.sleeping_executors)
                      .With("spareExecutors", now.spare_executors)
                      .With("heldExecutors", now.held_executors)
                      .With("runs", runs.size())
                      .ToText());
  for (size_t i = 0; i < now.chips.size(); ++i) {
    const engine::ChipNow& chip = now.chips[i];
    DumpLine line("chip");
    line.With("name", names::Chip(static_cast<uint32_t>(i)))
        .With("clusters", chip.clusters)
        .With("takenCores", chip.cores.size())
        .With("readyTasks", chip.ready_tasks)
        .With("endedTasks", chip.ended_tasks)
        .With("memoryUsedBytes", chip.memory_used_bytes)
        .With("memoryTotalBytes", chip.memory_total_bytes);
    if (chip.gang_run != nullptr) {
      line.With("gangTask", chip.gang_task)
          .With("gangHas", chip.gang_have)
          .With("gangNeeds", chip.gang_want);
    }
    lines.push_back(line.ToText());
  }
  for (const v1::ExplainRunResponse& run : runs) {
    lines.push_back(absl::StrCat("{\"run\":", ToJson(run), "}"));
  }
  return lines;
}

std::string StateDump::SessionLine(Session& session, const Clock& clock) {
  const Session::Usage usage = session.usage();
  const int64_t left_ns = session.expire_ns() - clock.NowNanos();
  return DumpLine("session")
      .With("name", session.name())
      .With("ended", session.ended() ? 1 : 0)
      .With("expiresInMs", static_cast<uint64_t>(std::max<int64_t>(left_ns / 1'000'000, 0)))
      .With("held", session.held() ? 1 : 0)
      .With("buffers", usage.buffers)
      .With("deviceBytes", usage.device_bytes)
      .With("graphs", usage.graphs)
      .With("windows", usage.windows)
      .With("activeRuns", usage.active_runs)
      .With("activeTasks", usage.tasks)
      .With("openTasks", usage.open_tasks)
      .With("finishedRuns", usage.finished_runs)
      .With("kernels", session.kernels().size())
      .ToText();
}

std::string StateDump::HostLine(const std::string& session, const host::HostStatus& host) {
  return DumpLine("host")
      .With("session", session)
      .With("state", host.state == host::HostStatus::State::kReady    ? "READY"
                     : host.state == host::HostStatus::State::kPaused ? "PAUSED"
                     : host.state == host::HostStatus::State::kEnded  ? "ENDED"
                                                                      : "STARTING")
      .With("pid", static_cast<uint64_t>(host.pid))
      .With("posts", host.posts)
      .With("waitingPosts", host.waiting)
      .With("mappedBytes", host.region_bytes)
      .With("restarts", host.deaths)
      .With("lastDeath", host.last_death)
      .ToText();
}

std::string StateDump::StallLine(const v1::ExplainRunResponse& stalled) {
  return absl::StrCat("{\"stalledRun\":", ToJson(stalled), "}");
}

std::string StateDump::FailureLine(const v1::Run& run) {
  return absl::StrCat("{\"failedRun\":", ToJson(run), "}");
}

std::string StateDump::LeaseLine(uint32_t chip, const std::string& holder) {
  return DumpLine("lease")
      .With("chip", names::Chip(chip))
      .With("session", names::Session(holder))
      .ToText();
}

absl::StatusOr<std::string> StateDump::Write(const std::vector<std::string>& lines,
                                             absl::Time time) {
  if (!to_files()) {
    LogLines(lines);
    return std::string(kLog);
  }
  const std::string directory = state_dir_ + "/dumps";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const std::string path =
      absl::StrFormat("%s/%s-%06d.jsonl", directory,
                      absl::FormatTime("%Y%m%dT%H%M%S", time, absl::UTCTimeZone()), next_++);
  std::ofstream file(path);
  for (const std::string& line : lines) file << line << '\n';
  file.close();
  if (!file) {
    return Error(reason::kPathUnusable, absl::StrCat("cannot write ", path)).With("path", path);
  }
  RemoveOld(directory);
  return path;
}

void StateDump::Append(const std::string& place, const std::vector<std::string>& lines) const {
  if (place == kLog) {
    LogLines(lines);
    return;
  }
  std::ofstream file(place, std::ios::app);
  for (const std::string& line : lines) file << line << '\n';
}

void StateDump::RemoveOld(const std::string& directory) const {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  }
  // The names sort by time.
  std::sort(files.begin(), files.end());
  for (size_t i = 0; i + kMaxFiles < files.size(); ++i) std::filesystem::remove(files[i], error);
}

}  // namespace pto::daemon
