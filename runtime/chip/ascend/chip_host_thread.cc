// The thread of a ChipHost: starts the process, hears its replies, and watches it.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/ascend/chip_host.h"
#include "runtime/chip/ascend/chip_host_internal.h"
#include "runtime/host/lifeline.h"

namespace pto::ascend {
namespace {

constexpr size_t kBatch = 256;
// For a process to give its device back.
constexpr absl::Duration kStopTime = absl::Seconds(5);
// For a process that was killed to end, before those who wait hear of it without a cause, and
// before a daemon that stops leaves it behind. A driver that hangs can keep a process for ever.
constexpr absl::Duration kDeathTime = absl::Milliseconds(200);
constexpr absl::Duration kBurialTime = absl::Seconds(5);

}  // namespace

void ChipHost::Run() {
  while (true) {
    RunProcess();
    MutexLock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause_);
    while (!stop_ && !hurry_ && std::chrono::steady_clock::now() < until) {
      changed_.WaitFor(mutex_, until - std::chrono::steady_clock::now());
    }
    hurry_ = false;
    if (stop_) break;
  }
  MutexLock lock(mutex_);
  state_ = State::kStopped;
  trouble_ = LostError(options_.name, "the daemon is stopping");
  changed_.NotifyAll();
}

absl::StatusOr<std::unique_ptr<host::HostProcess>> ChipHost::StartProcess() {
  host::HostCommand command;
  command.arguments = {options_.program, "--serve"};
  if (!options_.cann_path.empty()) {
    command.arguments.push_back("--cann-path");
    command.arguments.push_back(options_.cann_path);
  }
  command.environment = options_.environment;
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<host::HostProcess> process,
                       host::HostProcess::Start(command));
  const StartMessage start = {StartMessage::kMagic, options_.device, epoch()};
  const auto* const bytes = reinterpret_cast<const std::byte*>(&start);
  if (host::SendMessage(process->lifeline(), absl::MakeConstSpan(bytes, sizeof start),
                        slot_file_.get()) != host::LifelineResult::kDone) {
    return LostError(options_.name, "it does not take its start");
  }
  return process;
}

void ChipHost::RunProcess() {
  absl::StatusOr<std::unique_ptr<host::HostProcess>> process = StartProcess();
  output_.Clear();
  {
    MutexLock lock(mutex_);
    ready_ = false;
    lost_ = false;
    kill_.clear();
    if (!process.ok()) return MarkLost(process.status());
    process_ = *std::move(process);
    ++starts_;
    // After a death, those who ask hear of that until the next process is ready.
    if (state_ != State::kDead) state_ = State::kStarting;
    writer_.emplace(process_->control().to_host_ring());
  }
  Serve(*process_);
  std::unique_ptr<host::HostProcess> ended;
  bool expected = false;
  {
    MutexLock lock(mutex_);
    writer_.reset();
    ended = std::move(process_);
    ended->Kill();
    // Stopped, refused or killed: those who know why have said it.
    expected = stop_ || (lost_ && kill_.empty());
    MarkLost(LostError(options_.name, kill_.empty() ? "it has ended" : kill_));
  }
  std::string text = Bury(std::move(ended));
  absl::Status why;
  {
    MutexLock lock(mutex_);
    if (!expected) {
      if (!kill_.empty()) text = kill_;
      const std::string tail = output_.Tail();
      if (!tail.empty()) absl::StrAppend(&text, "; it printed: ", tail);
      trouble_ = LostError(options_.name, text);
      faults_.last = std::string(trouble_.message());
      PTO_LOG(kError, "a chip host has ended", {{"chip", options_.name}, {"why", text}});
    }
    why = trouble_;
  }
  FailAll(why);
}

std::string ChipHost::Bury(std::unique_ptr<host::HostProcess> process) {
  if (!process->AwaitEnd(kDeathTime)) {
    absl::Status why;
    {
      MutexLock lock(mutex_);
      trouble_ = LostError(options_.name, "its process was killed, and does not end");
      why = trouble_;
      PTO_LOG(kError, "a chip host does not end", {{"chip", options_.name}});
    }
    FailAll(why);
    // The device is free only when the process is gone.
    int64_t leave_ns = 0;
    while (!process->AwaitEnd(kDeathTime)) {
      MutexLock lock(mutex_);
      if (!stop_) continue;
      if (leave_ns == 0) leave_ns = SteadyNanos() + absl::ToInt64Nanoseconds(kBurialTime);
      if (SteadyNanos() < leave_ns) continue;
      // Its destructor would wait.
      (void)process.release();
      return "its process was killed, and did not end";
    }
  }
  const host::HostProcess::End end = process->Reap();
  output_.Read(process->output(), SteadyNanos());
  return end.signalled ? absl::StrCat("it was killed by signal ", end.number)
                       : absl::StrCat("it has ended with ", end.number);
}

void ChipHost::FailAll(const absl::Status& why) {
  std::map<uint64_t, Pending> pending;
  {
    MutexLock lock(mutex_);
    pending.swap(pending_);
    backlog_.clear();
  }
  Reply reply;
  reply.status = why;
  for (auto& [id, each] : pending) each.answer(reply);
}

void ChipHost::Serve(host::HostProcess& process) {
  host::RingReader reader(process.control().to_daemon_ring());
  const int64_t start_by_ns = SteadyNanos() + absl::ToInt64Nanoseconds(options_.start_timeout);
  bool ended = false;
  while (true) {
    std::string broken;
    const bool more = HandleReplies(reader, &broken);
    int64_t next_ns = 0;
    CheckTimes(&next_ns, &broken);
    int timeout_ms = 500;
    {
      MutexLock lock(mutex_);
      if (!ready_ && SteadyNanos() > start_by_ns) broken = "it did not become ready";
      if (broken.empty() && !kill_.empty()) return;
      if (stop_ && !AwaitStop()) return;
      if (!broken.empty()) {
        kill_ = broken;
        return;
      }
      Flush();
      if (!backlog_.empty()) timeout_ms = 1;
    }
    if (more) continue;
    if (ended) return;
    if (!reader.BeginOnlySleep()) continue;
    if (next_ns != 0) {
      timeout_ms = static_cast<int>(
          std::clamp<int64_t>((next_ns - SteadyNanos()) / 1'000'000 + 1, 0, timeout_ms));
    }
    pollfd files[] = {{wake_.get(), POLLIN, 0},
                      {process.doorbell(), POLLIN, 0},
                      {process.output(), POLLIN, 0},
                      {process.pidfd(), POLLIN, 0}};
    poll(files, std::size(files), timeout_ms);
    reader.EndOnlySleep();
    uint64_t count = 0;
    for (int i = 0; i < 2; ++i) {
      if (files[i].revents != 0) (void)!read(files[i].fd, &count, sizeof count);
    }
    if ((files[2].revents & POLLIN) != 0) output_.Read(process.output(), SteadyNanos());
    // What it has said before its end counts.
    ended = files[3].revents != 0;
  }
}

bool ChipHost::AwaitStop() {
  if (stop_by_ns_ != 0) return SteadyNanos() < stop_by_ns_;
  if (state_ != State::kReady) return false;
  stop_by_ns_ = SteadyNanos() + absl::ToInt64Nanoseconds(kStopTime);
  Request stop;
  stop.kind = Request::kStop;
  Add(std::move(stop), [](const Reply&) {});
  return true;
}

bool ChipHost::HandleReplies(host::RingReader& reader, std::string* broken) {
  Answers answers;
  std::vector<std::byte> bytes;
  size_t handled = 0;
  while (handled < kBatch) {
    const absl::StatusOr<bool> read = reader.Read(&bytes);
    if (!read.ok()) {
      *broken = std::string(read.status().message());
      break;
    }
    if (!*read) break;
    ++handled;
    const absl::StatusOr<Reply> reply = ParseReply(bytes);
    if (!reply.ok()) {
      *broken = std::string(reply.status().message());
      break;
    }
    MutexLock lock(mutex_);
    HandleReply(*reply, &answers);
  }
  for (const auto& [answer, reply] : answers) answer(reply);
  return handled == kBatch;
}

void ChipHost::HandleReply(const Reply& reply, Answers* answers) {
  switch (reply.kind) {
    case Reply::kReady:
      if (lost_) return;
      ready_ = true;
      state_ = State::kReady;
      trouble_ = absl::OkStatus();
      info_ = {reply.device_count, reply.cube_cores, reply.vector_cores, reply.memory_bytes,
               reply.text};
      probe_ns_ = SteadyNanos() + absl::ToInt64Nanoseconds(options_.probe_interval);
      changed_.NotifyAll();
      return;
    case Reply::kRefused:
      if (reply.device_count > 0) info_.device_count = reply.device_count;
      return MarkLost(reply.status);
    case Reply::kFailed: {
      if (lost_) return;
      state_ = State::kFailed;
      trouble_ = reply.status;
      const absl::Duration pause = NoteFault(reply.status);
      reset_ns_ = SteadyNanos() + absl::ToInt64Nanoseconds(pause);
      PTO_LOG(kError, "a chip has failed",
              {{"chip", options_.name},
               {"error", std::string(reply.status.message())},
               {"reset_in", absl::FormatDuration(pause)}});
      changed_.NotifyAll();
      return;
    }
    default:
      break;
  }
  const auto found = pending_.find(reply.id);
  if (found == pending_.end()) return;  // answered already
  if (found->second.answer) answers->emplace_back(std::move(found->second.answer), reply);
  pending_.erase(found);
}

void ChipHost::CheckTimes(int64_t* next_ns, std::string* overdue) {
  const int64_t now_ns = SteadyNanos();
  const auto note = [&](int64_t time_ns) {
    *next_ns = *next_ns == 0 ? time_ns : std::min(*next_ns, time_ns);
  };
  MutexLock lock(mutex_);
  if (reset_ns_ != 0) {
    if (now_ns < reset_ns_) {
      note(reset_ns_);
    } else {
      SendReset();
    }
  }
  if (state_ == State::kReady && probe_ns_ != 0) {
    if (now_ns < probe_ns_) {
      note(probe_ns_);
    } else {
      SendProbe();
    }
  }
  for (const auto& [id, pending] : pending_) {
    if (pending.deadline_ns == 0) continue;
    if (now_ns > pending.deadline_ns) *overdue = "it did not answer in time";
    note(pending.deadline_ns);
  }
}

void ChipHost::SendReset() {
  reset_ns_ = 0;
  hurry_ = false;
  resetting_ = true;
  state_ = State::kFailed;
  // Now, and not with the answer: what comes behind this request is of the new epoch.
  ++epoch_;
  Request reset;
  reset.kind = Request::kReset;
  reset.epoch = epoch_;
  Add(std::move(reset), [this](const Reply& reply) {
    MutexLock lock(mutex_);
    resetting_ = false;
    if (!reply.status.ok() || lost_) return;  // the host ends by itself
    state_ = State::kReady;
    trouble_ = absl::OkStatus();
    reset_ns_ = 0;
    probe_ns_ = SteadyNanos() + absl::ToInt64Nanoseconds(options_.probe_interval);
    changed_.NotifyAll();
    PTO_LOG(kInfo, "a chip was reset", {{"chip", options_.name}});
  });
}

}  // namespace pto::ascend
