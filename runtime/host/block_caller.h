#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/pto_kernel.h"
#include "runtime/host/control_block.h"
#include "runtime/host/host_tables.h"
#include "runtime/host/message.h"
#include "runtime/host/report_sink.h"

namespace pto::host {

// In the host: calls the kernel of a post, block by block, and reports the end. Thread-safe.
class BlockCaller {
 public:
  BlockCaller(ControlBlock& control, HostTables& tables, ReportSink& reports)
      : control_(control), tables_(tables), reports_(reports) {}
  BlockCaller(const BlockCaller&) = delete;
  BlockCaller& operator=(const BlockCaller&) = delete;

  // The kernel of a post; nullptr: it is not loaded. Waits until the orders that the post needs are
  // done.
  std::shared_ptr<const KernelCode> Find(const PostView& post);
  // Whether it needs a thread of its own while it runs.
  static bool Blocks(const KernelCode* kernel);
  // Returns when the post has ended.
  void Call(const PostView& post, const KernelCode* kernel);

 private:
  struct PtoArguments;

  // What a kernel of the PTO ABI gets beyond the pto_context. Returns false with a text if it
  // cannot be called.
  bool FillPto(const PostView& post, const pto_kernel_info& info,
               const std::vector<pto_tensor>& tensors, PtoArguments* out, std::string* text);
  // Returns what the kernel returns; `block` becomes the one that was called last.
  int32_t CallBlocks(const PostView& post, const KernelCode* kernel, uint32_t* block,
                     std::string* text);

  ControlBlock& control_;
  HostTables& tables_;
  ReportSink& reports_;
};

}  // namespace pto::host
