#include "daemon/chip/chip_stall.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace pto::daemon {

ChipStall::Kind ChipStall::KindOf(const ChipSign& sign) {
  if (sign.silent_ns > 0) return Kind::kSilent;
  if (sign.ready_tasks > 0 && sign.waiting_gangs == 0 && sign.busy_cores == 0 && sign.thread_free) {
    return Kind::kNotTaken;
  }
  if (sign.busy_cores > 0 && sign.stopping_runs > 0 && sign.stopping_runs == sign.started_runs) {
    return Kind::kNotStopping;
  }
  return Kind::kNone;
}

std::string ChipStall::See(const ChipSign& sign, int64_t now_ns) {
  const Kind kind = KindOf(sign);
  const bool goes_on = last_ns_ != 0 && kind == kind_ && sign.ended_tasks == ended_tasks_;
  for_ns_ = goes_on ? for_ns_ + std::min(now_ns - last_ns_, 2 * look_ns_) : 0;
  last_ns_ = now_ns;
  kind_ = kind;
  ended_tasks_ = sign.ended_tasks;
  if (kind == Kind::kNone || stall_ns_ == 0 || for_ns_ < stall_ns_) return "";
  // Names the setting instead of the elapsed time, so that the text stays constant.
  const std::string time = absl::FormatDuration(absl::Nanoseconds(stall_ns_));
  switch (kind) {
    case Kind::kSilent:
      return absl::StrCat("its queue has not answered for ", time);
    case Kind::kNotTaken:
      return absl::StrCat("no thread has taken its ready tasks for ", time);
    case Kind::kNotStopping:
      return absl::StrCat("kernels have not returned for ", time, " after they were told to stop");
    case Kind::kNone:
      break;
  }
  return "";
}

}  // namespace pto::daemon
