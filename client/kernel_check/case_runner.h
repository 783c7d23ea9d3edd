#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/kernel_check/block_engine.h"
#include "client/kernel_check/check_case.h"
#include "client/kernel_check/checked_kernel.h"
#include "client/kernel_check/guarded_tensor.h"
#include "client/kernel_check/options.h"
#include "client/kernel_check/shared_state.h"

namespace pto::kernel_check {

// Runs a kernel on one case several times, each time with something changed that must not change
// the results. In a process of its own, which the kernel may end; what is found is in the shared
// state at once.
class CaseRunner {
 public:
  CaseRunner(const CheckedKernel& kernel, const Options& options, const Case& chosen,
             SharedState& state);

  void Run();

 private:
  // What differs between runs.
  struct Variant {
    const char* name = "";
    uint8_t old_contents = 0xa5;  // of the outputs
    uint8_t gaps = 0xc3;
    BlockOrder order = BlockOrder::kAscending;
    uint32_t blocks = 1;
    bool cancelled = false;
    // Use the tensor of one argument for another one too.
    bool alias = false;
    uint32_t alias_from = 0;
    uint32_t alias_to = 0;
  };
  // The bits of all arguments of all members.
  using Contents = std::vector<std::vector<std::vector<uint64_t>>>;

  bool Writes(uint32_t argument) const;
  GuardedTensor& TensorOf(uint32_t member, uint32_t argument, const Variant& variant) const;

  void Prepare(const Variant& variant);
  TaskResult Call(const Variant& variant);
  // Prepares, calls, and looks at gaps and complaints. The contents are those after the run.
  TaskResult RunVariant(const Variant& variant, Contents* contents);
  // Runs a variant, and reports a problem if its results are not those of the first run.
  void Compare(const Variant& variant, Problem problem, const std::string& what, double tolerance);
  void CompareOldContents(Variant variant);
  void CompareBlockCounts(Variant variant);
  void CompareSameViews(const Variant& variant);
  void CheckCancel(Variant variant);
  // Whether the element of both runs is the same, up to the tolerance.
  bool Same(const GuardedTensor& tensor, uint64_t one, uint64_t other, double largest,
            double tolerance) const;

  void Report(Problem problem, const std::string& subject, const std::string& text);

  const CheckedKernel& kernel_;
  const pto_kernel_info& info_;
  const Options& options_;
  const Case& case_;
  SharedState& state_;
  const bool together_;
  std::vector<std::vector<std::unique_ptr<GuardedTensor>>> tensors_;  // by member and argument
  Contents before_;                                                   // of inputs
  Contents first_;                                                    // of the first run
};

}  // namespace pto::kernel_check
