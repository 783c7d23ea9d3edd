#include "runtime/chip/ascend/chip_host.h"

#include <fcntl.h>
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
#include "runtime/chip/ascend/chip_host_internal.h"
#include "runtime/host/futex.h"

namespace pto::ascend {
namespace {

FileDescriptor MakeSlotFile() {
  FileDescriptor file(memfd_create("ptod-chip", MFD_CLOEXEC));
  // All pages now: one that is missing later would be a signal.
  const bool made =
      file.valid() && posix_fallocate(file.get(), 0, static_cast<off_t>(kSlots * kSlotBytes)) == 0;
  return made ? std::move(file) : FileDescriptor();
}

std::chrono::steady_clock::time_point After(absl::Duration timeout) {
  return std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
}

}  // namespace

ChipHost::ChipHost(ChipHostOptions options)
    : options_(std::move(options)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      slot_file_(MakeSlotFile()),
      backoff_(options_.first_pause, options_.longest_pause),
      output_(options_.name) {
  PTO_CHECK(wake_.valid() && slot_file_.valid(), "there is memory for a chip's copies");
  void* const slots =
      mmap(nullptr, kSlots * kSlotBytes, PROT_READ | PROT_WRITE, MAP_SHARED, slot_file_.get(), 0);
  PTO_CHECK(slots != MAP_FAILED, "the memory of a chip's copies can be mapped");
  slots_ = static_cast<std::byte*>(slots);
  for (uint32_t slot = 0; slot < kSlots; ++slot) free_slots_.push_back(slot);
}

ChipHost::~ChipHost() { munmap(slots_, kSlots * kSlotBytes); }

std::shared_ptr<ChipHost> ChipHost::Start(ChipHostOptions options) {
  auto* const raw = new ChipHost(std::move(options));
  raw->thread_ = std::thread([raw] {
    raw->Run();
    if (raw->orphaned_) delete raw;
  });
  return std::shared_ptr<ChipHost>(raw, &ChipHost::End);
}

void ChipHost::End(ChipHost* host) {
  {
    MutexLock lock(host->mutex_);
    host->stop_ = true;
    host->changed_.NotifyAll();
  }
  host->Wake();
  if (host->thread_.get_id() == std::this_thread::get_id()) {
    // In an answer. A thread cannot wait for itself, so it deletes the object when it ends.
    host->orphaned_ = true;
    host->thread_.detach();
    return;
  }
  host->thread_.join();
  delete host;
}

void ChipHost::Wake() const {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

absl::StatusOr<ChipInfo> ChipHost::AwaitReady(absl::Duration timeout) {
  const auto until = After(timeout);
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

uint32_t ChipHost::device_count() const {
  MutexLock lock(mutex_);
  return info_.device_count;
}

uint64_t ChipHost::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

std::string ChipHost::trouble() const {
  MutexLock lock(mutex_);
  if (state_ == State::kReady) return "";
  return trouble_.ok() ? "it is being started" : std::string(trouble_.message());
}

ChipHost::Faults ChipHost::faults() const {
  MutexLock lock(mutex_);
  return faults_;
}

pid_t ChipHost::pid() const {
  MutexLock lock(mutex_);
  return process_ == nullptr ? 0 : process_->pid();
}

uint64_t ChipHost::starts() const {
  MutexLock lock(mutex_);
  return starts_;
}

// ---- the end of a process

void ChipHost::KillProcess(const std::string& why) {
  MutexLock lock(mutex_);
  if (process_ == nullptr || lost_) return;
  kill_ = why;
  // At once: after this call nothing of the process runs for long.
  process_->Kill();
  MarkLost(LostError(options_.name, why));
  Wake();
}

void ChipHost::MarkLost(const absl::Status& why) {
  if (lost_) return;
  lost_ = true;
  state_ = State::kDead;
  trouble_ = why;
  ++epoch_;
  reset_ns_ = 0;
  resetting_ = false;
  pause_ = NoteFault(why);
  changed_.NotifyAll();
}

absl::Duration ChipHost::NoteFault(const absl::Status& why) {
  if (stop_) return absl::ZeroDuration();
  ++faults_.count;
  faults_.last = std::string(why.message());
  return backoff_.Note(SteadyNanos());
}

absl::Status ChipHost::Recover(absl::Duration timeout) {
  const auto until = After(timeout);
  MutexLock lock(mutex_);
  // A probe that is under way may have been too early to see what is wrong.
  while (state_ == State::kReady && probe_ns_ == 0 && std::chrono::steady_clock::now() < until) {
    changed_.WaitFor(mutex_, until - std::chrono::steady_clock::now());
  }
  if (state_ == State::kReady) SendProbe();
  hurry_ = state_ == State::kDead;
  while (state_ != State::kReady || probe_ns_ == 0) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0 || state_ == State::kStopped) {
      const absl::Status refusal = Refusal(epoch_);
      return refusal.ok() ? LostError(options_.name, "it does not answer a probe") : refusal;
    }
    if (state_ == State::kFailed && !resetting_) reset_ns_ = SteadyNanos();
    changed_.NotifyAll();
    Wake();
    changed_.WaitFor(mutex_, std::min<std::chrono::nanoseconds>(left, std::chrono::seconds(1)));
  }
  return absl::OkStatus();
}

// ---- requests

uint64_t ChipHost::Add(Request request, Answer answer) {
  request.id = ++last_id_;
  Pending pending;
  pending.answer = std::move(answer);
  if (request.kind != Request::kLaunch) {
    pending.deadline_ns = SteadyNanos() + absl::ToInt64Nanoseconds(options_.answer_timeout);
  } else if (request.timeout_ns > 0) {
    pending.deadline_ns =
        SteadyNanos() +
        absl::ToInt64Nanoseconds(absl::Nanoseconds(request.timeout_ns) + options_.launch_slack);
  }
  pending_.emplace(request.id, std::move(pending));
  std::vector<std::byte> bytes;
  Encode(request, &bytes);
  backlog_.push_back(std::move(bytes));
  Flush();
  // Nobody tells when there is room in the ring again, so the thread looks.
  if (!backlog_.empty()) Wake();
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

absl::Status ChipHost::Refusal(uint64_t epoch) const {
  if (state_ != State::kReady) {
    return trouble_.ok() ? LostError(options_.name, "it is being started") : trouble_;
  }
  if (epoch == epoch_) return absl::OkStatus();
  return Error(reason::kDeviceFailed,
               absl::StrCat(options_.name, " was reset after a fault, and what was there is gone"))
      .With("chip", options_.name);
}

uint64_t ChipHost::Send(Request request, Answer answer) {
  Reply refused;
  {
    MutexLock lock(mutex_);
    refused.status = Refusal(request.epoch);
    if (refused.status.ok()) return Add(std::move(request), std::move(answer));
  }
  answer(refused);
  return 0;
}

absl::StatusOr<uint64_t> ChipHost::Call(Request request,
                                        std::function<void(ChipHost&, uint64_t)> undo) {
  struct Waiting {
    Mutex mutex;
    CondVar changed;
    bool given_up ABSL_GUARDED_BY(mutex) = false;
    absl::optional<Reply> reply ABSL_GUARDED_BY(mutex);
  };
  const auto waiting = std::make_shared<Waiting>();
  // The thread that answers is one of this object, so the object is there.
  Send(std::move(request), [this, waiting, undo = std::move(undo)](const Reply& reply) {
    {
      MutexLock lock(waiting->mutex);
      waiting->reply = reply;
      waiting->changed.NotifyAll();
      if (!waiting->given_up) return;
    }
    if (reply.status.ok() && undo != nullptr) undo(*this, reply.value);
  });
  const auto until = After(options_.call_timeout);
  MutexLock lock(waiting->mutex);
  while (!waiting->reply.has_value()) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      waiting->given_up = true;
      return Error(reason::kDeviceFailed, absl::StrCat(options_.name, " did not answer within ",
                                                       absl::FormatDuration(options_.call_timeout)))
          .With("chip", options_.name);
    }
    waiting->changed.WaitFor(waiting->mutex, left);
  }
  if (!waiting->reply->status.ok()) return waiting->reply->status;
  return waiting->reply->value;
}

void ChipHost::Insist(uint64_t id, absl::Duration within) {
  MutexLock lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  const int64_t deadline_ns = SteadyNanos() + absl::ToInt64Nanoseconds(within);
  // Whoever insists again gives it no more time.
  int64_t& own_ns = found->second.deadline_ns;
  own_ns = own_ns == 0 ? deadline_ns : std::min(own_ns, deadline_ns);
  Wake();
}

void ChipHost::SendProbe() {
  probe_ns_ = 0;
  Request probe;
  probe.kind = Request::kProbe;
  probe.epoch = epoch_;
  // A chip that is not well says so by failing; one that does not answer misses its deadline. The
  // next probe is after the recovery.
  Add(std::move(probe), [this](const Reply& reply) {
    MutexLock lock(mutex_);
    if (!reply.status.ok()) return;
    probe_ns_ = SteadyNanos() + absl::ToInt64Nanoseconds(options_.probe_interval);
    changed_.NotifyAll();
  });
}

// ---- slots

uint32_t ChipHost::TakeSlot() {
  MutexLock lock(mutex_);
  while (free_slots_.empty()) changed_.Wait(mutex_);
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

absl::optional<uint32_t> ChipHost::TryTakeSlot() {
  MutexLock lock(mutex_);
  if (free_slots_.empty()) return absl::nullopt;
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void ChipHost::GiveSlot(uint32_t slot) {
  MutexLock lock(mutex_);
  free_slots_.push_back(slot);
  changed_.NotifyAll();
}

}  // namespace pto::ascend
