#include "runtime/chip/ascend/chip_host.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/reason.h"
#include "runtime/base/status_macros.h"
#include "runtime/host/futex.h"
#include "runtime/host/lifeline.h"

namespace pto::ascend {
namespace {

constexpr size_t kBatch = 256;
// For a process to give its device back.
constexpr absl::Duration kStopTime = absl::Seconds(5);
constexpr absl::Duration kQuiet = absl::Minutes(1);  // after it, faults are forgotten

int64_t Now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

absl::Status Lost(absl::string_view name, absl::string_view why) {
  return Error(reason::kHostLost, absl::StrCat("the host of ", name, " was lost: ", why))
      .With("chip", name);
}

FileDescriptor MakeSlotFile() {
  FileDescriptor file(memfd_create("ptod-chip", MFD_CLOEXEC));
  // All pages now: one that is missing later would be a signal.
  const bool made =
      file.valid() && posix_fallocate(file.get(), 0, static_cast<off_t>(kSlots * kSlotBytes)) == 0;
  return made ? std::move(file) : FileDescriptor();
}

}  // namespace

ChipHost::ChipHost(ChipHostOptions options)
    : options_(std::move(options)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      slot_file_(MakeSlotFile()),
      output_(options_.name) {
  PTO_CHECK(wake_.valid() && slot_file_.valid(), "there is memory for a chip's copies");
  void* const slots =
      mmap(nullptr, kSlots * kSlotBytes, PROT_READ | PROT_WRITE, MAP_SHARED, slot_file_.get(), 0);
  PTO_CHECK(slots != MAP_FAILED, "the memory of a chip's copies can be mapped");
  slots_ = static_cast<std::byte*>(slots);
  for (uint32_t slot = 0; slot < kSlots; ++slot) free_slots_.push_back(slot);
}

std::shared_ptr<ChipHost> ChipHost::Start(ChipHostOptions options) {
  std::shared_ptr<ChipHost> host(new ChipHost(std::move(options)));
  host->thread_ = std::thread([raw = host.get()] { raw->Run(); });
  return host;
}

ChipHost::~ChipHost() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  Wake();
  thread_.join();
  munmap(slots_, kSlots * kSlotBytes);
}

void ChipHost::Wake() const {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

absl::StatusOr<ChipInfo> ChipHost::AwaitReady(absl::Duration timeout) {
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  MutexLock lock(mutex_);
  while (state_ != State::kReady) {
    if (state_ == State::kDead || state_ == State::kStopped) return trouble_;
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      return Error(reason::kCannUnusable, absl::StrCat(options_.name, " was not ready within ",
                                                       absl::FormatDuration(timeout)));
    }
    changed_.WaitFor(mutex_, left);
  }
  return info_;
}

uint64_t ChipHost::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

std::string ChipHost::trouble() const {
  MutexLock lock(mutex_);
  return state_ == State::kReady ? "" : std::string(trouble_.message());
}

pid_t ChipHost::pid() const {
  MutexLock lock(mutex_);
  return process_ == nullptr ? 0 : process_->pid();
}

uint64_t ChipHost::starts() const {
  MutexLock lock(mutex_);
  return starts_;
}

void ChipHost::KillProcess(const std::string& why) {
  MutexLock lock(mutex_);
  kill_ = why;
  // At once: after this call nothing of the process runs for long.
  if (process_ != nullptr) process_->Kill();
  Wake();
}

// ---- requests

uint64_t ChipHost::Add(Request request, Answer answer) {
  request.id = ++last_id_;
  Pending pending;
  pending.answer = std::move(answer);
  if (request.kind != Request::kLaunch) {
    pending.deadline_ns = Now() + absl::ToInt64Nanoseconds(options_.answer_timeout);
  }
  pending_.emplace(request.id, std::move(pending));
  std::vector<std::byte> bytes;
  Encode(request, &bytes);
  backlog_.push_back(std::move(bytes));
  Flush();
  return request.id;
}

void ChipHost::Flush() {
  while (!backlog_.empty() && writer_.has_value()) {
    const absl::StatusOr<bool> written = writer_->Write(backlog_.front());
    if (!written.ok()) {
      kill_ = std::string(written.status().message());
      Wake();
      break;
    }
    if (!*written) break;
    backlog_.pop_front();
  }
  if (!writer_.has_value()) return;
  const uint32_t sleepers = writer_->Publish();
  if (sleepers > 0) host::FutexWake(process_->control().to_host.word, sleepers);
}

uint64_t ChipHost::Send(Request request, Answer answer) {
  Reply refused;
  {
    MutexLock lock(mutex_);
    if (state_ == State::kReady || (state_ == State::kFailed && writer_.has_value())) {
      return Add(std::move(request), std::move(answer));
    }
    refused.status = trouble_.ok() ? Lost(options_.name, "it is being started") : trouble_;
  }
  answer(refused);
  return 0;
}

absl::StatusOr<uint64_t> ChipHost::Call(Request request) {
  struct Waiting {
    Mutex mutex;
    CondVar changed;
    absl::optional<Reply> reply ABSL_GUARDED_BY(mutex);
  };
  const auto waiting = std::make_shared<Waiting>();
  Send(std::move(request), [waiting](const Reply& reply) {
    MutexLock lock(waiting->mutex);
    waiting->reply = reply;
    waiting->changed.NotifyAll();
  });
  // Ends: the host answers, or is killed because it does not.
  MutexLock lock(waiting->mutex);
  while (!waiting->reply.has_value()) waiting->changed.Wait(waiting->mutex);
  if (!waiting->reply->status.ok()) return waiting->reply->status;
  return waiting->reply->value;
}

void ChipHost::Insist(uint64_t id, absl::Duration within) {
  MutexLock lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  found->second.deadline_ns = Now() + absl::ToInt64Nanoseconds(within);
  Wake();
}

uint32_t ChipHost::TakeSlot() {
  MutexLock lock(mutex_);
  while (free_slots_.empty()) changed_.Wait(mutex_);
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void ChipHost::GiveSlot(uint32_t slot) {
  MutexLock lock(mutex_);
  free_slots_.push_back(slot);
  changed_.NotifyAll();
}

// ---- the thread

void ChipHost::Run() {
  absl::Duration pause = options_.first_pause;
  while (true) {
    RunProcess();
    MutexLock lock(mutex_);
    if (info_.device_count > 0) pause = options_.first_pause;
    const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause);
    while (!stop_ && std::chrono::steady_clock::now() < until) {
      changed_.WaitFor(mutex_, until - std::chrono::steady_clock::now());
    }
    if (stop_) break;
    pause = std::min(2 * pause, options_.longest_pause);
  }
  MutexLock lock(mutex_);
  state_ = State::kStopped;
  trouble_ = Lost(options_.name, "the daemon is stopping");
  changed_.NotifyAll();
}

void ChipHost::RunProcess() {
  host::HostCommand command;
  command.arguments = {options_.program, "--serve"};
  if (!options_.cann_path.empty()) {
    command.arguments.push_back("--cann-path");
    command.arguments.push_back(options_.cann_path);
  }
  command.environment = options_.environment;
  absl::StatusOr<std::unique_ptr<host::HostProcess>> process = host::HostProcess::Start(command);
  const StartMessage start = {StartMessage::kMagic, options_.device};
  const auto* const bytes = reinterpret_cast<const std::byte*>(&start);
  if (process.ok() &&
      host::SendMessage((*process)->lifeline(), absl::MakeConstSpan(bytes, sizeof start),
                        slot_file_.get()) != host::LifelineResult::kDone) {
    process = Lost(options_.name, "it does not take its start");
  }
  if (!process.ok()) {
    MutexLock lock(mutex_);
    state_ = State::kDead;
    trouble_ = process.status();
    changed_.NotifyAll();
    return;
  }
  output_.Clear();
  {
    MutexLock lock(mutex_);
    process_ = *std::move(process);
    ++starts_;
    kill_.clear();
    if (state_ != State::kDead) state_ = State::kStarting;
    writer_.emplace(process_->control().to_host_ring());
  }
  Serve(*process_);
  std::unique_ptr<host::HostProcess> ended;
  {
    MutexLock lock(mutex_);
    writer_.reset();
    ended = std::move(process_);
  }
  ended->Kill();
  const host::HostProcess::End end = ended->Reap();
  output_.Read(ended->output(), Now());
  ended.reset();
  absl::Status why;
  {
    MutexLock lock(mutex_);
    std::string text = kill_;
    if (text.empty() && end.signalled) text = absl::StrCat("it was killed by signal ", end.number);
    if (text.empty()) text = absl::StrCat("it has ended with ", end.number);
    const std::string tail = output_.Tail();
    if (!tail.empty()) absl::StrAppend(&text, "; it printed: ", tail);
    why = Lost(options_.name, text);
    // A refusal says more than the end after it.
    if (state_ == State::kDead && !trouble_.ok()) {
      why = trouble_;
    } else if (!stop_) {
      PTO_LOG(kError, "a chip host has ended", {{"chip", options_.name}, {"why", text}});
    }
    state_ = State::kDead;
    trouble_ = why;
    ++epoch_;
    reset_ns_ = 0;
    changed_.NotifyAll();
  }
  FailAll(why);
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
  const int64_t start_by_ns = Now() + absl::ToInt64Nanoseconds(options_.start_timeout);
  bool ended = false;
  while (true) {
    std::string broken;
    const bool more = HandleReplies(reader, &broken);
    int64_t next_ns = 0;
    CheckTimes(&next_ns, &broken);
    {
      MutexLock lock(mutex_);
      if (state_ == State::kStarting && Now() > start_by_ns) broken = "it did not become ready";
      if (broken.empty() && !kill_.empty()) return;
      if (stop_ && !AwaitStop()) return;
      if (!broken.empty()) {
        kill_ = broken;
        return;
      }
      Flush();
    }
    if (ended) return;
    if (more) continue;
    if (!reader.BeginOnlySleep()) continue;
    int timeout_ms = 500;
    if (next_ns != 0) {
      timeout_ms =
          static_cast<int>(std::clamp<int64_t>((next_ns - Now()) / 1'000'000 + 1, 0, timeout_ms));
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
    if ((files[2].revents & POLLIN) != 0) output_.Read(process.output(), Now());
    // What it has said before its end counts.
    ended = files[3].revents != 0;
  }
}

bool ChipHost::AwaitStop() {
  if (stop_by_ns_ != 0) return Now() < stop_by_ns_;
  if (state_ != State::kReady) return false;
  stop_by_ns_ = Now() + absl::ToInt64Nanoseconds(kStopTime);
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
      state_ = State::kReady;
      trouble_ = absl::OkStatus();
      info_ = {reply.device_count, reply.cube_cores, reply.vector_cores, reply.memory_bytes,
               reply.text};
      changed_.NotifyAll();
      return;
    case Reply::kRefused:
      state_ = State::kDead;
      trouble_ = reply.status;
      changed_.NotifyAll();
      return;
    case Reply::kFailed: {
      state_ = State::kFailed;
      trouble_ = reply.status;
      const int64_t now_ns = Now();
      if (now_ns - last_fault_ns_ > absl::ToInt64Nanoseconds(kQuiet)) faults_ = 0;
      last_fault_ns_ = now_ns;
      const absl::Duration pause =
          std::min(options_.first_pause * (1 << std::min(faults_, 20u)), options_.longest_pause);
      ++faults_;
      reset_ns_ = now_ns + absl::ToInt64Nanoseconds(pause);
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
  const int64_t now_ns = Now();
  const auto note = [&](int64_t time_ns) {
    *next_ns = *next_ns == 0 ? time_ns : std::min(*next_ns, time_ns);
  };
  MutexLock lock(mutex_);
  for (const auto& [id, pending] : pending_) {
    if (pending.deadline_ns == 0) continue;
    if (now_ns > pending.deadline_ns) *overdue = "it did not answer in time";
    note(pending.deadline_ns);
  }
  if (reset_ns_ == 0) return;
  if (now_ns < reset_ns_) return note(reset_ns_);
  reset_ns_ = 0;
  Request reset;
  reset.kind = Request::kReset;
  Add(std::move(reset), [this](const Reply& reply) {
    MutexLock again(mutex_);
    if (!reply.status.ok()) return;  // the host ends by itself
    ++epoch_;
    state_ = State::kReady;
    trouble_ = absl::OkStatus();
    changed_.NotifyAll();
    PTO_LOG(kInfo, "a chip was reset", {{"chip", options_.name}});
  });
}

}  // namespace pto::ascend
