#include "runtime/chip/ascend/device/acl_calls.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::ascend {

absl::Status AclCalls::Check(cann::AclError code, absl::string_view what) {
  if (code == cann::kAclOk) return absl::OkStatus();
  // Here and now: the text belongs to the thread, and the next call clears it.
  const absl::Status error = cann::AclStatus(code, what, functions_.aclGetRecentErrMsg());
  if (!cann::PoisonsDevice(cann::DescribeAcl(code).fault_class)) return error;
  if (!failed() && code == cann::kAclFallout && find_cause_ && !finding_) {
    finding_ = true;
    NoteFailure(find_cause_());
    finding_ = false;
  }
  if (failed() && code == cann::kAclFallout) return Refuse(what);
  NoteFailure(error);
  return error;
}

absl::Status AclCalls::Refuse(absl::string_view what) const {
  return Error(
      reason::kDeviceFailed,
      absl::StrCat(what, ": the chip has failed before: ", std::string(first_error_.message())));
}

}  // namespace pto::ascend
