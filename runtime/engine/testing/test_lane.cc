#include "runtime/engine/testing/test_lane.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"

namespace pto::engine::testing {
namespace {

// The token of a call that must not be made.
constexpr uint64_t kTwice = 2;

}  // namespace

void TestLane::Open(std::shared_ptr<LaneReports> reports) { reports_ = std::move(reports); }

void TestLane::Post(absl::Span<const LanePost* const> posts) {
  MutexLock lock(mutex_);
  if (killed_) ++seen_.calls_after_kill;
  seen_.posts.push_back(posts.size());
  // The blocks of a gang come in one call, which has no other gang.
  uint32_t in_gang = 0, gang_size = 0;
  for (const LanePost* const post : posts) {
    in_gang += post->gang_size > 0 ? 1 : 0;
    gang_size = std::max(gang_size, post->gang_size);
    Held held;
    held.post = post;
    if (script_ != nullptr) {
      for (LaneCall& call : script_(*post)) {
        call.id = post->id;
        call.token = ~post->id;
        held.script.push_back(std::move(call));
      }
    }
    held_.push_back(std::move(held));
  }
  if (in_gang != gang_size) ++seen_.broken_gangs;
  changed_.NotifyAll();
}

void TestLane::Cancel(absl::Span<const PostId> ids) {
  MutexLock lock(mutex_);
  if (killed_) ++seen_.calls_after_kill;
  seen_.cancels.insert(seen_.cancels.end(), ids.begin(), ids.end());
}

void TestLane::Resume(const LaneAnswer& answer) {
  MutexLock lock(mutex_);
  const auto held = std::find_if(held_.begin(), held_.end(),
                                 [&](const Held& held) { return held.post->id == answer.id; });
  // Its post has ended, or it was a call too many.
  if (held == held_.end() || answer.token == kTwice) return;
  if (!held->in_call || answer.token != ~answer.id) ++seen_.wrong_answers;
  held->in_call = false;
  held->result = answer.result;
  if (answer.result != PTO_OK) held->script.clear();
  ++seen_.results[answer.result];
  seen_.last.push_back(answer);
  if (seen_.last.size() > 16) seen_.last.erase(seen_.last.begin());
  changed_.NotifyAll();
}

void TestLane::EndRun(uint64_t run) {
  MutexLock lock(mutex_);
  seen_.ended_runs.push_back(run);
}

bool TestLane::BeginPoll() {
  if (poll_choose_ == nullptr || polling_.exchange(true)) return false;
  MutexLock lock(mutex_);
  if (stopped_) polling_ = false;
  return !stopped_;
}

void TestLane::Poll() {
  if (CanAct()) Act(poll_choose_);
}

void TestLane::Kill() {
  MutexLock lock(mutex_);
  if (killed_) ++seen_.calls_after_kill;
  killed_ = true;
  ++seen_.kills;
  for (const Held& held : held_) {
    if (quirks_.late != 0) again_.push_back(held.post->id);
  }
  held_.clear();
}

LaneResult TestLane::Run(const Held& held) {
  const LanePost& post = *held.post;
  LaneResult result;
  result.id = post.id;
  result.code = held.result;
  if (held.result == PTO_OK) {
    pto_context context = {};
    context.struct_size = sizeof context;
    context.block_index = post.block;
    context.block_count = post.block_count;
    context.chip = post.chip;
    context.core = post.core;
    context.core_kind = post.core_kind;
    context.tensor_count = post.tensor_count;
    context.scalar_count = post.scalar_count;
    context.tensors = post.members[post.member];
    context.scalars = post.scalars;
    context.member_index = post.member;
    context.member_count = post.member_count;
    context.members = post.members.data();
    context.lane = post.cluster_lane;
    context.kernel_data = post.kernel->data();
    result.code = post.kernel->info().function(&context);
  }
  if (result.code != 0) {
    result.status = absl::InternalError(absl::StrCat("returned ", result.code));
  }
  return result;
}

void TestLane::Answer(std::vector<LaneResult> results) {
  {
    MutexLock lock(mutex_);
    seen_.answers += results.size();
  }
  reports_->Complete(absl::MakeSpan(results));
}

void TestLane::Send(const LaneCall& call) {
  const bool accepted = reports_->Call(call);
  MutexLock lock(mutex_);
  ++(accepted ? seen_.calls : seen_.bad_calls);
}

TestLane::Held TestLane::TakeOut(size_t index) {
  std::swap(held_[index], held_.back());
  Held held = std::move(held_.back());
  held_.pop_back();
  return held;
}

bool TestLane::CanAct() {
  MutexLock lock(mutex_);
  return !again_.empty() ||
         std::any_of(held_.begin(), held_.end(), [](const Held& held) { return CanAct(held); });
}

bool TestLane::AwaitAct() {
  MutexLock lock(mutex_);
  while (!stopped_ && again_.empty() &&
         std::none_of(held_.begin(), held_.end(), [](const Held& held) { return CanAct(held); })) {
    changed_.Wait(mutex_);
  }
  return !stopped_;
}

void TestLane::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  while (polling_) std::this_thread::yield();
}

void TestLane::Act(const Chooser& choose) {
  const auto one_of = [&](size_t count) { return count != 0 && choose(count) == 0; };
  std::vector<LaneResult> results;
  std::vector<LaneCall> calls;
  PostId dies_in = 0;
  {
    MutexLock lock(mutex_);
    if (!again_.empty() && (held_.empty() || choose(2) == 0)) {
      results.push_back({again_.back(), absl::OkStatus()});
      again_.pop_back();
    } else if (!held_.empty()) {
      for (size_t left = 1 + choose(std::min<size_t>(held_.size(), 3)); left > 0; --left) {
        const size_t index = choose(held_.size());
        Held& next = held_[index];
        if (one_of(quirks_.dies)) {
          dies_in = next.post->id;
          break;
        }
        if (next.in_call) {
          // Made before, so it has no answer.
          if (one_of(quirks_.twice)) {
            calls.emplace_back();
            calls.back().id = next.post->id;
            calls.back().token = kTwice;
          }
          if (!next.leaves) continue;
        } else if (!next.script.empty()) {
          next.in_call = true;
          next.leaves = one_of(quirks_.leaves);
          calls.push_back(next.script.front());
          next.script.pop_front();
          continue;
        }
        const Held held = TakeOut(index);
        const PostId id = held.post->id;
        if (one_of(quirks_.drops)) continue;
        LaneResult result = Run(held);
        if (one_of(quirks_.fails)) result.status = absl::InternalError("the lane says so");
        if (one_of(quirks_.duplicates)) again_.push_back(id);
        // With a status of its own: threads must not share one, as Abseil's reference counts are
        // not visible to ThreadSanitizer.
        if (one_of(quirks_.unknown)) {
          results.push_back({id + (PostId{1} << 50), absl::InternalError("unknown")});
        }
        results.push_back(std::move(result));
        if (held_.empty()) break;
      }
      if (dies_in != 0) {
        // Nothing runs any more; the engine learns of it a moment later.
        if (quirks_.late != 0) {
          for (const Held& held : held_) again_.push_back(held.post->id);
        }
        held_.clear();
        calls.clear();
      }
    }
  }
  if (!results.empty()) Answer(std::move(results));
  for (const LaneCall& call : calls) Send(call);
  if (dies_in != 0) reports_->ReportDeath("it dies as the test wants", dies_in);
}

std::vector<const LanePost*> TestLane::held() {
  std::vector<const LanePost*> posts;
  MutexLock lock(mutex_);
  for (const Held& held : held_) posts.push_back(held.post);
  return posts;
}

void TestLane::MakeCall(const LanePost& post) {
  LaneCall call;
  {
    MutexLock lock(mutex_);
    const auto held = std::find_if(held_.begin(), held_.end(),
                                   [&](const Held& held) { return held.post == &post; });
    held->in_call = true;
    call = held->script.front();
    held->script.pop_front();
  }
  Send(call);
}

void TestLane::Finish(absl::Span<const LanePost* const> posts) {
  std::vector<LaneResult> results;
  {
    MutexLock lock(mutex_);
    for (const LanePost* const post : posts) {
      const auto held = std::find_if(held_.begin(), held_.end(),
                                     [&](const Held& held) { return held.post == post; });
      results.push_back(Run(*held));
      held_.erase(held);
    }
  }
  Answer(std::move(results));
}

void TestLane::FinishWell() {
  {
    MutexLock lock(mutex_);
    for (Held& held : held_) held.result = PTO_OK;
  }
  Finish();
}

TestLane::Seen TestLane::seen() {
  MutexLock lock(mutex_);
  return seen_;
}

}  // namespace pto::engine::testing
