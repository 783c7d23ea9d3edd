#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/base/log.h"
#include "runtime/chip/ascend/cann/acl_codes.h"
#include "runtime/chip/ascend/cann/cann_functions.h"

namespace pto::ascend {

// The functions of AscendCL for the thread that owns the device, and the first error of the device:
// after it, later calls fail with codes that do not say why. Not thread-safe.
class AclCalls {
 public:
  explicit AclCalls(const cann::Functions& functions) : functions_(functions) {}

  const cann::Functions* operator->() const {
    PTO_CHECK(std::this_thread::get_id() == owner_, "one thread makes all calls of a device");
    return &functions_;
  }
  const cann::Functions& functions() const { return functions_; }

  // Asked when a call fails with a code that is only the consequence of another error: returns that
  // error, if it can be found.
  void SetCauseFinder(std::function<absl::Status()> find) { find_cause_ = std::move(find); }

  // The error of a call that has just returned; takes the vendor's text of this thread.
  absl::Status Check(cann::AclError code, absl::string_view what);

  // The first error after which nothing works until a reset; OK: there was none.
  const absl::Status& first_error() const { return first_error_; }
  bool failed() const { return !first_error_.ok(); }
  // What a call is refused with while the device has failed.
  absl::Status Refuse(absl::string_view what) const;
  // Something else than a code says that the device is gone.
  void NoteFailure(absl::Status error) {
    if (first_error_.ok()) first_error_ = std::move(error);
  }
  void ForgetErrors() { first_error_ = absl::OkStatus(); }

 private:
  const cann::Functions functions_;
  const std::thread::id owner_ = std::this_thread::get_id();
  std::function<absl::Status()> find_cause_;
  bool finding_ = false;
  absl::Status first_error_;
};

}  // namespace pto::ascend
