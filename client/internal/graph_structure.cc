#include "client/internal/graph_structure.h"

namespace pto::internal {

void AppendStructure(const v1::GraphStructure& page, v1::GraphStructure* all) {
  if (all->kernels().empty()) *all->mutable_kernels() = page.kernels();
  const int count = page.kernel_size();
  all->mutable_kernel()->MergeFrom(page.kernel());
  all->mutable_chip()->MergeFrom(page.chip());
  all->mutable_next_count()->MergeFrom(page.next_count());
  all->mutable_next_ahead()->MergeFrom(page.next_ahead());
  all->mutable_member_chip()->MergeFrom(page.member_chip());
  // One that is not of this length says nothing.
  for (int i = 0; i < count; ++i) {
    all->add_name(page.name_size() == count ? page.name(i) : "");
    all->add_chip_count(page.chip_count_size() == count ? page.chip_count(i) : 1);
    all->add_block_num(page.block_num_size() == count ? page.block_num(i) : 1);
    all->add_predicated(page.predicated_size() == count && page.predicated(i));
  }
}

}  // namespace pto::internal
