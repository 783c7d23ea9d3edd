#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "runtime/base/file_descriptor.h"

namespace pto::daemon {

// Notices the end of the process that started this one, however that ends, for a daemon that must
// not outlive it.
//
// Not a signal at the parent's death (PR_SET_PDEATHSIG): that is sent when the parent's *thread*
// ends. And not a pipe: children of the parent would keep it open.
class ParentWatch {
 public:
  // `parent` is what the parent has said that its id is: it may have ended before this process
  // could ask. `gone` is called at most once, by a thread of the watch. Errors: CONFIG_INVALID if
  // this is not the parent, or not any more.
  static absl::StatusOr<std::unique_ptr<ParentWatch>> Start(pid_t parent,
                                                            std::function<void()> gone);
  // Ends the watch; waits for a call of `gone`.
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

 private:
  ParentWatch(pid_t parent, FileDescriptor process, FileDescriptor stop,
              std::function<void()> gone);
  void Run();

  const pid_t parent_;
  // A pidfd; not valid where the system has none or does not allow it.
  const FileDescriptor process_;
  const FileDescriptor stop_;  // an eventfd
  const std::function<void()> gone_;
  std::thread thread_;
};

}  // namespace pto::daemon
