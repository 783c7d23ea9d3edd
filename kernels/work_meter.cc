#include "kernels/work_meter.h"

#include "kernels/block.h"

namespace pto::kernels {

bool WorkMeter::Look() {
  stopped_ = stopped_ || (context_ != nullptr && Cancelled(context_));
  left_ = stopped_ ? -1 : kBetweenLooks;
  return !stopped_;
}

}  // namespace pto::kernels
