#include "runtime/engine/lane/lane_port.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/pause.h"
#include "runtime/base/ticks.h"
#include "runtime/engine/run/task_data.h"

namespace pto::engine {
namespace {

// The earlier of two times; 0 is never.
int64_t Earlier(int64_t a, int64_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

// Posts that run longer need the processor more than a thread that looks for their ends.
constexpr double kShortMicroseconds = 4;

// The time so long after another; 0 if there is no limit.
int64_t After(int64_t start_ns, int64_t timeout_ns) {
  return timeout_ns <= 0 || timeout_ns >= INT64_MAX - start_ns ? 0 : start_ns + timeout_ns;
}

}  // namespace

std::shared_ptr<LanePort> LanePort::Open(std::shared_ptr<Lane> lane, const Setting& setting) {
  std::shared_ptr<LanePort> port(new LanePort(std::move(lane), setting));
  port->reports_->SetPort(port);
  port->lane_->Open(port->reports_);
  return port;
}

LanePort::LanePort(std::shared_ptr<Lane> lane, const Setting& setting)
    : lane_(std::move(lane)),
      name_(lane_->name()),
      clock_(*setting.clock),
      grace_ns_(setting.grace_ns),
      clusters_(setting.clusters),
      limit_(setting.limit),
      limit_ns_(setting.limit_ns),
      reports_(std::make_shared<LaneReports>(*setting.news, *setting.calls, setting.capacity)),
      grace_(setting.timers, [this] { return CheckGrace(); }) {}

LanePort::~LanePort() { reports_->Close(); }

LanePort::Outgoing::Refusal LanePort::Check(const Outgoing& block) const {
  if (block.ticket.run->stopping()) return Outgoing::Refusal::kStopped;
  if (block.long_task != nullptr && block.long_task->late.load(std::memory_order_acquire)) {
    return Outgoing::Refusal::kLate;
  }
  return lost() ? Outgoing::Refusal::kLost : Outgoing::Refusal::kNone;
}

void LanePort::Fill(const Outgoing& block, PostSlot& slot) {
  const BlockTicket& ticket = block.ticket;
  const Run& run = *ticket.run;
  const GraphImage& image = run.image();
  const ImageTask& task = image.tasks()[ticket.task];
  slot.port = this;
  slot.ticket = ticket;
  slot.long_task = block.long_task;
  slot.start_ns = block.start_ns;
  slot.start_ticks = Ticks();

  LanePost& post = slot.post;
  post.kernel = image.shared_kernels()[image.kernel_index(ticket.task, ticket.cluster_lane)].get();
  const pto_kernel_info& info = post.kernel->info();
  uint64_t& number = runs_[&run];
  if (number == 0) number = ++last_run_;
  post.run = number;
  post.task = TaskData::NumberOf(run, ticket.task);
  post.block = ticket.block;
  post.block_end = ticket.block_end;
  post.block_count = task.block_num;
  post.chip = ticket.chip;
  post.core = static_cast<uint32_t>(ticket.core);
  post.core_kind = ticket.kind;
  const uint32_t clusters = post.chip < clusters_.size() ? clusters_[post.chip] : 0;
  post.cluster = post.core < clusters ? post.core : (post.core - clusters) / 2;
  post.cluster_lane = ticket.cluster_lane;
  post.member = ticket.member;
  post.member_count = TaskData::MemberCount(image, ticket.task);
  post.tensor_count = info.argument_count;
  post.scalar_count = info.scalar_count;
  post.tensors.resize(size_t{post.member_count} * post.tensor_count);
  post.members.resize(post.member_count);
  for (uint32_t member = 0; member < post.member_count; ++member) {
    pto_tensor* const own = post.tensors.data() + size_t{member} * post.tensor_count;
    TaskData::FillTensors(run, ticket.task, member, own);
    post.members[member] = own;
  }
  TaskData::FillScalars(run, ticket.task, post.scalars);
  post.deadline_ns = After(run.accepted_ns(), run.spec().timeout_ns);
  if (const LongTask* const long_task = block.long_task) {
    post.deadline_ns = Earlier(post.deadline_ns, After(long_task->start_ns, long_task->timeout_ns));
  }
  post.gang_size = 0;
  post.cancelled.store(false, std::memory_order_relaxed);
}

void LanePort::Post(absl::Span<Outgoing> blocks) {
  const auto refuse_all = [&] {
    for (Outgoing& block : blocks) block.refusal = Outgoing::Refusal::kLost;
  };
  // Without the lock: to kill a lane may take a while.
  if (lost()) return refuse_all();
  // Once the blocks are posted they may end, and with them the last run that uses the lane.
  const std::shared_ptr<LanePort> self = shared_from_this();
  MutexLock lock(calls_);
  slots_.clear();
  posts_.clear();
  for (size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
    // The blocks of one gang, or a single block.
    const BlockTicket& first = blocks[begin].ticket;
    const bool gang = (first.run->image().tasks()[first.task].traits & kTaskGang) != 0;
    for (end = begin + 1; gang && end < blocks.size(); ++end) {
      if (blocks[end].ticket.run != first.run || blocks[end].ticket.task != first.task) break;
    }
    const absl::Span<Outgoing> together = blocks.subspan(begin, end - begin);
    // A stop comes before Cancel, and Cancel needs the lock: what is not seen here is cancelled
    // later.
    const Outgoing::Refusal refusal = Check(together[0]);
    for (Outgoing& block : together) {
      block.refusal = refusal;
      if (refusal != Outgoing::Refusal::kNone) continue;
      PostSlot& slot = reports_->table().Take();
      Fill(block, slot);
      if (gang) slot.post.gang_size = static_cast<uint32_t>(together.size());
      slots_.push_back(&slot);
      posts_.push_back(&slot.post);
    }
  }
  if (posts_.empty()) return;
  reports_->table().Begin(slots_);
  lane_->Post(posts_);
  if (limit_ != nullptr && !limit_->armed()) limit_->Arm(clock_.NowNanos() + limit_ns_);
}

void LanePort::Cancel(const Run& run, bool late_only) {
  if (lost()) return;
  MutexLock lock(calls_);
  if (lost()) return;
  ids_.clear();
  ids_.reserve(reports_->table().counts().outstanding);
  const int64_t now_ns = clock_.NowNanos();
  reports_->table().Cancel(
      [&](const PostSlot& slot) {
        if (slot.ticket.run != &run) return false;
        return !late_only ||
               (slot.long_task != nullptr && slot.long_task->late.load(std::memory_order_acquire));
      },
      now_ns, &ids_);
  if (ids_.empty()) return;
  lane_->Cancel(ids_);
  grace_.Arm(now_ns + grace_ns_);
}

bool LanePort::WorthPolling() const {
  static const auto most_ticks = static_cast<uint64_t>(kShortMicroseconds * TicksPerMicrosecond());
  const PostTable& table = reports_->table();
  return table.has_open() && table.typical_ticks() < most_ticks && !lost();
}

void LanePort::Poll(absl::FunctionRef<bool()> enough) {
  if (!lane_->BeginPoll()) return;
  while (!enough()) {
    lane_->Poll();
    Pause();
  }
  lane_->EndPoll();
}

void LanePort::EndRun(const Run& run) {
  // Without the lock: to kill a lane may take a while.
  if (lost()) return;
  MutexLock lock(calls_);
  const auto found = runs_.find(&run);
  if (found == runs_.end()) return;
  const uint64_t number = found->second;
  runs_.erase(found);
  if (!lost()) lane_->EndRun(number);
}

int64_t LanePort::CheckGrace() {
  // The end of a lost post may take the last owner along.
  const std::shared_ptr<LanePort> self = weak_from_this().lock();
  if (self == nullptr) return 0;
  PostId id = 0;
  int64_t cancelled_ns = 0;
  if (lost() || !reports_->table().FirstCancelled(&id, &cancelled_ns)) return 0;
  const int64_t until_ns = cancelled_ns + grace_ns_;
  if (clock_.NowNanos() < until_ns) return until_ns;
  Lose(absl::StrCat("it did not end a cancelled block within ",
                    absl::FormatDuration(absl::Nanoseconds(grace_ns_))),
       id);
  return 0;
}

void LanePort::Lose(absl::string_view what, PostId running) {
  {
    // Who sees that the lane is lost can also read why.
    MutexLock lock(why_mutex_);
    State open = State::kOpen;
    if (!state_.compare_exchange_strong(open, State::kLosing, std::memory_order_acq_rel)) return;
    why_lost_ = absl::StrCat("lane '", name_, "' was lost: ", what);
    std::string& why = why_lost_;
    reports_->table().Visit(running, [&why](const PostSlot& slot) {
      absl::StrAppend(&why, ", in ", TaskData::Subject(*slot.ticket.run, slot.ticket.task),
                      "kernel '", slot.post.kernel->name(), "' in ", TaskData::Place(slot.ticket));
    });
  }
  PostTable::Ended ended;
  {
    MutexLock lock(calls_);
    lane_->Kill();
    state_.store(State::kLost, std::memory_order_release);
    reports_->table().LoseAll(&ended);
  }
  reports_->Pass(ended);
}

void LanePort::Bury(LaneDeath& death) {
  const std::shared_ptr<LanePort> port = std::move(death.port);
  port->Lose(death.what, death.running);
}

std::string LanePort::why_lost() const {
  MutexLock lock(why_mutex_);
  return why_lost_;
}

}  // namespace pto::engine
