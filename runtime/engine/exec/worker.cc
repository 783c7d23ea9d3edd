#include "runtime/engine/exec/worker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/ticks.h"

namespace pto::engine {
namespace {

// A run with so few roots is begun by the thread that helps with it.
constexpr size_t kFewRoots = 64;

// So long a thread looks for the end of a short post: less than a wake-up takes.
constexpr double kPatienceMicroseconds = 12;

uint64_t PatienceTicks() {
  static const auto ticks = static_cast<uint64_t>(kPatienceMicroseconds * TicksPerMicrosecond());
  return ticks;
}

}  // namespace

bool Worker::RunNext(uint32_t max, uint32_t max_posts) {
  stay_.Move();
  // None of the four may keep the others waiting.
  for (uint32_t i = 0; i < 4; ++i) {
    switch (turn_++ % 4) {
      case 0:
        if (TakeFiber(0)) return true;
        break;
      case 1:
        if (TakeErrand(0)) return true;
        break;
      case 2:
        if (TakeLaneNews(0)) return true;
        break;
      default: {
        BlockTicket ticket;
        stay_.left_core = false;
        if (!TakeTicket(max, &ticket)) break;
        // The task that this thread was woken for may be another one.
        PassOn();
        Execute(ticket);
        // The lane gets more blocks with the same call.
        while (slow_.collected() > 0 && slow_.collected() < max_posts && TakeTicket(max, &ticket)) {
          Execute(ticket);
        }
        PostCollected();
        return true;
      }
    }
  }
  return false;
}

bool Worker::PollLane(uint64_t ticket) {
  LaneNewsQueue& news = services_.lane_news();
  const std::shared_ptr<LanePort> lane = slow_.last_lane();
  if (lane == nullptr || !lane->WorthPolling()) return news.size() > 0;
  const uint64_t until = Ticks() + PatienceTicks();
  news.BeginPoll();
  lane->Poll([&] {
    return news.size() > 0 || scheduler_.parking().Ticket() != ticket ||
           !lane->table().has_open() || Ticks() >= until;
  });
  news.EndPoll();
  return news.size() > 0;
}

void Worker::HelpWith(Run& run, int64_t until_ns) {
  stay_.until_ns = until_ns;
  helped_ = &run;
  BlockTicket ticket;
  while (scheduler_.clock().NowNanos() < until_ns) {
    const uint64_t parking_ticket = scheduler_.parking().Ticket();
    stay_.Move();
    if (scheduler_.TakeOf(run, MaxBatch(), &ticket, &stay_.released.local)) {
      Execute(ticket);
      if (slow_.collected() >= kMaxPosts) PostCollected();
    } else if (slow_.collected() > 0) {
      // May make more blocks ready, if it is refused.
      PostCollected();
    } else if (Errand* const errand = services_.errands().TakeOf(run)) {
      errand->Do(*this, *stay_.completions);
    } else if (run.life().outstanding() == stay_.holds || !PollLane(parking_ticket) ||
               !TakeLaneNews(0)) {
      break;
    }
  }
  PostCollected();
  // Nobody was woken for what came while this thread looked.
  services_.lane_news().Leave();
  if (std::exchange(stay_.left_core, false)) PassOnTasks();
  helped_ = nullptr;
  stay_.until_ns = 0;
  stay_.Move();
}

void Worker::BeginWith(Run& run, int64_t until_ns, Completions& completions) {
  stay_.completions = &completions;
  stay_.holds = 1;
  const GraphImage& image = run.image();
  const absl::Span<const uint32_t> roots = image.roots();
  const ImageTask& first = image.tasks()[roots[0]];
  const auto kind = static_cast<pto_core>(first.core);
  BlockTicket ticket;
  ticket.run = &run;
  ticket.task = roots[0];
  ticket.kind = kind;
  ticket.chip = first.chip;
  const auto alike = [&](uint32_t root) {
    const ImageTask& task = image.tasks()[root];
    return task.chip == first.chip && task.core == first.core && task.one_call() &&
           !run.IsSlow(root);
  };
  if (roots.size() <= kFewRoots && std::all_of(roots.begin(), roots.end(), alike) &&
      scheduler_.queue(first.chip).TakeCore(run, kind, &ticket.core)) {
    run.life().Add(roots.size());
    stay_.until_ns = until_ns;
    stay_.released.local.assign(roots.begin() + 1, roots.end());
    Execute(ticket);
  } else {
    BeginRoots(run, true);
  }
  HelpWith(run, until_ns);
  stay_.holds = 0;
  stay_.completions = nullptr;
}

void Worker::Clear(Run& run) {
  BlockTicket ticket;
  while (scheduler_.TakeOf(run, 1, &ticket, &stay_.released.local)) Execute(ticket);
  services_.CancelWaits(run);
  services_.CancelPosts(run, false);
  for (Errand* const errand : services_.errands().TakeAllOf(run)) {
    errand->Do(*this, *stay_.completions);
  }
}

void Worker::BeginRoots(Run& run, bool taking_one) {
  const absl::Span<const uint32_t> roots = run.image().roots();
  if (!run.image().alike() || run.spec().task_timeout_ns > 0) {
    flow_.BeginTasks(stay_, run, roots, taking_one);
    return;
  }
  run.life().Add(roots.size());
  scheduler_.PushRoots(run, taking_one);
}

std::vector<std::pair<uint32_t, bool>> Worker::BeginLinked(Run& run, uint32_t task) {
  flow_.BeginTasks(stay_, run, absl::MakeConstSpan(&task, 1), false);
  if (!stay_.released.linked.empty()) stay_.Flush();
  return std::exchange(stay_.released.linked, {});
}

bool Worker::RunBlockOf(uint32_t chip) {
  BlockTicket ticket;
  if (!scheduler_.TakeFrom(chip, Priority::kLow, 1, &ticket, &stay_.released.local)) return false;
  Execute(ticket);
  PostCollected();
  Finish();
  return true;
}

bool Worker::RunFiber(size_t place) {
  const bool found = TakeFiber(place);
  Finish();
  return found;
}

bool Worker::RunErrand(size_t place) {
  const bool found = TakeErrand(place);
  Finish();
  return found;
}

bool Worker::EndPost(size_t place) {
  const bool found = TakeLaneNews(place);
  Finish();
  return found;
}

bool Worker::TakeLaneNews(size_t place) {
  LaneNews* const news = services_.lane_news().Take(place);
  if (news == nullptr) return false;
  if (std::exchange(stay_.left_core, false)) PassOnTasks();
  if (news->kind == LaneNews::Kind::kDeath) {
    services_.lane_news().PassOn();
    LanePort::Bury(static_cast<LaneDeath&>(*news));
    return true;
  }
  auto& slot = static_cast<PostSlot&>(*news);
  // What is held of the run that this thread helps with is not held of others.
  const bool other = helped_ != nullptr && slot.ticket.run != helped_;
  const int64_t holds = other ? std::exchange(stay_.holds, 0) : 0;
  slow_.EndPost(stay_, slot);
  stay_.holds += holds;
  return true;
}

void Worker::PostGang(Run& run, absl::Span<const BlockTicket> blocks) {
  if (run.stopping()) {
    for (const BlockTicket& block : blocks) scheduler_.ReleaseCore(block);
    stay_.left_core = true;
    stay_.ticket = blocks[0];
    stay_.ticket.abandoned = static_cast<uint32_t>(blocks.size());
    stay_.Abandon();
    return;
  }
  for (const BlockTicket& block : blocks) {
    stay_.Begin(block);
    slow_.ExecuteSlow(stay_);
  }
  PostCollected();
}

bool Worker::TakeFiber(size_t place) {
  FiberBlock* block = fibers_ == nullptr ? nullptr : fibers_->Take(place);
  if (block == nullptr && strays_ != nullptr && strays_->any()) {
    block = strays_->TakeStray(*fibers_);
  }
  if (block == nullptr) return false;
  PassOnLeft();
  slow_.GoOn(stay_, *block);
  return true;
}

bool Worker::TakeErrand(size_t place) {
  Errand* const errand = services_.errands().Take(place);
  if (errand == nullptr) return false;
  PassOnLeft();
  errand->Do(*this, *stay_.completions);
  return true;
}

void Worker::Execute(const BlockTicket& ticket) {
  Run& run = *ticket.run;
  if (slow_.collected() > 0 && !run.image().UsesLane(ticket.task)) {
    // The local tasks belong to the ticket. Blocks that the lane refuses need the list, too.
    const std::vector<uint32_t> more = std::exchange(stay_.released.local, {});
    PostCollected();
    stay_.released.local = more;
  }
  stay_.ticket = ticket;
  stay_.chip = stay_.ticket.chip;
  if (stay_.ticket.core < 0) {
    stay_.Abandon();
    return;
  }
  // The first task stands for all that are here.
  if (!stay_.released.local.empty()) {
    run.life().TakeBack(stay_.released.local.size());
    std::reverse(stay_.released.local.begin(), stay_.released.local.end());
  }
  if (run.stopping()) {
    stay_.released.local.clear();
    stay_.LeaveCore();
    stay_.ticket.abandoned = stay_.ticket.block_end - stay_.ticket.block;
    stay_.Abandon();
    return;
  }
  stay_.Begin(ticket);
  if (run.IsSlow(stay_.ticket.task)) {
    slow_.ExecuteSlow(stay_);
    return;
  }
  if (run.image().tasks()[stay_.ticket.task].one_call()) {
    stay_.released.local.push_back(stay_.ticket.task);
    plain_.RunPlain(stay_);
  } else {
    if (!plain_.RunBlocks(stay_)) return;
    plain_.RunLocal(stay_);
  }
  if (stay_.crowded) stay_.crowded = scheduler_.OthersWait(run);
  batch_ = stay_.was_long ? 1 : std::min(kMaxBatch, 2 * batch_);
  stay_.End();
}

}  // namespace pto::engine
