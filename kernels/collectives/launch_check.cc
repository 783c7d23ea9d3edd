#include "kernels/collectives/launch_check.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/check.h"

namespace pto::kernels::collectives {

void LaunchCheck::Shares(pto_plan* plan, int64_t total, int64_t weight) const {
  plan->fixed = 1;
  if (IsForOneCall(total * static_cast<int64_t>(element_bytes()), weight)) plan->calls = 1;
}

int32_t LaunchCheck::Refuse(absl::string_view text) const {
  if (message_ != nullptr && message_size_ > 0) {
    const std::string full = absl::StrCat(kernel_.name, ": ", text);
    const size_t length = std::min(full.size(), message_size_ - 1);
    std::memcpy(message_, full.data(), length);
    message_[length] = '\0';
  }
  return 1;
}

int32_t LaunchCheck::RankCount() const {
  if (ranks() <= kMaxRanks) return 0;
  return Refuse(absl::StrCat("works with at most ", kMaxRanks, " ranks, not ", ranks()));
}

int32_t LaunchCheck::IsRank(uint32_t index) const {
  if (scalar(index) >= 0 && scalar(index) < ranks()) return 0;
  return Refuse(absl::StrCat(kernel_.scalars[index].name, " is ", scalar(index), ", and there are ",
                             ranks(), " ranks"));
}

int32_t LaunchCheck::IsOneOf(uint32_t index, int64_t first, int64_t last) const {
  if (scalar(index) >= first && scalar(index) <= last) return 0;
  return Refuse(absl::StrCat(kernel_.scalars[index].name, " is ", scalar(index), ", not ", first,
                             " to ", last));
}

int32_t LaunchCheck::RefuseType(uint32_t rank, uint32_t argument) const {
  return Refuse(absl::StrCat("rank ", rank, " has ", DtypeName(tensor(rank, argument).dtype),
                             " in ", kernel_.arguments[argument].name, ", rank 0 has ",
                             DtypeName(tensor(0, 0).dtype), " in ", kernel_.arguments[0].name));
}

int32_t LaunchCheck::RefuseGaps(uint32_t rank, uint32_t argument) const {
  const pto_tensor& own = tensor(rank, argument);
  if (ElementCount(own) == 0) return 0;
  return Refuse(absl::StrCat("rank ", rank, " has ", kernel_.arguments[argument].name, " ",
                             ShapeText(own), " with strides [",
                             absl::StrJoin(absl::MakeConstSpan(own.strides, own.ndim), ","),
                             "], which is not dense"));
}

int32_t LaunchCheck::Has(uint32_t rank, uint32_t argument, int64_t want) const {
  if (const int32_t refused = Fits(rank, argument)) return refused;
  const int64_t have = count(rank, argument);
  if (have == want) return 0;
  return Refuse(absl::StrCat("rank ", rank, " has ", have, " elements in ",
                             kernel_.arguments[argument].name, ", not ", want));
}

int32_t LaunchCheck::AllAlike(uint32_t argument) const {
  const int64_t want = count(0, argument);
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    if (const int32_t refused = Fits(rank, argument)) return refused;
    const int64_t have = count(rank, argument);
    if (have == want) continue;
    return Refuse(absl::StrCat("rank ", rank, " has ", have, " elements in ",
                               kernel_.arguments[argument].name, ", rank 0 has ", want));
  }
  return 0;
}

int32_t LaunchCheck::AllHave(uint32_t argument, int64_t want) const {
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    if (const int32_t refused = Has(rank, argument, want)) return refused;
  }
  return 0;
}

int32_t LaunchCheck::HasCounts(uint32_t rank, uint32_t argument) const {
  const int64_t have = count(rank, argument);
  if (have != ranks()) {
    return Refuse(absl::StrCat("rank ", rank, " has ", have, " elements in ",
                               kernel_.arguments[argument].name, ", and there are ", ranks(),
                               " ranks"));
  }
  return CheckDense(rank, argument);
}

bool LaunchCheck::Overlap(uint32_t rank, uint32_t a, uint32_t b) const {
  const std::byte* const first = data(rank, a);
  const std::byte* const second = data(rank, b);
  // Addresses are unknown before the launch.
  if (first == nullptr || second == nullptr) return false;
  const auto end = [&](uint32_t argument) {
    return data(rank, argument) +
           static_cast<size_t>(count(rank, argument)) * DtypeSize(tensor(rank, argument).dtype);
  };
  return first < end(b) && second < end(a);
}

int32_t LaunchCheck::InPlaceOrApart(uint32_t rank, uint32_t in, uint32_t out,
                                    int64_t offset) const {
  if (!Overlap(rank, in, out)) return 0;
  if (data(rank, in) == data(rank, out) + offset * static_cast<int64_t>(element_bytes())) return 0;
  const absl::string_view in_name = kernel_.arguments[in].name;
  const absl::string_view out_name = kernel_.arguments[out].name;
  return Refuse(absl::StrCat("rank ", rank, ": ", in_name, " and ", out_name, " overlap, and ",
                             in_name, " does not begin ",
                             offset == 0
                                 ? absl::StrCat("where ", out_name, " does")
                                 : absl::StrCat(std::abs(offset), " elements ",
                                                offset < 0 ? "before " : "into ", out_name)));
}

int32_t LaunchCheck::Apart(uint32_t rank, uint32_t a, uint32_t b) const {
  if (!Overlap(rank, a, b)) return 0;
  return Refuse(absl::StrCat("rank ", rank, ": ", kernel_.arguments[a].name, " and ",
                             kernel_.arguments[b].name, " overlap"));
}

int32_t LaunchCheck::AllInPlaceOrApart(uint32_t in, uint32_t out) const {
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    if (const int32_t refused = InPlaceOrApart(rank, in, out, 0)) return refused;
  }
  return 0;
}

}  // namespace pto::kernels::collectives
