#include "tests/collectives/random_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/builtin_kernels.h"
#include "kernels/dtype.h"
#include "runtime/base/long_copy.h"
#include "runtime/base/status_macros.h"

namespace pto::testing {
namespace {

using namespace kernels::collectives;  // NOLINT: the reference

constexpr const char* kKernels[] = {"all_reduce", "all_reduce",   "all_gather", "reduce_scatter",
                                    "broadcast",  "all_to_all",   "reduce",     "scatter",
                                    "gather",     "all_to_all_v", "send_recv",  "barrier"};
constexpr uint64_t kMostBytes = 160 << 10;

bool IsReduction(const std::string& kernel) {
  return kernel == "all_reduce" || kernel == "reduce" || kernel == "reduce_scatter";
}

// The number of elements that a collective writes on all ranks, for each element given to Place.
uint64_t Written(const std::string& kernel, uint64_t ranks) {
  if (kernel == "reduce" || kernel == "send_recv") return 1;
  return kernel == "all_gather" || kernel == "all_to_all" ? ranks * ranks : ranks;
}

engine::GraphTarget Target(uint32_t chips) {
  engine::GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters.assign(chips, 2);
  return target;
}

}  // namespace

RandomGraph::RandomGraph(uint64_t seed, const Options& options)
    : options_(options),
      random_(seed),
      builder_(Target(options.chips)),
      initial_(options.chips),
      expected_(options.chips) {
  for (uint32_t chip = 0; chip < options.chips; ++chip) {
    slots_.push_back(builder_.AddSlot(absl::StrCat("chip", chip)));
    // Every chip has some memory.
    FillNumbers(NewArea(chip, PTO_U8, 8));
  }
  while (done_.size() < options.cases && refused_.empty()) AddCase();
}

void RandomGraph::AddCase() {
  Case next;
  if (done_.empty() || !options_.long_kernel.empty() || !Chance(30) ||
      !Continue(done_[Random(done_.size())], &next)) {
    next = options_.long_kernel.empty() ? Choose() : ChooseLong();
  }
  const absl::Status added = AddTask(next);
  if (!added.ok()) {
    refused_ = absl::StrCat("case ", done_.size(), " ", next.kernel, ": ", added.ToString());
    return;
  }
  Expect(next);
  done_.push_back(std::move(next));
}

std::vector<uint32_t> RandomGraph::ChooseChips(uint32_t count) {
  std::vector<uint32_t> chips(options_.chips);
  std::iota(chips.begin(), chips.end(), 0);
  std::shuffle(chips.begin(), chips.end(), random_);
  chips.resize(count);
  return chips;
}

RandomGraph::Case RandomGraph::ChooseLong() {
  Case next;
  next.kernel = options_.long_kernel;
  // Limits the memory use.
  const uint32_t ranks =
      Written(next.kernel, 2) == 1 ? 2 : 2 + static_cast<uint32_t>(Random(options_.chips - 1));
  next.chips = ChooseChips(ranks);
  // Plain loops take the same time per element, whatever its size.
  next.dtype = Chance(50) ? PTO_F64 : PTO_I64;
  const uint64_t least = kStreamBytes / kernels::DtypeSize(next.dtype);
  Place(&next, false,
        static_cast<int64_t>(least / Written(next.kernel, ranks) + 1 + Random(1000)) | 1);
  return next;
}

RandomGraph::Case RandomGraph::Choose() {
  Case next;
  next.kernel = kKernels[Random(std::size(kKernels))];
  const uint32_t ranks = 1 + static_cast<uint32_t>(Random(options_.chips));
  next.chips = ChooseChips(ranks);
  next.dtype = 1 + static_cast<uint32_t>(Random(IsReduction(next.kernel) ? 12 : 13));
  constexpr int64_t kLimits[] = {1, 2, 40, 40, 40, 40, 40, 40, 300, 300, 300, 300, 3000, 30'000};
  auto count =
      static_cast<int64_t>(Random(static_cast<uint64_t>(kLimits[Random(std::size(kLimits))]) + 1));
  if (Chance(70) && count > 2) count |= 1;
  const uint64_t most = kMostBytes / kernels::DtypeSize(next.dtype) / ranks;
  Place(&next, false, std::min<int64_t>(count, static_cast<int64_t>(most)));
  return next;
}

bool RandomGraph::Continue(const Case& before, Case* next) {
  if (!before.exact || before.out.empty() || before.depth > 1) return false;
  const int64_t count = before.out[0].count;
  for (const Area& area : before.out) {
    if (area.count != count) return false;
  }
  next->kernel = kKernels[Random(std::size(kKernels))];
  next->chips = before.chips;
  next->dtype = before.dtype;
  next->in = before.out;
  next->depth = before.depth + 1;
  const auto ranks = static_cast<int64_t>(next->chips.size());
  if (next->kernel == "barrier" || next->kernel == "all_to_all_v") return false;
  if (IsReduction(next->kernel) && next->dtype == PTO_BOOL) return false;
  const bool grows = next->kernel == "all_gather" || next->kernel == "gather";
  const bool parts =
      next->kernel == "all_to_all" || next->kernel == "reduce_scatter" || next->kernel == "scatter";
  if (parts && count % ranks != 0) return false;
  if (grows &&
      static_cast<uint64_t>(count * ranks) * kernels::DtypeSize(next->dtype) > kMostBytes) {
    return false;
  }
  Place(next, true, parts ? count / ranks : count);
  return true;
}

void RandomGraph::Place(Case* next, bool reuse_in, int64_t count) {
  const auto ranks = static_cast<int64_t>(next->chips.size());
  const std::string& kernel = next->kernel;
  const auto rank = [&] { return static_cast<int64_t>(Random(next->chips.size())); };
  const auto op = [&] { return 1 + static_cast<int64_t>(Random(4)); };
  int64_t root = -1;
  if (kernel == "all_reduce") {
    // The other algorithms write through the caches, whatever the length.
    const uint64_t algorithms = options_.long_kernel.empty() ? 5 : 1;
    next->scalars = {op(), static_cast<int64_t>(Random(algorithms)),
                     static_cast<int64_t>(Random(2))};
  } else if (kernel == "reduce") {
    next->scalars = {op(), root = rank()};
  } else if (kernel == "reduce_scatter") {
    next->scalars = {op()};
  } else if (kernel == "broadcast" || kernel == "scatter" || kernel == "gather") {
    next->scalars = {root = rank()};
  } else if (kernel == "send_recv") {
    next->scalars = {rank(), rank()};
  }
  if (IsReduction(kernel) && IsFloating(next->dtype) && next->scalars[0] == 2) next->depth = 9;
  // Rings add in a different order, unless told otherwise.
  next->exact = !(kernel == "all_reduce" && next->scalars[1] >= 3 && next->scalars[2] == 0 &&
                  next->scalars[0] <= 2 && IsFloating(next->dtype));
  if (kernel == "barrier") return;
  if (kernel == "all_to_all_v") return PlaceCounts(next, count);

  const bool from_parts =
      kernel == "all_to_all" || kernel == "reduce_scatter" || kernel == "scatter";
  const bool to_parts = kernel == "all_to_all" || kernel == "all_gather" || kernel == "gather";
  const int64_t in_count = from_parts ? count * ranks : count;
  const int64_t out_count = to_parts ? count * ranks : count;
  uint32_t in_place = Chance(30) ? 100 : Chance(20) ? 50 : 0;
  // In place, the output is already in the caches.
  if (!options_.long_kernel.empty()) in_place = 0;
  for (int64_t r = 0; r < ranks; ++r) {
    const uint32_t chip = next->chips[static_cast<size_t>(r)];
    // If only one rank counts, the others may have empty tensors.
    const bool no_in =
        !reuse_in && (kernel == "scatter" || kernel == "broadcast") && r != root && Chance(50);
    const bool no_out = (kernel == "gather" || kernel == "reduce") && r != root && Chance(50);
    Area in = reuse_in ? next->in[static_cast<size_t>(r)] : Area();
    Area out;
    if (Chance(in_place) && !no_in && !no_out && (in_count >= out_count || !reuse_in)) {
      const Area whole = reuse_in ? in : NewArea(chip, next->dtype, std::max(in_count, out_count));
      in = out = whole;
      in.count = in_count;
      out.count = out_count;
      if (in_count < out_count) in.offset += static_cast<uint64_t>(r * in_count);
      if (in_count > out_count) out.offset += static_cast<uint64_t>(r * out_count);
      if (!reuse_in) FillNumbers(whole);
    } else {
      if (!reuse_in) {
        in = NewArea(chip, next->dtype, no_in ? 0 : in_count);
        FillNumbers(in);
      }
      out = NewArea(chip, next->dtype, no_out ? 0 : out_count);
    }
    if (reuse_in) {
      next->in[static_cast<size_t>(r)] = in;
    } else {
      next->in.push_back(in);
    }
    next->out.push_back(out);
  }
}

void RandomGraph::PlaceCounts(Case* next, int64_t count) {
  const size_t ranks = next->chips.size();
  std::vector<std::vector<int64_t>> counts(ranks, std::vector<int64_t>(ranks));
  const bool is_long = !options_.long_kernel.empty();
  for (auto& row : counts) {
    for (int64_t& sent : row) {
      sent = Chance(30)
                 ? 0
                 : static_cast<int64_t>(Random(static_cast<uint64_t>(2 * count) / ranks + 2));
    }
    // Whatever the other counts are.
    if (is_long) row[Random(ranks)] = count;
  }
  const bool in_place = !is_long && Chance(30);
  for (size_t r = 0; r < ranks; ++r) {
    int64_t sent = static_cast<int64_t>(Random(3));
    int64_t received = static_cast<int64_t>(Random(3));
    std::vector<int64_t> from;
    for (size_t q = 0; q < ranks; ++q) {
      sent += counts[r][q];
      received += counts[q][r];
      from.push_back(counts[q][r]);
    }
    const uint32_t chip = next->chips[r];
    Area in = NewArea(chip, next->dtype, in_place ? std::max(sent, received) : sent);
    FillNumbers(in);
    next->in.push_back(in);
    if (!in_place) {
      in = NewArea(chip, next->dtype, received);
    }
    next->out.push_back(in);
    for (const bool sends : {true, false}) {
      const Area area = NewArea(chip, PTO_I64, static_cast<int64_t>(ranks));
      const std::vector<int64_t>& values = sends ? counts[r] : from;
      for (auto* const memory : {&initial_[chip], &expected_[chip]}) {
        std::memcpy(memory->data() + area.offset * sizeof(int64_t), values.data(),
                    ranks * sizeof(int64_t));
      }
      (sends ? next->send_counts : next->recv_counts).push_back(area);
    }
  }
}

RandomGraph::Area RandomGraph::NewArea(uint32_t chip, uint32_t dtype, int64_t count) {
  const size_t bytes = kernels::DtypeSize(dtype);
  // Aligned to an element only, and not adjacent to another area.
  const uint64_t offset = initial_[chip].size() / bytes + 1 + Random(20);
  const size_t end = (offset + static_cast<uint64_t>(count)) * bytes;
  initial_[chip].resize(end, std::byte{0x5a});
  expected_[chip].resize(end, std::byte{0x5a});
  return {chip, dtype, offset, count};
}

void RandomGraph::FillNumbers(const Area& area) {
  Elements elements(static_cast<size_t>(area.count));
  const bool floating = IsFloating(area.dtype);
  uint64_t state = random_();
  for (uint64_t& element : elements) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    element = floating ? FromDouble(area.dtype, static_cast<double>(state >> 11) / 0x1p51 - 2)
                       : state >> 7 ^ state << 57;
  }
  const size_t at = area.offset * kernels::DtypeSize(area.dtype);
  StoreElements(area.dtype, elements, initial_[area.chip].data() + at);
  std::memcpy(expected_[area.chip].data() + at, initial_[area.chip].data() + at,
              elements.size() * kernels::DtypeSize(area.dtype));
}

void RandomGraph::Expect(const Case& done) {
  if (done.kernel == "barrier") return;
  const auto at = [&](const Area& area) {
    return expected_[area.chip].data() + area.offset * kernels::DtypeSize(area.dtype);
  };
  const auto counts = [&](const Area& area) {
    const auto* const first = reinterpret_cast<const int64_t*>(at(area));
    return std::vector<int64_t>(first, first + area.count);
  };
  std::vector<PlainRank> ranks(done.chips.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].in = LoadElements(done.dtype, at(done.in[r]), done.in[r].count);
    ranks[r].out = LoadElements(done.dtype, at(done.out[r]), done.out[r].count);
    if (done.send_counts.empty()) continue;
    ranks[r].send_counts = counts(done.send_counts[r]);
    ranks[r].recv_counts = counts(done.recv_counts[r]);
  }
  const std::vector<PlainRank> before = ranks;
  PlainCollective(done.kernel, done.dtype, done.scalars, &ranks);
  for (size_t r = 0; r < ranks.size(); ++r) {
    StoreElements(done.dtype, ranks[r].out, at(done.out[r]));
  }
  if (done.exact) return;
  const double epsilon = EpsilonOf(done.dtype);
  const double step = done.dtype == PTO_F64 ? epsilon : EpsilonOf(PTO_F32);
  std::vector<double> tolerance;
  for (size_t i = 0; i < ranks[0].out.size(); ++i) {
    const double want = std::abs(ToDouble(done.dtype, ranks[0].out[i]));
    double scale = want;
    if (done.scalars[0] == 1) {
      scale = 0;
      for (const PlainRank& rank : before) scale += std::abs(ToDouble(done.dtype, rank.in[i]));
    }
    tolerance.push_back(epsilon * want + 2 * static_cast<double>(ranks.size()) * step * scale +
                        1e-7);
  }
  for (const Area& area : done.out) rounded_.push_back({area, tolerance, done_.size()});
}

uint32_t RandomGraph::Tensor(const Area& area) {
  const int64_t shape[] = {area.count};
  const uint32_t layout = builder_.AddLayout(area.dtype, shape, {}).value();
  return builder_.AddTensor(slots_[area.chip], layout, static_cast<int64_t>(area.offset)).value();
}

absl::Status RandomGraph::AddTask(const Case& added) {
  engine::TaskInput task;
  PTO_ASSIGN_OR_RETURN(task.kernel, builder_.AddKernel(added.kernel));
  task.block_num = Chance(60) ? 1 : 1 + static_cast<uint32_t>(Random(options_.max_blocks));
  std::vector<engine::ScalarInput> scalars;
  for (const int64_t value : added.scalars) {
    engine::ScalarInput scalar;
    scalar.kind = engine::ScalarInput::Kind::kInteger;
    scalar.i64 = value;
    scalars.push_back(scalar);
  }
  task.scalars = scalars;
  std::vector<std::vector<uint32_t>> args(added.chips.size());
  std::vector<engine::TaskInput::Member> members;
  for (size_t r = 0; r < added.chips.size(); ++r) {
    if (!added.in.empty()) args[r].push_back(Tensor(added.in[r]));
    if (!added.send_counts.empty()) args[r].push_back(Tensor(added.send_counts[r]));
    if (!added.in.empty()) args[r].push_back(Tensor(added.out[r]));
    if (!added.send_counts.empty()) args[r].push_back(Tensor(added.recv_counts[r]));
    members.push_back({added.chips[r], args[r]});
  }
  task.members = members;
  return builder_.AddTask(task).status();
}

std::string RandomGraph::Compare(const std::vector<const std::byte*>& memory) const {
  std::vector<std::vector<std::byte>> expected = expected_;
  for (const Rounded& rounded : rounded_) {
    const Area& area = rounded.area;
    const size_t bytes = kernels::DtypeSize(area.dtype);
    std::byte* const want = expected[area.chip].data() + area.offset * bytes;
    const std::byte* const have = memory[area.chip] + area.offset * bytes;
    const Elements wanted = LoadElements(area.dtype, want, area.count);
    const Elements got = LoadElements(area.dtype, have, area.count);
    for (size_t i = 0; i < got.size(); ++i) {
      const double a = ToDouble(area.dtype, wanted[i]);
      const double b = ToDouble(area.dtype, got[i]);
      if (a == b || std::abs(a - b) <= rounded.tolerance[i]) continue;
      return absl::StrCat("case ", rounded.number, " ", done_[rounded.number].kernel, " ",
                          kernels::DtypeName(area.dtype), " on chip ", area.chip, " element ", i,
                          ": ", b, ", not ", a, " within ", rounded.tolerance[i]);
    }
    std::memcpy(want, have, got.size() * bytes);
  }
  for (uint32_t chip = 0; chip < expected.size(); ++chip) {
    if (std::memcmp(expected[chip].data(), memory[chip], expected[chip].size()) == 0) continue;
    size_t at = 0;
    while (expected[chip][at] == memory[chip][at]) ++at;
    std::string text = absl::StrCat("chip ", chip, " byte ", at, " is wrong;");
    for (size_t i = 0; i < done_.size(); ++i) {
      for (const auto* areas : {&done_[i].in, &done_[i].out}) {
        for (const Area& area : *areas) {
          const size_t bytes = kernels::DtypeSize(area.dtype);
          if (area.chip != chip || at < area.offset * bytes ||
              at >= (area.offset + static_cast<uint64_t>(area.count)) * bytes) {
            continue;
          }
          absl::StrAppend(&text, " case ", i, " ", done_[i].kernel, "(",
                          absl::StrJoin(done_[i].scalars, ","), ") ",
                          kernels::DtypeName(area.dtype), " ", areas == &done_[i].in ? "in" : "out",
                          "[", at / bytes - area.offset, "] of ", area.count, ", ",
                          done_[i].chips.size(), " ranks;");
        }
      }
    }
    return text;
  }
  return "";
}

}  // namespace pto::testing
