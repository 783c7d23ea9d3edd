#pragma once

#include <cstdint>
#include <string>

#include "kernels/pto_kernel.h"
#include "runtime/base/mutex.h"
#include "runtime/host/control_block.h"
#include "runtime/host/host_tables.h"
#include "runtime/host/message.h"
#include "runtime/host/report_sink.h"

namespace pto::host {

// In the host: a block while its kernel is called, as pto_context.engine. What the kernel calls the
// engine for goes to the daemon, and its thread waits for the answer. Whatever the daemon has to
// check, it checks itself; here are the mistakes that an answer cannot tell.
struct HostedBlock {
  uint64_t post = 0;
  uint32_t slot = 0;
  PostWord* word = nullptr;
  ReportSink* reports = nullptr;
  HostTables* tables = nullptr;
  bool may_wait = false;  // its kernel says that it waits or blocks
  std::string error;      // what the kernel says itself, or else what was wrong with a call
  // The last call that did not succeed before it reached the daemon.
  int32_t refused = PTO_OK;
  // Held during a call: a post has one at a time, whatever threads its kernel has.
  Mutex calls;

  // What such a kernel gets as pto_context.api.
  static const pto_kernel_api kApi;
};

}  // namespace pto::host
