#include "comm/collective_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "comm/status.h"
#include "kernels/dtype.h"
#include "runtime/base/status_macros.h"

namespace pto::comm {
namespace {

const char* KindName(uint32_t kind) {
  constexpr const char* kNames[] = {"?",          "broadcast",      "all_reduce",
                                    "all_gather", "reduce_scatter", "all_to_all"};
  return kind < std::size(kNames) ? kNames[kind] : "?";
}

const char* OpName(uint32_t op) {
  constexpr const char* kNames[] = {"", "SUM", "PROD", "MAX", "MIN"};
  return op < std::size(kNames) ? kNames[op] : "?";
}

std::string Describe(const CollectiveCall& call) {
  std::string text = absl::StrCat(KindName(call.kind), " of ", call.count);
  if (call.dtype == 0) {
    absl::StrAppend(&text, " bytes");
  } else {
    absl::StrAppend(&text, " ", kernels::DtypeName(call.dtype), " ", OpName(call.op));
  }
  if (call.kind == static_cast<uint32_t>(CollectiveKind::kBroadcast)) {
    absl::StrAppend(&text, " from member ", call.root);
  }
  return text;
}

// Whether Await gave up at its deadline; errors of a member that timed out have a text.
bool IsTimeout(const absl::Status& status) {
  return !status.ok() && absl::IsDeadlineExceeded(status) && status.message().empty();
}

}  // namespace

CollectiveSteps::CollectiveSteps(MappedWindow& window, const CollectiveCall& call, int64_t deadline)
    : window_(window),
      call_(call),
      deadline_(deadline),
      entry_(window.words(window.index()).step.load(std::memory_order_relaxed) + 1),
      step_(entry_ - 1) {}

absl::Status CollectiveSteps::Finish(const absl::Status& status) {
  if (status.ok()) return status;
  if (!window_.failure().ok()) {
    return Broken(absl::StrCat("a collective failed here before: ", window_.failure().message()));
  }
  window_.set_failure(status);
  WindowHeader& header = window_.header();
  uint32_t whole = 0;
  if (header.broken.compare_exchange_strong(whole, 1)) {
    header.broken_by.Set(WindowHeader::kBroken, status);
  }
  return status;
}

absl::StatusOr<std::byte*> CollectiveSteps::MessageSlot() {
  if (window_.header().broken.load(std::memory_order_relaxed) != 0) {
    // The first member to fail may not have written its error yet.
    PTO_RETURN_IF_ERROR(window_.failure());
    PTO_RETURN_IF_ERROR(window_.header().broken_by.Get(WindowHeader::kBroken));
  }
  // The slot was used kCalls steps ago; members that are one step further have read it.
  if (window_.all_reached() + MemberWords::kCalls <= entry_) {
    // Others may have advanced. If not, wait for more than one free slot: checking another's step
    // for every call would bounce its cache line.
    uint64_t reached = ~uint64_t{0};
    for (uint32_t peer = 0; peer < count(); ++peer) {
      if (peer == me()) continue;
      PTO_RETURN_IF_ERROR(AwaitStep(peer, entry_ - MemberWords::kLead));
      reached = std::min(reached, window_.words(peer).step.load(std::memory_order_acquire));
    }
    window_.set_all_reached(reached);
  }
  return window_.call_slot(me(), entry_).message;
}

void CollectiveSteps::Enter() {
  CallSlot& slot = window_.call_slot(me(), entry_);
  slot.call = call_;
  slot.entry.store(entry_, std::memory_order_release);
  Publish();
  window_.set_history(call_.NextHistory());
}

absl::Status CollectiveSteps::AwaitCall(uint32_t peer) {
  absl::Status status = AwaitWord(peer, window_.call_slot(peer, entry_).entry, entry_,
                                  [&] { return CheckOrder(peer); });
  if (!status.ok()) {
    if (!IsTimeout(status)) return status;
    return TimedOut(absl::StrCat(
        window_.RankName(peer), " is at step ", window_.words(peer).step.load(),
        " of the collectives in ", window_.Name(), " and has not called the one that begins with ",
        "step ", entry_, "; ", window_.RankName(me()), " waited for it in ", Describe(call_)));
  }
  if (count() == 2) window_.set_all_reached(entry_);
  const CollectiveCall& its = CallOf(peer);
  if (!its.Matches(call_)) {
    return Mismatch(absl::StrCat(window_.RankName(me()), " calls ", Describe(call_), "; ",
                                 window_.RankName(peer), " calls ", Describe(its)));
  }
  if (its.history == call_.history) return absl::OkStatus();
  return Mismatch(absl::StrCat(window_.RankName(me()), " and ", window_.RankName(peer),
                               " both call ", Describe(call_), " in ", window_.Name(),
                               ", but their earlier calls there differ"));
}

absl::Status CollectiveSteps::CheckOrder(uint32_t peer) const {
  // A member records its call before it publishes that step. So a member that has reached this step
  // without a call there passed it in another collective.
  const uint64_t step = window_.words(peer).step.load(std::memory_order_acquire);
  const CallSlot& slot = window_.call_slot(peer, entry_);
  if (step < entry_ || slot.entry.load(std::memory_order_acquire) >= entry_) {
    return absl::OkStatus();
  }
  return Mismatch(absl::StrCat(window_.RankName(me()), " calls ", Describe(call_), " at step ",
                               entry_, " of the collectives in ", window_.Name(), "; ",
                               window_.RankName(peer), " is at step ", step,
                               " without a call there, so their earlier calls differ"));
}

absl::Status CollectiveSteps::AwaitCalls() {
  for (uint32_t i = 1; i < count(); ++i) {
    PTO_RETURN_IF_ERROR(AwaitCall((me() + i) % count()));
  }
  window_.set_all_reached(entry_);
  return absl::OkStatus();
}

void CollectiveSteps::Publish() {
  MemberWords& words = window_.words(me());
  words.step.store(++step_, std::memory_order_release);
  words.step_bell.Ring();
}

absl::Status CollectiveSteps::Await(uint32_t peer, int64_t ahead) {
  return AwaitStep(peer, step_ + static_cast<uint64_t>(ahead));
}

absl::Status CollectiveSteps::AwaitAll(int64_t ahead) {
  const uint64_t step = step_ + static_cast<uint64_t>(ahead);
  for (uint32_t i = 1; i < count(); ++i) {
    PTO_RETURN_IF_ERROR(AwaitStep((me() + i) % count(), step));
  }
  window_.set_all_reached(step);
  return absl::OkStatus();
}

absl::Status CollectiveSteps::AwaitStep(uint32_t peer, uint64_t step) {
  const std::atomic<uint64_t>& word = window_.words(peer).step;
  absl::Status status = AwaitWord(peer, word, step, [] { return absl::OkStatus(); });
  if (!IsTimeout(status)) return status;
  return TimedOut(absl::StrCat(window_.RankName(peer), " is at step ", word.load(), ", not ", step,
                               ", of the collectives in ", window_.Name(), "; ",
                               window_.RankName(me()), " waited for it in ", Describe(call_)));
}

absl::Status CollectiveSteps::AwaitWord(uint32_t peer, const std::atomic<uint64_t>& word,
                                        uint64_t step, absl::FunctionRef<absl::Status()> trouble) {
  if (peer == me()) return absl::OkStatus();
  const auto any_trouble = [&]() -> absl::Status {
    const absl::Status members = window_.CheckMembers(Only(peer));
    // Check this after the members: a member that has left may have failed here and reported it
    // before.
    PTO_RETURN_IF_ERROR(window_.header().broken_by.Get(WindowHeader::kBroken));
    PTO_RETURN_IF_ERROR(members);
    return trouble();
  };
  return pto::comm::Await([&] { return word.load(std::memory_order_acquire) >= step; },
                          window_.words(peer).step_bell, window_.patience(), deadline_,
                          any_trouble);
}

}  // namespace pto::comm
