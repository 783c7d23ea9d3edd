#include "runtime/chip/mapping_budget.h"

#include "runtime/base/host_memory.h"

namespace pto::engine {

const std::shared_ptr<MappingBudget>& MappingBudget::OfThisProcess() {
  static const auto* const budget =
      new std::shared_ptr<MappingBudget>(std::make_shared<MappingBudget>(MaxMappings() / 2));
  return *budget;
}

}  // namespace pto::engine
