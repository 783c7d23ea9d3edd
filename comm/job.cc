#include "comm/job.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/mapped_window.h"
#include "comm/status.h"
#include "runtime/base/status_macros.h"

namespace pto::comm {
namespace {

constexpr std::array<uint32_t, PTO_COMM_MAX_RANKS> kEveryRank = [] {
  std::array<uint32_t, PTO_COMM_MAX_RANKS> ranks{};
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}();

uint64_t RandomNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

std::string ListRanks(absl::Span<const uint32_t> ranks, RankSet set) {
  std::vector<uint32_t> listed;
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    if ((set & Only(i)) != 0) listed.push_back(ranks[i]);
  }
  std::string text = listed.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < listed.size(); ++i) {
    const char* separator = i == 0 ? "" : i + 1 == listed.size() ? " and " : ", ";
    absl::StrAppend(&text, separator, listed[i]);
  }
  return text;
}

Job::Job(std::shared_ptr<SegmentStore> store, const JoinSpec& spec)
    : store_(std::move(store)),
      spec_(spec),
      identity_(store_->Identity()),
      patience_(Patience::For(spec.size)) {}

absl::StatusOr<std::unique_ptr<Communicator>> Job::Join(std::shared_ptr<SegmentStore> store,
                                                        const JoinSpec& spec) {
  std::unique_ptr<Job> job(new Job(std::move(store), spec));
  job->store_->Sweep();
  while (true) {
    PTO_ASSIGN_OR_RETURN(bool ready, job->Attach());
    if (ready) {
      PTO_ASSIGN_OR_RETURN(ready, job->TakeSlot());
    }
    if (ready) break;
    // Another rank is removing the existing files.
    if (NowNanos() >= spec.deadline) {
      return TimedOut(
          absl::StrCat("rank ", spec.rank, " of job '", spec.name,
                       "' found files of an earlier job that were not removed in time"));
    }
    Pause();
  }
  PTO_RETURN_IF_ERROR(job->AwaitAll());
  job->joined_ = true;
  return {std::move(job)};
}

absl::StatusOr<std::unique_ptr<Segment>> Job::OpenSegment() const {
  SegmentPrefix prefix;
  return store_->Open(spec_.name, BytesOf(prefix), [&](size_t size) {
    return CheckPrefix(spec_.name, prefix, size, SegmentPrefix::kJob, sizeof(JobLayout));
  });
}

absl::StatusOr<bool> Job::Attach() {
  layout_ = nullptr;
  absl::StatusOr<std::unique_ptr<Segment>> segment = OpenSegment();
  if (absl::IsNotFound(segment.status())) {
    segment = store_->Publish(spec_.name, sizeof(JobLayout), [&](std::byte* data) {
      auto* job = reinterpret_cast<JobLayout*>(data);
      job->prefix = {SegmentPrefix::kMagic, SegmentPrefix::kVersion, SegmentPrefix::kJob,
                     sizeof(JobLayout), identity_};
      job->generation = spec_.generation;
      job->nonce = RandomNumber();
      job->size = spec_.size;
      job->creator_rank = spec_.rank;
    });
    if (absl::IsAlreadyExists(segment.status())) return false;
  }
  PTO_RETURN_IF_ERROR(segment.status());
  if (IsAbandoned(**segment, *store_)) {
    store_->Remove(spec_.name, **segment);
    return false;
  }
  segment_ = *std::move(segment);
  layout_ = reinterpret_cast<JobLayout*>(segment_->data());
  const std::string who = absl::StrCat("rank ", layout_->creator_rank, " (",
                                       store_->Describe(layout_->prefix.creator), ")");
  if (layout_->generation != spec_.generation) {
    return InUse(absl::StrCat("job '", spec_.name, "' is already running: ", who,
                              " started it with generation ", layout_->generation, "; rank ",
                              spec_.rank, " came with generation ", spec_.generation));
  }
  if (layout_->size != spec_.size) {
    return Mismatch(absl::StrCat("rank ", spec_.rank, " says that job '", spec_.name, "' has ",
                                 spec_.size, " ranks; ", who, " started it with ", layout_->size));
  }
  return true;
}

absl::StatusOr<bool> Job::TakeSlot() {
  RankSlot& slot = layout_->slots[spec_.rank];
  uint64_t holder = 0;
  if (!slot.identity.compare_exchange_strong(holder, identity_)) {
    const std::string whose = absl::StrCat("rank ", spec_.rank, " of job '", spec_.name,
                                           "', generation ", spec_.generation, ", ");
    if (store_->Alive(holder)) {
      return InUse(absl::StrCat(whose, "is taken by ", store_->Describe(holder)));
    }
    return RankLost(absl::StrCat(whose, "was ", store_->Describe(holder),
                                 ", which has died, and others of that job still run"));
  }
  uint32_t present = layout_->present.load();
  do {
    if ((present & JobLayout::kClosed) != 0) return false;
  } while (!layout_->present.compare_exchange_weak(present, present + 1));
  layout_->bell.Ring();
  return true;
}

absl::Status Job::CheckPresent() const {
  const bool closed = (layout_->present.load() & JobLayout::kClosed) != 0;
  for (uint32_t rank = 0; rank < spec_.size; ++rank) {
    const uint64_t identity = layout_->slots[rank].identity.load();
    if (identity == 0 || store_->Alive(identity)) continue;
    return RankLost(absl::StrCat(DescribeRank(rank), " of job '", spec_.name,
                                 "' died before all ranks had joined"));
  }
  if (closed) {
    return RankLost(absl::StrCat("job '", spec_.name, "' was abandoned: one of its ranks died"));
  }
  return absl::OkStatus();
}

absl::Status Job::AwaitAll() {
  absl::Status status = Await([&] { return layout_->present.load() == spec_.size; }, layout_->bell,
                              patience_, spec_.deadline, [&] { return CheckPresent(); });
  if (status.ok()) return status;
  RankSet missing = 0;
  for (uint32_t rank = 0; rank < spec_.size; ++rank) {
    if (layout_->slots[rank].identity.load() == 0) missing |= Only(rank);
  }
  if (!Withdraw(/*close=*/!absl::IsDeadlineExceeded(status))) return absl::OkStatus();
  if (!absl::IsDeadlineExceeded(status)) return status;
  return TimedOut(absl::StrCat(ListRanks(kEveryRank, missing), " of job '", spec_.name,
                               "' did not join in time; rank ", spec_.rank, " is one of ",
                               spec_.size, " and waited"));
}

bool Job::Withdraw(bool close) {
  uint32_t present = layout_->present.load();
  uint32_t fewer = 0;
  do {
    if (present == spec_.size) return false;
    // The last rank to leave closes the job, so that no rank waits in a job that has lost its name.
    close = close || present == 1 || (present & JobLayout::kClosed) != 0;
    fewer = close ? JobLayout::kClosed : present - 1;
  } while (!layout_->present.compare_exchange_weak(present, fewer));
  // A closed job keeps its slots, so that the others can still see which rank died.
  if (close) {
    store_->Remove(spec_.name, *segment_);
  } else {
    layout_->slots[spec_.rank].identity.store(0);
  }
  return true;
}

Job::~Job() {
  if (!joined_) return;
  uint32_t here = RankSlot::kHere;
  layout_->slots[spec_.rank].state.compare_exchange_strong(here, RankSlot::kLeft);
  for (uint32_t rank = 0; rank < spec_.size; ++rank) {
    const RankSlot& slot = layout_->slots[rank];
    if (rank != spec_.rank && slot.state.load() == RankSlot::kHere &&
        store_->Alive(slot.identity.load())) {
      return;
    }
  }
  store_->Remove(spec_.name, *segment_);
}

void Job::Abort(absl::string_view why) {
  RankSlot& slot = layout_->slots[spec_.rank];
  slot.abort.Set(RankSlot::kAborted,
                 RankLost(absl::StrCat(DescribeRank(spec_.rank), " aborted: ", why)));
  slot.state.store(RankSlot::kAborted);
}

bool Job::HasLeft(uint32_t rank) const {
  return layout_->slots[rank].state.load() == RankSlot::kLeft;
}

absl::Status Job::CheckAlive(absl::Span<const uint32_t> ranks) const {
  RankSet dead = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankSlot& slot = layout_->slots[ranks[i]];
    if (ranks[i] != spec_.rank && slot.state.load() == RankSlot::kHere &&
        !store_->Alive(slot.identity.load())) {
      dead |= Only(i);
    }
  }
  // After that, since a rank may have ended because another one had aborted: that is the cause.
  for (const uint32_t rank : ranks) {
    const RankSlot& slot = layout_->slots[rank];
    if (slot.state.load() == RankSlot::kAborted) {
      PTO_RETURN_IF_ERROR(slot.abort.Get(RankSlot::kAborted));
    }
  }
  if (dead == 0) return absl::OkStatus();
  // It is not known which of them was the first.
  if ((dead & (dead - 1)) != 0) return RankLost(absl::StrCat(ListRanks(ranks, dead), " have died"));
  return RankLost(absl::StrCat(DescribeRank(ranks[std::countr_zero(dead)]), " has died"));
}

absl::Status Job::LeftError(absl::Span<const uint32_t> ranks, RankSet left,
                            absl::string_view what) const {
  if (left == 0) return absl::OkStatus();
  if ((left & (left - 1)) != 0) {
    return RankLost(absl::StrCat(ListRanks(ranks, left), " have left ", what));
  }
  return RankLost(absl::StrCat(DescribeRank(ranks[std::countr_zero(left)]), " has left ", what));
}

absl::Status Job::Barrier(int64_t deadline) {
  const auto ranks = absl::MakeConstSpan(kEveryRank).first(spec_.size);
  RankSet missing = 0;
  absl::Status status = layout_->barrier.Pass(
      spec_.rank, spec_.size, patience_, deadline,
      [&](RankSet absent) -> absl::Status {
        PTO_RETURN_IF_ERROR(CheckAlive(ranks));
        RankSet left = 0;
        for (const uint32_t rank : ranks) {
          if (HasLeft(rank)) left |= Only(rank);
        }
        return LeftError(ranks, absent & left, absl::StrCat("job '", spec_.name, "'"));
      },
      &missing);
  if (!absl::IsDeadlineExceeded(status)) return status;
  return TimedOut(absl::StrCat(ListRanks(ranks, missing), " of job '", spec_.name,
                               "' did not reach the barrier in time"));
}

std::string Job::DescribeRank(uint32_t rank) const {
  return absl::StrCat("rank ", rank, " (", store_->Describe(layout_->slots[rank].identity.load()),
                      ")");
}

std::string Job::WindowName(uint64_t id) const {
  return absl::StrCat(spec_.name, "@", absl::Hex(layout_->nonce, absl::kZeroPad16), "@w", id);
}

void Job::FailWindow(uint64_t id, const absl::Status& error) {
  const uint32_t place = failed_windows_.fetch_add(1) % RankSlot::kFailures;
  layout_->slots[spec_.rank].failed_windows[place].Set(id + 1, error);
  layout_->bell.Ring();
}

absl::Status Job::WindowFailure(uint64_t id) const {
  for (uint32_t rank = 0; rank < spec_.size; ++rank) {
    for (const SharedError& failure : layout_->slots[rank].failed_windows) {
      PTO_RETURN_IF_ERROR(failure.Get(id + 1));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Window>> Job::CreateWindow(const WindowSpec& spec,
                                                          int64_t deadline) {
  return MappedWindow::Create(*this, spec, deadline);
}

}  // namespace pto::comm
