#include "client/internal/graph_structure.h"

#include <algorithm>
#include <string>
#include <vector>

namespace pto::internal {
namespace {

// The indices of the page's kernels in the combined list, which is extended.
std::vector<uint32_t> PlacesOf(const v1::GraphStructure& page, v1::GraphStructure* all) {
  std::vector<uint32_t> places;
  for (const std::string& kernel : page.kernels()) {
    const auto found = std::find(all->kernels().begin(), all->kernels().end(), kernel);
    places.push_back(static_cast<uint32_t>(found - all->kernels().begin()));
    if (found == all->kernels().end()) all->add_kernels(kernel);
  }
  return places;
}

}  // namespace

void AppendStructure(const v1::GraphStructure& page, v1::GraphStructure* all) {
  if (all->kernel().empty()) all->set_first_task(page.first_task());
  const int count = page.kernel_size();
  const std::vector<uint32_t> places = PlacesOf(page, all);
  // An index that is not in the list stays invalid.
  for (const uint32_t kernel : page.kernel()) {
    all->add_kernel(kernel < places.size() ? places[kernel] : kernel);
  }
  all->mutable_chip()->MergeFrom(page.chip());
  all->mutable_next_count()->MergeFrom(page.next_count());
  all->mutable_next_ahead()->MergeFrom(page.next_ahead());
  all->mutable_member_chip()->MergeFrom(page.member_chip());
  // A column of a different length is ignored.
  for (int i = 0; i < count; ++i) {
    all->add_name(page.name_size() == count ? page.name(i) : "");
    all->add_chip_count(page.chip_count_size() == count ? page.chip_count(i) : 1);
    all->add_block_num(page.block_num_size() == count ? page.block_num(i) : 1);
    all->add_predicated(page.predicated_size() == count && page.predicated(i));
  }
}

}  // namespace pto::internal
