// The thread of a host: starts processes and handles all that comes from them.

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/pause.h"
#include "runtime/host/host_keeper.h"
#include "runtime/host/lifeline.h"

namespace pto::host {
namespace {

using engine::LanePost;
using engine::LaneResult;

// After a report, the next one usually comes within this time.
constexpr int64_t kSpinNs = 5'000;
constexpr int kPausesPerLook = 16;
// Reports between two looks at everything else.
constexpr size_t kBatch = 256;
// Answers that are read one after the other.
constexpr int kMostAnswers = 64;
// A host that takes no order for so long is stuck, for example in a destructor of a kernel's
// object. Longer than loading a kernel may take.
constexpr int64_t kOrderNs = 60'000'000'000;
// A process that ends closes its lifeline a moment before its end.
constexpr absl::Duration kEndTime = absl::Milliseconds(500);

int64_t Now() { return Clock::Real().NowNanos(); }

absl::Status Lost(absl::string_view why) { return Error(reason::kHostLost, why); }

}  // namespace

void HostKeeper::Run() {
  while (AwaitStart()) {
    absl::StatusOr<std::unique_ptr<HostProcess>> process = HostProcess::Start(options_.command);
    started_ns_ = Now();
    if (!process.ok()) {
      Bury({std::string(process.status().message())});
      continue;
    }
    BeginProcess(*std::move(process));
    Bury(Serve());
  }
  std::vector<LaneResult> ended;
  {
    MutexLock lock(mutex_);
    state_ = State::kEnded;
    for (const LanePost* const post : backlog_) {
      ended.push_back({post->id, Lost("the kernel host has ended"), post->block});
    }
    backlog_.clear();
    regions_.Clear();
    domains_.clear();
    changed_.NotifyAll();
  }
  Complete(&ended);
}

bool HostKeeper::AwaitStart() {
  while (true) {
    {
      MutexLock lock(mutex_);
      if (stop_) return false;
    }
    const int64_t left_ns = next_start_ns_ - Now();
    if (left_ns <= 0) return true;
    pollfd woken = {wake_.get(), POLLIN, 0};
    poll(&woken, 1, static_cast<int>(left_ns / 1'000'000 + 1));
    uint64_t count = 0;
    (void)!read(wake_.get(), &count, sizeof count);
  }
}

void HostKeeper::BeginProcess(std::unique_ptr<HostProcess> process) {
  output_.Clear();
  MutexLock lock(mutex_);
  ++starts_;
  process_ = std::move(process);
  state_ = State::kStarting;
  give_up_ = Cause();
  orders_ = needed_orders_ = 0;
  unsent_.clear();
  loading_.clear();
  slots_.clear();
  free_slots_.clear();
  cancelled_ = 0;
  OrderMessage start;
  start.kind = OrderMessage::kStart;
  start.runners = options_.runners != 0 ? options_.runners
                                        : std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  start.sandbox = options_.sandbox;
  Send(start);
  for (auto& [id, kernel] : kernels_) {
    if (kernel.state != KernelEntry::State::kBroken) SendLoad(id, kernel);
  }
  regions_.ForEach([this](Region& region) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    region.error = absl::OkStatus();
    SendMap(region);
  });
  pipe_runs_.clear();
  for (const auto& [number, domain] : domains_) SendDomain(domain);
  writer_.emplace(process_->control().to_host_ring());
}

HostKeeper::Cause HostKeeper::Serve() {
  HostProcess* host = nullptr;
  {
    MutexLock lock(mutex_);
    host = process_.get();
  }
  // Only this thread replaces it.
  RingReader* shared_reader = nullptr;
  {
    MutexLock lock(reading_);
    shared_reader = &reader_.emplace(host->control().to_daemon_ring());
    ++reader_number_;
  }
  RingReader& reader = *shared_reader;
  Cause cause;
  std::vector<LaneResult> refused;
  bool active = false;
  bool prints = true;   // its output is open
  size_t unlooked = 0;  // reports since the last look at anything else
  while (cause.text.empty()) {
    const size_t handled = HandleReports(&cause);
    if (!cause.text.empty()) break;
    {
      // Ends make room.
      MutexLock lock(mutex_);
      if (!backlog_.empty()) SendBacklog(&refused);
    }
    Complete(&refused);
    unlooked += handled;
    if (handled > 0) {
      active = true;
      if (unlooked < kBatch) continue;
    } else if (active) {
      active = false;
      for (const int64_t until_ns = Now() + kSpinNs; !reader.has_more() && Now() < until_ns;) {
        for (int i = 0; i < kPausesPerLook; ++i) Pause();
      }
      if (reader.has_more()) continue;
    }
    unlooked = 0;
    int64_t next_ns = 0;
    CheckTimes(&next_ns, &cause);
    if (!cause.text.empty()) break;
    bool sending = false;
    {
      MutexLock lock(mutex_);
      sending = !unsent_.empty();
    }
    const bool sleeps = handled == 0 && reader.BeginOnlySleep();
    int timeout_ms = sleeps ? -1 : 0;
    if (sleeps && next_ns != 0) {
      timeout_ms = static_cast<int>(std::max<int64_t>(0, next_ns - Now()) / 1'000'000 + 1);
    }
    pollfd files[] = {
        {wake_.get(), POLLIN, 0},
        {host->doorbell(), POLLIN, 0},
        {host->lifeline(), static_cast<int16_t>(POLLIN | (sending ? POLLOUT : 0)), 0},
        {prints ? host->output() : -1, POLLIN, 0},
        {host->pidfd(), POLLIN, 0},
    };
    poll(files, std::size(files), timeout_ms);
    if (sleeps) reader.EndOnlySleep();
    uint64_t count = 0;
    for (int i = 0; i < 2; ++i) {
      if (files[i].revents != 0) (void)!read(files[i].fd, &count, sizeof count);
    }
    if ((files[2].revents & POLLOUT) != 0) {
      MutexLock lock(mutex_);
      SendOrders();
    }
    if ((files[3].revents & POLLIN) != 0) {
      output_.Read(host->output(), Now());
    } else if (files[3].revents != 0) {
      prints = false;
    }
    if ((files[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) HandleAnswers(&cause);
    if (files[4].revents != 0) {
      // What it has reported before its end counts.
      Cause ignored;
      while (HandleReports(&ignored) > 0) {
      }
      cause = Cause();
      break;
    }
  }
  return cause;
}

size_t HostKeeper::HandleReportsLocked(Cause* cause) {
  std::vector<LaneResult>& results = results_;
  std::vector<std::byte>& bytes = report_bytes_;
  size_t handled = 0;
  RingReader& reader = *reader_;
  while (handled < kBatch && reader.has_more()) {
    const absl::StatusOr<bool> read = reader.Read(&bytes);
    if (!read.ok()) {
      cause->text = std::string(read.status().message());
      break;
    }
    if (!*read) break;
    ++handled;
    const absl::StatusOr<Report> report = ParseReport(bytes);
    if (!report.ok()) {
      cause->text = std::string(report.status().message());
      break;
    }
    HandleReport(*report, &results, cause);
    // A call may take long, and a thread that polls has other lanes to serve.
    if (!cause->text.empty() || report->kind == Report::kCall) break;
  }
  Complete(&results);
  return handled;
}

void HostKeeper::HandleReport(const Report& report, std::vector<LaneResult>* results,
                              Cause* cause) {
  std::string kernel;
  absl::optional<engine::LaneCall> call;
  std::shared_ptr<engine::LaneReports> reports;
  {
    MutexLock lock(mutex_);
    // Nothing is there after Kill.
    if (stop_) return;
    Slot* const slot = report.slot < slots_.size() ? &slots_[report.slot] : nullptr;
    const LanePost* const post = slot == nullptr ? nullptr : slot->post;
    if (post == nullptr || post->id != report.id) {
      cause->text = "it reported something of a block that it does not run";
      return;
    }
    if (report.kind == Report::kEnded) {
      LaneResult result;
      result.id = report.id;
      result.block = report.block;
      result.code = report.result;
      result.took_ticks = report.took_ticks;
      if (report.result != 0) {
        // What the kernel says itself is better.
        const std::string& why = report.text.empty() ? slot->why : report.text;
        result.status = Error(reason::kKernelFailed, absl::StrCat("it returned ", report.result,
                                                                  why.empty() ? "" : ": ", why));
      }
      results->push_back(std::move(result));
      if (slot->cancelled_ns != 0) --cancelled_;
      *slot = Slot();
      free_slots_.push_back(report.slot);
      return;
    }
    if (report.kind == Report::kCall) {
      call = BeginCall(report, *slot, cause);
      reports = reports_;
    } else {
      kernel = std::string(post->kernel->name());
    }
  }
  if (report.kind == Report::kLog) return LogOf(report, kernel);
  // Answered in the middle of this, or later.
  if (call.has_value() && reports != nullptr) reports->Call(*call);
}

void HostKeeper::LogOf(const Report& report, const std::string& kernel) {
  if (!output_.MayLog(Now())) return;
  constexpr LogLevel kLevels[] = {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning,
                                  LogLevel::kError};
  const LogLevel level = kLevels[std::clamp(report.result, 0, 3)];
  if (!LogEnabled(level)) return;
  pto::Log(level, __FILE__, __LINE__, report.text,
           {{"host", options_.name}, {"kernel", kernel}, {"block", report.block}});
}

void HostKeeper::HandleAnswers(Cause* cause) {
  for (int i = 0; i < kMostAnswers; ++i) {
    std::vector<std::byte> bytes;
    FileDescriptor unwanted;
    const LifelineResult received =
        ReceiveMessage(process_->lifeline(), sizeof(AnswerMessage), false, &bytes, &unwanted);
    if (received == LifelineResult::kLater) return;
    if (received == LifelineResult::kGone) {
      if (!process_->AwaitEnd(kEndTime)) cause->text = "it closed its lifeline";
      return;
    }
    absl::StatusOr<AnswerMessage> answer = ParseAnswer(bytes);
    absl::Status status = answer.status();
    if (status.ok()) {
      MutexLock lock(mutex_);
      status = HandleAnswer(*answer);
      changed_.NotifyAll();
    }
    if (!status.ok()) {
      cause->text = std::string(status.message());
      return;
    }
  }
}

absl::Status HostKeeper::HandleAnswer(const AnswerMessage& answer) {
  if (answer.kind == AnswerMessage::kReady) {
    if (state_ != State::kStarting) return Lost("it said twice that it is ready");
    state_ = State::kReady;
    sandbox_ = answer.sandbox;
    failed_starts_ = 0;
    if (died_ns_ != 0) last_restart_ = absl::Nanoseconds(Now() - died_ns_);
    return absl::OkStatus();
  }
  if (answer.kind == AnswerMessage::kRefused) {
    if (Region* const region = regions_.Find(answer.id); region != nullptr) {
      region->error = Error(reason::kChipMemoryExhausted, Printable(answer.text));
      return absl::OkStatus();
    }
  }
  // A region that was removed meanwhile.
  if (loading_.empty() || loading_.front() != answer.id) {
    return answer.kind == AnswerMessage::kRefused ? absl::OkStatus()
                                                  : Lost("it loaded a kernel that nobody wanted");
  }
  loading_.pop_front();
  const auto found = kernels_.find(answer.id);
  if (found == kernels_.end()) {
    OrderMessage order;
    order.kind = OrderMessage::kUnload;
    order.id = answer.id;
    Send(order);
    return absl::OkStatus();
  }
  KernelEntry& kernel = found->second;
  if (answer.kind == AnswerMessage::kRefused) {
    kernel.state = KernelEntry::State::kBroken;
    kernel.error = Error(reason::kFieldInvalid, Printable(answer.text)).At("object");
    return absl::OkStatus();
  }
  kernel.state = KernelEntry::State::kLoaded;
  // The first description stays: graphs rely on it.
  if (!kernel.known) kernel.description = answer.description;
  kernel.known = true;
  return absl::OkStatus();
}

void HostKeeper::CheckTimes(int64_t* next_ns, Cause* cause) {
  const int64_t now_ns = Now();
  const auto note = [&](int64_t time_ns) {
    *next_ns = *next_ns == 0 ? time_ns : std::min(*next_ns, time_ns);
  };
  MutexLock lock(mutex_);
  if (stop_) {
    cause->text = "it was stopped";
    return;
  }
  if (!give_up_.text.empty()) {
    *cause = give_up_;
    return;
  }
  if (state_ == State::kStarting) {
    const int64_t until_ns = started_ns_ + absl::ToInt64Nanoseconds(options_.start_timeout);
    if (now_ns >= until_ns) {
      cause->text =
          absl::StrCat("it was not ready within ", absl::FormatDuration(options_.start_timeout));
      return;
    }
    note(until_ns);
  }
  if (!unsent_.empty()) {
    if (now_ns >= unsent_since_ns_ + kOrderNs) {
      cause->text = "it does not take its orders";
      return;
    }
    note(unsent_since_ns_ + kOrderNs);
  }
  if (cancelled_ == 0 || options_.grace == absl::ZeroDuration()) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].cancelled_ns == 0) continue;
    const int64_t until_ns = slots_[i].cancelled_ns + absl::ToInt64Nanoseconds(options_.grace);
    if (now_ns >= until_ns) {
      cause->text = absl::StrCat("it did not end a cancelled block within ",
                                 absl::FormatDuration(options_.grace));
      cause->slot = static_cast<uint32_t>(i);
      return;
    }
    note(until_ns);
  }
}

}  // namespace pto::host
