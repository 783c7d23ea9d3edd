// What all parts of the fake share: settings from the environment, the trace, the fault plan, and
// the error text of each thread.
//
// FAKE_CANN_DIR         folder of the machine: memory of the devices, tables shared by processes
// FAKE_CANN_DEVICES     number of devices (2)
// FAKE_CANN_HBM_MIB     memory of each (256)
// FAKE_CANN_TRACE       file to which each call is appended
// FAKE_CANN_PLAN        faults, see FaultPlan
// FAKE_CANN_TIME_SCALE  factor for the vendor's own timeouts (0.001)
// FAKE_CANN_LAUNCH_US   what a launch costs the calling thread (0)
// FAKE_CANN_JITTER_US   longest random delay of an operation of a stream (0)
// FAKE_CANN_FABRIC      1: handles of the second kind work
// FAKE_CANN_VERSION     what aclsysGetVersionNum says (90000000)
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace fake {

// A function of the tables, or for tests.
#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

struct Settings {
  std::string folder;
  int32_t devices = 2;
  uint64_t hbm_bytes = uint64_t{256} << 20;
  double time_scale = 0.001;
  int64_t launch_us = 0;
  int64_t jitter_us = 0;
  bool fabric = false;
  int32_t version = 90000000;
};
const Settings& GetSettings();

std::chrono::nanoseconds Scaled(double seconds);

// One fault: `symbol[@device]:nth=action`, several separated by ';'. `nth` counts the calls of the
// symbol, or is `*` for all, or `n+` for all from the n-th on. The actions:
//   CODE        the call returns this number and does nothing
//   poison,CODE the same, and the device fails until it is reset by force
//   delay,MS    it takes longer
//   hang        it does not return, or the operation does not end until the stream is aborted
//   kill        the process is killed
//   abort       the process aborts
//   corrupt     a copy changes a byte
// Symbols are functions, and op:copy, op:kernel, op:event, op:wait, op:collective for operations
// when their stream gets to them.
struct Fault {
  enum Kind { kNone, kCode, kPoison, kDelay, kHang, kKill, kAbort, kCorrupt } kind = kNone;
  int64_t value = 0;
};
Fault NextFault(const std::string& symbol, int32_t device);

// The text of aclGetRecentErrMsg for this thread.
void SetErrorText(std::string text);

// Appends a line: time, process, thread, device, what.
void Trace(int32_t device, const std::string& text);
// The same for a breach of the rules of AscendCL, which real libraries answer with anything.
void Violation(int32_t device, const std::string& text);

// A call of a function: traces it and applies faults.
class Call {
 public:
  Call(const char* name, int32_t device, std::string arguments = "");
  // What a fault returns instead; 0: go on.
  int fault() const { return fault_; }
  bool corrupt() const { return corrupt_; }
  // Traces the result, and sets the error text if it is not 0.
  int End(int code, const std::string& text = "");

 private:
  const char* const name_;
  const int32_t device_;
  const std::string arguments_;
  int fault_ = 0;
  bool corrupt_ = false;
};

// Called when a fault poisons a device. Set by the runtime.
extern void (*poison_device)(int32_t device, int code);

// Files of the folder, locked while `use` runs, also between processes.
void WithFolderLock(const std::function<void()>& use);

}  // namespace fake
