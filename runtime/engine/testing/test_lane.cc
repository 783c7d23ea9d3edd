#include "runtime/engine/testing/test_lane.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace pto::engine::testing {

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
    held_.push_back(post);
  }
  if (in_gang != gang_size) ++seen_.broken_gangs;
  changed_.NotifyAll();
}

void TestLane::Cancel(absl::Span<const PostId> ids) {
  MutexLock lock(mutex_);
  if (killed_) ++seen_.calls_after_kill;
  seen_.cancels.insert(seen_.cancels.end(), ids.begin(), ids.end());
}

void TestLane::Kill() {
  MutexLock lock(mutex_);
  if (killed_) ++seen_.calls_after_kill;
  killed_ = true;
  ++seen_.kills;
  for (const LanePost* const post : held_) {
    if (quirks_.late != 0) again_.push_back(post->id);
  }
  held_.clear();
}

absl::Status TestLane::Run(const LanePost& post) {
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
  const int32_t code = post.kernel->info().function(&context);
  return code == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("returned ", code));
}

void TestLane::Answer(std::vector<LaneResult> results) {
  {
    MutexLock lock(mutex_);
    seen_.answers += results.size();
  }
  reports_->Complete(absl::MakeSpan(results));
}

bool TestLane::CanAct() {
  MutexLock lock(mutex_);
  return !held_.empty() || !again_.empty();
}

bool TestLane::AwaitAct() {
  MutexLock lock(mutex_);
  while (held_.empty() && again_.empty() && !stopped_) changed_.Wait(mutex_);
  return !stopped_;
}

void TestLane::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

void TestLane::Act(const Chooser& choose) {
  const auto one_of = [&](size_t count) { return count != 0 && choose(count) == 0; };
  std::vector<LaneResult> results;
  PostId dies_in = 0;
  {
    MutexLock lock(mutex_);
    if (!again_.empty() && (held_.empty() || choose(2) == 0)) {
      results.push_back({again_.back(), absl::OkStatus()});
      again_.pop_back();
    } else if (!held_.empty()) {
      for (size_t left = 1 + choose(std::min<size_t>(held_.size(), 3)); left > 0; --left) {
        std::swap(held_[choose(held_.size())], held_.back());
        const LanePost& post = *held_.back();
        if (one_of(quirks_.dies)) {
          dies_in = post.id;
          break;
        }
        held_.pop_back();
        if (one_of(quirks_.drops)) continue;
        absl::Status status = Run(post);
        if (one_of(quirks_.fails)) status = absl::InternalError("the lane says so");
        if (one_of(quirks_.duplicates)) again_.push_back(post.id);
        // With a status of its own: threads must not share one, as Abseil's reference counts are
        // not visible to ThreadSanitizer.
        if (one_of(quirks_.unknown)) {
          results.push_back({post.id + (PostId{1} << 50), absl::InternalError("unknown")});
        }
        results.push_back({post.id, std::move(status)});
      }
      if (dies_in != 0) {
        // Nothing runs any more; the engine learns of it a moment later.
        if (quirks_.late != 0) {
          for (const LanePost* const post : held_) again_.push_back(post->id);
        }
        held_.clear();
      }
    }
  }
  if (!results.empty()) Answer(std::move(results));
  if (dies_in != 0) reports_->ReportDeath("it dies as the test wants", dies_in);
}

std::vector<const LanePost*> TestLane::held() {
  MutexLock lock(mutex_);
  return held_;
}

void TestLane::Finish(absl::Span<const LanePost* const> posts) {
  std::vector<LaneResult> results;
  {
    MutexLock lock(mutex_);
    for (const LanePost* const post : posts) {
      held_.erase(std::find(held_.begin(), held_.end(), post));
      results.push_back({post->id, Run(*post)});
    }
  }
  Answer(std::move(results));
}

TestLane::Seen TestLane::seen() {
  MutexLock lock(mutex_);
  return seen_;
}

}  // namespace pto::engine::testing
