#pragma once

#include <cstdint>

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

  // Whether the post's kernel needs a thread of its own while it runs. Waits until the orders that
  // the post needs are done.
  bool Blocks(const PostView& post);
  // Returns when the post has ended.
  void Call(const PostView& post);

 private:
  // Returns what the kernel returns; `block` becomes the one that was called last.
  int32_t CallBlocks(const PostView& post, uint32_t* block, std::string* text);

  ControlBlock& control_;
  HostTables& tables_;
  ReportSink& reports_;
};

}  // namespace pto::host
