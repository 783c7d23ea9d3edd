#include "comm/mapped_window.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/status.h"
#include "kernels/comparison.h"
#include "runtime/base/status_macros.h"

namespace pto::comm {

MappedWindow::MappedWindow(Job& job, const WindowSpec& spec)
    : job_(job),
      spec_(spec),
      layout_(WindowLayout::For(static_cast<uint32_t>(spec.ranks.size()), spec.bytes,
                                spec.signal_count, spec.scratch_bytes)),
      patience_(Patience::For(static_cast<uint32_t>(spec.ranks.size()))) {}

absl::StatusOr<std::unique_ptr<Window>> MappedWindow::Create(Job& job, const WindowSpec& spec,
                                                             int64_t deadline) {
  std::unique_ptr<MappedWindow> window(new MappedWindow(job, spec));
  absl::Status status = window->Attach(deadline);
  if (status.ok()) status = window->AwaitAttached(deadline);
  if (status.ok()) return {std::move(window)};
  // If creation fails at one member, it fails at all.
  job.FailWindow(spec.id, status);
  if (window->segment_ != nullptr) {
    WindowHeader& header = *window->header_;
    uint32_t none = 0;
    if (header.refused.compare_exchange_strong(none, 1)) {
      header.refused_by.Set(WindowHeader::kRefused, status);
    }
    header.bell.Ring();
    job.store().Remove(job.WindowName(spec.id), *window->segment_);
  }
  return status;
}

std::string MappedWindow::Name() const { return absl::StrCat("window ", spec_.id); }

absl::StatusOr<std::unique_ptr<Segment>> MappedWindow::OpenSegment() const {
  const std::string name = job_.WindowName(spec_.id);
  WindowFacts facts;
  // The length must match the window's own facts. Whether those match this member's is checked
  // later, because that error must reach all members, which takes the mapped window.
  return job_.store().Open(name, BytesOf(facts), [&](size_t size) {
    return CheckPrefix(name, facts.prefix, size, SegmentPrefix::kWindow,
                       WindowLayout::For(facts).total);
  });
}

absl::Status MappedWindow::Attach(int64_t deadline) {
  const std::string name = job_.WindowName(spec_.id);
  PTO_RETURN_IF_ERROR(job_.WindowFailure(spec_.id));
  absl::StatusOr<std::unique_ptr<Segment>> segment = absl::NotFoundError("");
  if (spec_.index == 0) {
    segment = job_.store().Publish(name, layout_.total, [&](std::byte* data) {
      WindowFacts& facts = reinterpret_cast<WindowHeader*>(data)->facts;
      facts.prefix = {SegmentPrefix::kMagic, SegmentPrefix::kVersion, SegmentPrefix::kWindow,
                      layout_.total, job_.store().Identity()};
      facts.id = spec_.id;
      facts.bytes = spec_.bytes;
      facts.signal_count = spec_.signal_count;
      facts.scratch_bytes = spec_.scratch_bytes;
      facts.rank_count = count();
      std::copy(spec_.ranks.begin(), spec_.ranks.end(), facts.ranks);
    });
    job_.bell().Ring();
  }
  // If the first member finds that the window exists, it will see below that another member also
  // believes to be the first.
  if (spec_.index != 0 || absl::IsAlreadyExists(segment.status())) {
    absl::Status failure;
    absl::Status status = Await(
        [&] {
          segment = OpenSegment();
          failure = job_.WindowFailure(spec_.id);
          return !absl::IsNotFound(segment.status()) || !failure.ok();
        },
        job_.bell(), Patience{.spins = 0, .yield_nanos = 0}, deadline,
        [&] { return CheckMembers(AllOf(count())); });
    if (absl::IsDeadlineExceeded(status)) {
      return TimedOut(absl::StrCat("rank ", spec_.ranks[0], " did not make ", Name(),
                                   " in time; rank ", job_.rank(), " waited for it"));
    }
    PTO_RETURN_IF_ERROR(status);
    PTO_RETURN_IF_ERROR(failure);
  }
  PTO_RETURN_IF_ERROR(segment.status());
  segment_ = *std::move(segment);
  header_ = reinterpret_cast<WindowHeader*>(segment_->data());
  return CheckSame();
}

absl::Status MappedWindow::CheckSame() const {
  const WindowFacts& facts = header_->facts;
  const std::string maker = absl::StrCat("rank ", facts.ranks[0]);
  const auto differ = [&](absl::string_view what, uint64_t mine, uint64_t its) {
    return Mismatch(absl::StrCat("rank ", job_.rank(), " asks for ", Name(), " with ", mine, " ",
                                 what, "; ", maker, " made it with ", its));
  };
  const auto ranks = absl::MakeConstSpan(facts.ranks)
                         .first(std::min<size_t>(facts.rank_count, PTO_COMM_MAX_RANKS));
  if (ranks != absl::MakeConstSpan(spec_.ranks)) {
    return Mismatch(absl::StrCat("rank ", job_.rank(), " asks for ", Name(), " of ranks ",
                                 absl::StrJoin(spec_.ranks, ","), "; ", maker, " made it of ranks ",
                                 absl::StrJoin(ranks, ",")));
  }
  if (facts.bytes != spec_.bytes) return differ("bytes per rank", spec_.bytes, facts.bytes);
  if (facts.signal_count != spec_.signal_count) {
    return differ("signals", spec_.signal_count, facts.signal_count);
  }
  if (facts.scratch_bytes != spec_.scratch_bytes) {
    return differ("bytes of scratch", spec_.scratch_bytes, facts.scratch_bytes);
  }
  return absl::OkStatus();
}

bool MappedWindow::Close() {
  uint32_t attached = header_->attached.load();
  do {
    if (attached == header_->facts.rank_count) return false;
  } while (!header_->attached.compare_exchange_weak(attached, attached | WindowHeader::kClosed));
  return true;
}

absl::Status MappedWindow::AwaitAttached(int64_t deadline) {
  const uint32_t all = count();
  words(index()).state.store(MemberWords::kAttached);
  attached_ = true;
  uint32_t attached = header_->attached.load();
  while ((attached & WindowHeader::kClosed) == 0 &&
         !header_->attached.compare_exchange_weak(attached, attached + 1)) {
  }
  if (attached + 1 == all) {
    // The name is no longer needed. Removing it now leaves nothing behind after a crash.
    job_.store().Remove(job_.WindowName(spec_.id), *segment_);
  }
  header_->bell.Ring();
  const auto absent = [&] {
    RankSet set = 0;
    for (uint32_t i = 0; i < all; ++i) {
      if (words(i).state.load() == MemberWords::kAbsent) set |= Only(i);
    }
    return set;
  };
  absl::Status failure;
  absl::Status status = Await(
      [&] {
        if (header_->attached.load() == all) return true;
        failure = header_->refused_by.Get(WindowHeader::kRefused);
        if (failure.ok()) failure = job_.WindowFailure(spec_.id);
        return !failure.ok();
      },
      header_->bell, patience_, deadline, [&] { return CheckMembers(absent()); });
  if (absl::IsDeadlineExceeded(status)) {
    status = TimedOut(absl::StrCat(List(absent()), " did not join ", Name(), " in time; rank ",
                                   job_.rank(), " waited"));
  }
  // Either all members get the window or none.
  if (!Close()) return absl::OkStatus();
  if (status.ok()) status = failure;
  if (status.ok()) status = RankLost(absl::StrCat("a member of ", Name(), " gave up"));
  return status;
}

MappedWindow::~MappedWindow() {
  if (attached_) words(index()).state.store(MemberWords::kLeft);
}

RankSet MappedWindow::Left() const {
  RankSet left = 0;
  for (uint32_t i = 0; i < count(); ++i) {
    const bool window = header_ != nullptr && words(i).state.load() == MemberWords::kLeft;
    if (window || job_.HasLeft(spec_.ranks[i])) left |= Only(i);
  }
  return left;
}

absl::Status MappedWindow::CheckMembers(RankSet needed) const {
  PTO_RETURN_IF_ERROR(job_.CheckAlive(spec_.ranks));
  const RankSet left = Left();
  if ((left & needed) == 0) return absl::OkStatus();
  return job_.LeftError(spec_.ranks, left, Name());
}

absl::Status MappedWindow::Put(uint32_t peer, uint64_t offset, const void* from, uint64_t bytes) {
  std::memcpy(data(peer) + offset, from, bytes);
  return absl::OkStatus();
}

absl::Status MappedWindow::Get(uint32_t peer, uint64_t offset, void* to, uint64_t bytes) {
  std::memcpy(to, data(peer) + offset, bytes);
  return absl::OkStatus();
}

absl::Status MappedWindow::Notify(uint32_t peer, uint32_t index, pto_notify_op op, int64_t value) {
  std::atomic<int64_t>& word = signal(peer, index);
  op == PTO_ADD ? word.fetch_add(value) : word.exchange(value);
  words(peer).signal_bell.Ring();
  return absl::OkStatus();
}

int64_t MappedWindow::ReadSignal(uint32_t signal_index) const {
  return signal(index(), signal_index).load();
}

absl::Status MappedWindow::Wait(uint32_t signal_index, pto_compare compare, int64_t value,
                                int64_t deadline, int64_t* seen) {
  const std::atomic<int64_t>& word = signal(index(), signal_index);
  const auto ready = [&] {
    *seen = word.load(std::memory_order_acquire);
    return Compares(compare, *seen, value);
  };
  // Any member may notify, so the wait fails only if all others have left.
  const auto trouble = [&]() -> absl::Status {
    PTO_RETURN_IF_ERROR(CheckMembers(0));
    const RankSet others = AllOf(count()) & ~Only(index());
    if (others == 0 || (Left() & others) != others) return absl::OkStatus();
    return RankLost(
        absl::StrCat("all other members have left ", Name(), ", as ", List(others), " did"));
  };
  absl::Status status = Await(ready, words(index()).signal_bell, patience_, deadline, trouble);
  if (!absl::IsDeadlineExceeded(status)) return status;
  return TimedOut(absl::StrCat("signal ", signal_index, " of rank ", job_.rank(), " in ", Name(),
                               " is ", *seen, ", not ", CompareText(compare), " ", value,
                               ", and nobody notified it in time"));
}

absl::Status MappedWindow::Barrier(int64_t deadline) {
  RankSet missing = 0;
  absl::Status status = header_->barrier.Pass(
      index(), count(), patience_, deadline, [&](RankSet absent) { return CheckMembers(absent); },
      &missing);
  if (!absl::IsDeadlineExceeded(status)) return status;
  return TimedOut(
      absl::StrCat(List(missing), " did not reach the barrier of ", Name(), " in time"));
}

}  // namespace pto::comm
