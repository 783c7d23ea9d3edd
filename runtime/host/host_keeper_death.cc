// The end of a host: why, who is to blame, and what happens to its posts.

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/kernel.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/host/host_keeper.h"

namespace pto::host {
namespace {

using engine::LanePost;
using engine::LaneResult;

// A process that ends so soon, for no reason that is known, counts as one that did not start.
constexpr int64_t kShortLifeNs = 1'000'000'000;
// How much of what it has printed is worth repeating.
constexpr size_t kMostPrinted = 240;

int64_t Now() { return Clock::Real().NowNanos(); }

absl::Status Lost(absl::string_view why) { return Error(reason::kHostLost, why); }

}  // namespace

const LanePost* HostKeeper::PostAt(uint32_t slot) const {
  return slot < slots_.size() ? slots_[slot].post : nullptr;
}

void HostKeeper::FindCulprit(const CrashReport& crash, Cause* cause) {
  if (cause->slot != kNoSlot) return;
  if (crash.kind != CrashRecord::kNone) {
    const LanePost* const post = PostAt(crash.slot);
    if (post != nullptr && post->id == crash.post) cause->slot = crash.slot;
    // A thread that runs nothing may be the first to find what the kernel of another has broken.
    const bool found_by_idle = crash.kind == CrashRecord::kBroken && crash.slot == kNoSlot;
    // It was the code that loads: the kernel whose answer is missing.
    if (crash.slot == kNoSlot && !found_by_idle && !loading_.empty()) {
      cause->kernel = loading_.front();
    }
    if (!found_by_idle) return;
  }
  // Nobody knows. Only if one block ran, that was it.
  uint32_t running = 0;
  uint32_t last = kNoSlot;
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    // One that waits for the engine does nothing.
    if (PostAt(i) == nullptr || slots_[i].in_call ||
        process_->control().posts[i].running.load(std::memory_order_relaxed) == 0) {
      continue;
    }
    ++running;
    last = i;
  }
  if (running == 1) cause->slot = last;
  if (running == 0 && cause->text.empty() && !loading_.empty()) cause->kernel = loading_.front();
}

std::string HostKeeper::Place(uint32_t slot, const CrashReport& crash) {
  const LanePost& post = *slots_[slot].post;
  const uint32_t said = crash.kind != CrashRecord::kNone && crash.slot == slot
                            ? crash.block
                            : process_->control().posts[slot].block.load(std::memory_order_relaxed);
  const uint32_t block = said >= post.block && said < post.block_end ? said : post.block;
  return absl::StrCat("kernel '", post.kernel->name(), "', task ", post.task, ", block ", block,
                      " of ", post.block_count, " on chips/", post.chip);
}

std::string HostKeeper::Explain(const Cause& cause, const CrashReport& crash,
                                HostProcess::End end) const {
  if (!cause.text.empty()) return cause.text;
  std::string text = DescribeCrash(crash);
  if (text.empty()) {
    text = end.signalled ? SignalName(end.number) : absl::StrCat("it ended with code ", end.number);
  }
  // A process that was killed, or that aborted, has perhaps said why.
  const bool said_why = crash.kind == CrashRecord::kSignal && crash.signal != SIGABRT;
  std::string printed = output_.Tail();
  if (said_why || printed.empty()) return text;
  if (printed.size() > kMostPrinted) {
    printed = absl::StrCat("…", printed.substr(printed.size() - kMostPrinted));
  }
  return absl::StrCat(text, " after it printed '", printed, "'");
}

void HostKeeper::Bury(Cause cause) {
  std::vector<LaneResult> ended;
  {
    MutexLock lock(reading_);
    reader_.reset();
  }
  const bool had_process = process_ != nullptr;
  HostProcess::End end;
  CrashReport crash;
  if (had_process) {
    process_->Kill();
    end = process_->Reap();
    died_ns_ = Now();
    output_.Read(process_->output(), died_ns_);
    crash = ReadCrash(process_->control().crash);
  }
  std::string told;
  bool stopped = false;
  {
    MutexLock lock(mutex_);
    stopped = stop_;
    const std::string why = Explain(cause, crash, end);
    // Its post may have ended since the cause was found.
    if (PostAt(cause.slot) == nullptr) cause.slot = kNoSlot;
    FindCulprit(crash, &cause);
    std::string place;
    if (cause.slot != kNoSlot) place = absl::StrCat(" in ", Place(cause.slot, crash));
    const std::string trace =
        crash.backtrace.empty() ? "" : absl::StrCat("; it was at ", crash.backtrace);
    told = absl::StrCat("the kernel host was lost: ", why, place);
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      const LanePost* const post = slots_[i].post;
      if (post == nullptr) continue;
      const bool guilty = i == cause.slot;
      const uint32_t block = guilty && crash.slot == i ? crash.block : post->block;
      ended.push_back({post->id, Lost(guilty ? absl::StrCat(told, trace) : told), block});
    }
    if (cause.kernel != 0) {
      const auto found = kernels_.find(cause.kernel);
      if (found != kernels_.end()) {
        absl::StrAppend(&told, " while it loaded '", found->second.object.file_name, "'");
        if (found->second.error.ok()) {
          found->second.state = KernelEntry::State::kBroken;
          found->second.error = Lost(absl::StrCat(told, trace));
        } else {
          // Load has given up.
          kernels_.erase(found);
        }
      }
    }
    slots_.clear();
    free_slots_.clear();
    cancelled_ = 0;
    loading_.clear();
    unsent_.clear();
    writer_.reset();
    if (!stopped) {
      ++deaths_;
      last_death_ = absl::StrCat(told, trace);
      const bool unexplained = cause.slot == kNoSlot && cause.kernel == 0;
      const bool failed =
          state_ == State::kStarting || (unexplained && Now() - started_ns_ < kShortLifeNs);
      if (failed) {
        const absl::Duration pause = std::min(
            options_.longest_pause, options_.first_pause * (1 << std::min(failed_starts_, 16u)));
        ++failed_starts_;
        next_start_ns_ = Now() + absl::ToInt64Nanoseconds(pause);
        state_ = State::kPaused;
        for (const LanePost* const post : backlog_) {
          ended.push_back({post->id, Lost(last_death_), post->block});
        }
        backlog_.clear();
      } else {
        state_ = State::kStarting;
      }
    }
    process_.reset();
    changed_.NotifyAll();
  }
  if (!stopped) {
    PTO_LOG(kWarning, "a kernel host has died",
            {{"host", options_.name}, {"why", told}, {"backtrace", crash.backtrace}});
  }
  Complete(&ended);
}

}  // namespace pto::host
