#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/block.h"
#include "kernels/collectives/kernels.h"
#include "kernels/collectives/launch_check.h"
#include "kernels/collectives/transfer.h"

// Collectives in which every rank has different data for each other rank.
namespace pto::kernels::collectives {
namespace {

constexpr uint32_t kCounts = PTO_DTYPE_BIT(PTO_I64);
constexpr pto_argument_info kArguments[] = {{"in", PTO_INPUT, kMovable},
                                            {"out", PTO_OUTPUT, kMovable}};
constexpr pto_argument_info kVariableArguments[] = {{"in", PTO_INPUT, kMovable},
                                                    {"send_counts", PTO_INPUT, kCounts},
                                                    {"out", PTO_OUTPUT, kMovable},
                                                    {"recv_counts", PTO_INPUT, kCounts}};
// The plan checks for overlaps.
constexpr pto_overlap_info kVariableOverlaps[] = {
    {},
    {},
    {.same = 0, .any = PTO_ARGUMENT_BIT(0) | PTO_ARGUMENT_BIT(1) | PTO_ARGUMENT_BIT(3)},
    {}};
constexpr uint32_t kIn = 0;
constexpr uint32_t kOut = 1;
constexpr uint32_t kSendCounts = 1;
constexpr uint32_t kVariableOut = 2;
constexpr uint32_t kRecvCounts = 3;

void Swap(const Call& call, std::byte* a, std::byte* b, int64_t bytes) {
  std::byte tile[4096];
  for (int64_t at = 0; at < bytes; at += sizeof tile) {
    const auto length = static_cast<size_t>(std::min<int64_t>(sizeof tile, bytes - at));
    if (!call.Spend(static_cast<int64_t>(4 * length))) return;
    std::memcpy(tile, a + at, length);
    std::memcpy(a + at, b + at, length);
    std::memcpy(b + at, tile, length);
  }
}

// Exchanges elements [begin, end) between ranks i and j. A rank that works in place must send
// before it receives.
void Exchange(const Call& call, uint32_t i, uint32_t j, int64_t count, int64_t begin, int64_t end) {
  const bool i_in_place = call.at(i, kIn) == call.at(i, kOut);
  const bool j_in_place = call.at(j, kIn) == call.at(j, kOut);
  if (i == j && i_in_place) return;
  const auto give = [&](uint32_t from, uint32_t to) {
    std::byte* const out = call.at(to, kOut, from * count + begin);
    call.Copy(call.at(from, kIn, to * count + begin), {&out, 1}, end - begin, false);
  };
  if (i_in_place && j_in_place) {
    Swap(call, call.at(i, kOut, j * count + begin), call.at(j, kOut, i * count + begin),
         (end - begin) * call.element_bytes());
    return;
  }
  if (j_in_place) std::swap(i, j);
  give(i, j);
  if (i != j) give(j, i);
}

int64_t PairCount(int64_t ranks) { return ranks * (ranks + 1) / 2; }

// Pair number `index` of those with i <= j, row by row.
void PairAt(int64_t index, uint32_t ranks, uint32_t* i, uint32_t* j) {
  *i = 0;
  while (index >= ranks - *i) index -= ranks - (*i)++;
  *j = *i + static_cast<uint32_t>(index);
}

int32_t AllToAll(const pto_context* context) {
  const Call call(context);
  const uint32_t ranks = call.ranks();
  const int64_t count = call.count(0, kIn) / ranks;
  bool in_place = false;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    in_place |= call.at(rank, kIn) == call.at(rank, kOut);
  }
  if (in_place) {
    ForParts(call.ShareOf(PairCount(ranks) * count, 4), count,
             [&](uint32_t pair, int64_t begin, int64_t end) {
               uint32_t i = 0;
               uint32_t j = 0;
               PairAt(pair, ranks, &i, &j);
               Exchange(call, i, j, count, begin, end);
             });
    return 0;
  }
  const int64_t total = count * ranks * ranks;
  const bool stream = call.IsLong(total);
  ForParts(call.ShareOf(total, 2), count, [&](uint32_t part, int64_t begin, int64_t end) {
    const uint32_t to = part / ranks;
    const uint32_t from = part % ranks;
    std::byte* const out = call.at(to, kOut, from * count + begin);
    call.Copy(call.at(from, kIn, to * count + begin), {&out, 1}, end - begin, stream);
  });
  return 0;
}

// Reads a count once, so that a concurrent writer cannot change it between its check and its use.
int64_t CountAt(const Call& call, uint32_t rank, uint32_t argument, uint32_t other) {
  return __atomic_load_n(call.counts(rank, argument) + other, __ATOMIC_RELAXED);
}

// The plan has checked the counts; changing them later breaks the agreement of the ranks.
int32_t CountsChanged(const pto_context* context, const std::string& text) {
  return Fail(context, absl::StrCat("all_to_all_v: ", text, ": the counts have changed"));
}

// The start of the elements that each rank sends: in its own tensor, or in the saved copy.
struct Sources {
  // Returns the value that the kernel has to return.
  int32_t Find(const Call& call, const pto_context* context) {
    int64_t aside = 0;
    for (uint32_t rank = 0; rank < call.ranks(); ++rank) {
      at[rank] =
          call.phases() == 1 ? call.at(rank, kIn) : call.workspace() + aside * call.element_bytes();
      const int64_t have = call.count(rank, kIn);
      aside += have;
      int64_t sent = 0;
      for (uint32_t to = 0; to < call.ranks(); ++to) {
        const int64_t sends = CountAt(call, rank, kSendCounts, to);
        if (sends < 0 || sends > have - sent) {
          return CountsChanged(
              context, absl::StrCat("rank ", rank, " sends ", sends, " elements to rank ", to,
                                    " after ", sent, ", and has ", have));
        }
        sent += sends;
      }
      count[rank] = sent;
      total += sent;
    }
    return 0;
  }
  std::array<std::byte*, kMaxRanks> at;
  std::array<int64_t, kMaxRanks> count;
  int64_t total = 0;
};

// Saves all inputs completely, however much of them is sent: if the counts decided how much, and
// changed, old contents of the workspace could leak.
void PutAside(const Call& call) {
  int64_t total = 0;
  for (uint32_t rank = 0; rank < call.ranks(); ++rank) total += call.count(rank, kIn);
  const Share share = call.ShareOf(total, 2);
  int64_t first = 0;
  for (uint32_t rank = 0; rank < call.ranks(); ++rank) {
    const int64_t from = std::max(share.begin, first);
    const int64_t to = std::min(share.end, first + call.count(rank, kIn));
    if (from < to) {
      std::byte* const out = call.workspace() + from * call.element_bytes();
      call.Copy(call.at(rank, kIn, from - first), {&out, 1}, to - from, false);
    }
    first += call.count(rank, kIn);
  }
}

int32_t AllToAllV(const pto_context* context) {
  const Call call(context);
  const uint32_t ranks = call.ranks();
  if (call.phase() + 1 < call.phases()) {
    PutAside(call);
    return 0;
  }
  Sources sources;
  if (const int32_t failed = sources.Find(call, context)) return failed;
  const Share share = call.ShareOf(sources.total, 2);
  if (share.begin == share.end) return 0;
  const bool stream = call.IsLong(sources.total);
  // Counts the elements of all outputs in order; this call moves a share of them.
  int64_t at = 0;
  std::array<int64_t, kMaxRanks> sent = {};
  for (uint32_t to = 0; to < ranks && at < share.end; ++to) {
    const int64_t room = call.count(to, kVariableOut);
    int64_t received = 0;
    for (uint32_t from = 0; from < ranks; ++from) {
      const int64_t count = CountAt(call, to, kRecvCounts, from);
      const int64_t left = std::min(room - received, sources.count[from] - sent[from]);
      if (count < 0 || count > left) {
        return CountsChanged(
            context, absl::StrCat("rank ", to, " expects ", count, " elements from rank ", from,
                                  " after ", received, " with room for ", room, ", and rank ", from,
                                  " has ", sources.count[from] - sent[from], " left to send"));
      }
      const int64_t begin = std::max(share.begin, at);
      const int64_t end = std::min(share.end, at + count);
      if (begin < end) {
        std::byte* const out = call.at(to, kVariableOut, received + (begin - at));
        call.Copy(sources.at[from] + (sent[from] + (begin - at)) * call.element_bytes(), {&out, 1},
                  end - begin, stream);
      }
      at += count;
      received += count;
      sent[from] += count;
    }
  }
  if (at >= share.end) return 0;
  return CountsChanged(context,
                       absl::StrCat("the ranks send ", sources.total, " elements and expect ", at));
}

int32_t PlanAllToAll(const pto_launch* launch, pto_plan* plan, char* message, size_t size);
int32_t PlanAllToAllV(const pto_launch* launch, pto_plan* plan, char* message, size_t size);

constexpr pto_kernel_info kKernels[] = {
    Collective("all_to_all",
               "Copies part j of rank i's in to part i of rank j's out, for all i and j; out may "
               "be in.",
               AllToAll, PlanAllToAll, kArguments, {}, kInAndOut),
    Collective("all_to_all_v",
               "The same with parts of any size: each rank sends send_counts[j] elements to rank "
               "j and gets recv_counts[i] from rank i, packed one after the other.",
               AllToAllV, PlanAllToAllV, kVariableArguments, {}, kVariableOverlaps),
};

int32_t PlanAllToAll(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[0], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  if (int32_t refused = check.AllAlike(kIn)) return refused;
  const int64_t count = check.count(0, kIn);
  if (count % check.ranks() != 0) {
    return check.Refuse(
        absl::StrCat(count, " elements do not make ", check.ranks(), " equal parts"));
  }
  if (int32_t refused = check.AllHave(kOut, count)) return refused;
  if (int32_t refused = check.AllInPlaceOrApart(kIn, kOut)) return refused;
  plan->phase_bytes = 2 * check.bytes(kIn) * check.ranks();
  bool in_place = false;
  for (uint32_t rank = 0; rank < check.ranks(); ++rank) {
    in_place |= check.data(rank, kIn) == check.data(rank, kOut);
  }
  if (in_place) {
    check.Shares(plan, PairCount(check.ranks()) * (count / check.ranks()), 4);
  } else {
    check.Shares(plan, count * check.ranks(), 2);
  }
  return 0;
}

// Checks that what each rank sends matches what the other receives, and that it fits.
int32_t CheckCounts(const LaunchCheck& check) {
  const auto counts = [&](uint32_t rank, uint32_t argument) {
    return reinterpret_cast<const int64_t*>(check.data(rank, argument));
  };
  for (uint32_t from = 0; from < check.ranks(); ++from) {
    // Each step checks the sum, so that it cannot overflow.
    int64_t sent = 0;
    int64_t received = 0;
    for (uint32_t to = 0; to < check.ranks(); ++to) {
      const int64_t sends = counts(from, kSendCounts)[to];
      const int64_t expects = counts(to, kRecvCounts)[from];
      if (sends < 0 || sends > check.count(from, kIn) - sent) {
        return check.Refuse(absl::StrCat("rank ", from, " sends ", sends, " elements to rank ", to,
                                         " after ", sent, ", and has ", check.count(from, kIn)));
      }
      if (sends != expects) {
        return check.Refuse(absl::StrCat("rank ", from, " sends ", sends, " elements to rank ", to,
                                         ", which expects ", expects));
      }
      sent += sends;
      const int64_t gets = counts(from, kRecvCounts)[to];
      if (gets < 0 || gets > check.count(from, kVariableOut) - received) {
        return check.Refuse(absl::StrCat("rank ", from, " expects ", gets, " elements from rank ",
                                         to, " after ", received, ", and has room for ",
                                         check.count(from, kVariableOut)));
      }
      received += gets;
    }
  }
  return 0;
}

int32_t PlanAllToAllV(const pto_launch* launch, pto_plan* plan, char* message, size_t size) {
  const LaunchCheck check(kKernels[1], launch, message, size);
  if (int32_t refused = check.RankCount()) return refused;
  bool known = true;
  bool in_place = false;
  uint64_t bytes = 0;
  for (uint32_t rank = 0; rank < check.ranks(); ++rank) {
    if (int32_t refused = check.Fits(rank, kIn)) return refused;
    if (int32_t refused = check.Fits(rank, kVariableOut)) return refused;
    for (const uint32_t counts : {kSendCounts, kRecvCounts}) {
      if (int32_t refused = check.HasCounts(rank, counts)) return refused;
      known &= check.data(rank, counts) != nullptr;
    }
    if (int32_t refused = check.InPlaceOrApart(rank, kIn, kVariableOut, 0)) return refused;
    // The output must not overlap the counts that control it.
    for (const uint32_t counts : {kSendCounts, kRecvCounts}) {
      if (int32_t refused = check.Apart(rank, kVariableOut, counts)) return refused;
    }
    in_place |=
        check.data(rank, kIn) != nullptr && check.data(rank, kIn) == check.data(rank, kVariableOut);
    bytes += static_cast<uint64_t>(check.count(rank, kIn)) * check.element_bytes();
  }
  plan->phase_bytes = 2 * bytes;
  if (!known) return 0;
  if (int32_t refused = CheckCounts(check)) return refused;
  if (in_place) {
    plan->phases = 2;
    plan->workspace_bytes = bytes;
  }
  return 0;
}

}  // namespace

absl::Span<const pto_kernel_info> ExchangeKernels() { return kKernels; }

}  // namespace pto::kernels::collectives
