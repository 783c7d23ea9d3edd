#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/kernel.h"
#include "runtime/base/mutex.h"

namespace pto {

// Where graphs find the kernels that their tasks name. Thread-safe.
class KernelSource {
 public:
  virtual ~KernelSource() = default;

  // Returns nullptr if there is no kernel of that name. The kernel stays valid while the caller
  // holds it, even if it is removed meanwhile.
  virtual std::shared_ptr<const Kernel> Find(absl::string_view name) const = 0;

  // All kernels at this moment, in order of name.
  virtual std::vector<std::shared_ptr<const Kernel>> List() const = 0;
};

// A table of kernels. Kernels may be added and removed while graphs that use them are compiled and
// run: graphs keep the kernels that they have found, and removing a kernel waits for nothing.
// Thread-safe.
//
// A table may have a parent, as the kernels of a session have those of the node. It then finds its
// own kernels and those of the parent. An own kernel hides the parent's kernel of the same name, so
// a kernel that the parent gains later does not change what existing names mean.
class KernelRegistry final : public KernelSource {
 public:
  KernelRegistry() = default;
  // The parent must outlive the table.
  explicit KernelRegistry(const KernelSource* parent) : parent_(parent) {}
  KernelRegistry(const KernelRegistry&) = delete;
  KernelRegistry& operator=(const KernelRegistry&) = delete;

  // Rejects a name that this table already has: ID_CONFLICT.
  absl::Status Add(std::shared_ptr<const Kernel> kernel);
  // Adds a kernel that is part of the program: see Kernel::BuiltIn. Also rejects a malformed
  // description: FIELD_INVALID.
  absl::Status Add(const pto_kernel_info& info);

  // Returns the removed kernel, or nullptr if this table has no kernel of that name. Does not
  // remove kernels of the parent.
  std::shared_ptr<const Kernel> Remove(absl::string_view name);

  std::shared_ptr<const Kernel> Find(absl::string_view name) const override;
  std::vector<std::shared_ptr<const Kernel>> List() const override;

 private:
  const KernelSource* const parent_ = nullptr;
  mutable Mutex mutex_;
  // The keys are the kernels' own names.
  absl::flat_hash_map<absl::string_view, std::shared_ptr<const Kernel>> kernels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto
