#include "comm/check.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "comm/barrier_cell.h"
#include "comm/status.h"
#include "comm/window_layout.h"

namespace pto::comm {
namespace {

constexpr size_t kMaxName = 64;
// Keeps sums of a few window sizes far from overflow.
constexpr uint64_t kMaxBytes = uint64_t{1} << 44;
constexpr uint32_t kMaxScratch = uint32_t{1} << 30;

bool IsName(absl::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), allowed);
}

absl::Status CheckPeer(const WindowSpec& spec, uint32_t peer) {
  if (peer < spec.ranks.size()) return absl::OkStatus();
  return OutOfRange(absl::StrCat("window ", spec.id, " has ", spec.ranks.size(),
                                 " members, so there is no member ", peer));
}

}  // namespace

absl::StatusOr<JoinSpec> CheckJoin(const pto_comm_options* options) {
  if (options == nullptr || options->struct_size < sizeof(pto_comm_options)) {
    return Invalid("options are missing or shorter than pto_comm_options");
  }
  if (options->backend == nullptr || options->name == nullptr || !IsName(options->name)) {
    return Invalid("a job has a backend, and a name of 1 to 64 of A-Z a-z 0-9 . _ -");
  }
  if (options->size == 0 || options->size > PTO_COMM_MAX_RANKS || options->rank >= options->size) {
    return Invalid(absl::StrCat("rank ", options->rank, " of ", options->size,
                                " ranks: there can be ", PTO_COMM_MAX_RANKS, ", counted from 0"));
  }
  JoinSpec spec;
  spec.name = options->name;
  if (options->directory != nullptr) spec.directory = options->directory;
  spec.generation = options->generation;
  spec.rank = options->rank;
  spec.size = options->size;
  spec.deadline = options->deadline_ns;
  return spec;
}

absl::StatusOr<WindowSpec> CheckWindow(const pto_comm_window_options* options, uint32_t rank,
                                       uint32_t size) {
  if (options == nullptr || options->struct_size < sizeof(pto_comm_window_options)) {
    return Invalid("options are missing or shorter than pto_comm_window_options");
  }
  WindowSpec spec;
  spec.id = options->id;
  if (spec.id == ~uint64_t{0}) return Invalid(absl::StrCat(spec.id, " is not a valid window id"));
  spec.bytes = options->bytes;
  spec.signal_count = options->signal_count;
  spec.scratch_bytes = options->scratch_bytes == 0
                           ? WindowLayout::kDefaultScratch
                           : std::max(options->scratch_bytes, WindowLayout::kLeastScratch);
  const auto wrong = [&](absl::AlphaNum what) {
    return Invalid(absl::StrCat("window ", spec.id, ": ", what.Piece()));
  };
  if (spec.bytes > kMaxBytes || spec.scratch_bytes > kMaxScratch ||
      spec.signal_count > PTO_COMM_MAX_SIGNALS) {
    return wrong(absl::StrCat(spec.bytes, " bytes, ", spec.scratch_bytes, " of scratch and ",
                              spec.signal_count, " signals per rank are too many"));
  }
  const uint32_t count = options->rank_count == 0 ? size : options->rank_count;
  if (count > size) return wrong(absl::StrCat(count, " members, but the job has ", size, " ranks"));
  RankSet seen = 0;
  bool member = false;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t entry = options->rank_count == 0 ? i : options->ranks[i];
    if (entry >= size || (seen & Only(entry)) != 0) {
      return wrong(
          absl::StrCat("rank ", entry, " is listed twice or does not exist; the job has ", size));
    }
    seen |= Only(entry);
    if (entry == rank) {
      member = true;
      spec.index = i;
    }
    spec.ranks.push_back(entry);
  }
  if (!member) return wrong(absl::StrCat("rank ", rank, " is not among its members"));
  return spec;
}

absl::Status CheckRange(const WindowSpec& spec, uint32_t peer, uint64_t offset, uint64_t bytes) {
  if (offset <= spec.bytes && bytes <= spec.bytes - offset) return CheckPeer(spec, peer);
  return OutOfRange(absl::StrCat(bytes, " bytes at ", offset, " are beyond the ", spec.bytes,
                                 " of window ", spec.id));
}

absl::Status CheckSignal(const WindowSpec& spec, uint32_t peer, uint32_t signal) {
  if (signal < spec.signal_count) return CheckPeer(spec, peer);
  return OutOfRange(absl::StrCat("window ", spec.id, " has ", spec.signal_count,
                                 " signals, so there is no signal ", signal));
}

}  // namespace pto::comm
