#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/ascend/fault_backoff.h"
#include "runtime/chip/ascend/wire.h"
#include "runtime/host/host_output.h"
#include "runtime/host/host_process.h"
#include "runtime/host/ring.h"

namespace pto::ascend {

struct ChipHostOptions {
  std::string name;                      // for messages: "chips/2"
  std::string program;                   // ptod_chip_host
  std::string cann_path;                 // empty: it searches
  std::vector<std::string> environment;  // LD_LIBRARY_PATH, and what CANN reads
  int32_t device = 0;
  absl::Duration start_timeout = absl::Seconds(60);
  // A host that does not answer for so long is killed.
  absl::Duration answer_timeout = absl::Seconds(60);
  // How long Call waits. The caller may hold locks.
  absl::Duration call_timeout = absl::Seconds(10);
  // Beyond the timeout of a launch, which the host watches itself.
  absl::Duration launch_slack = absl::Seconds(30);
  // How often a chip is asked whether it is well.
  absl::Duration probe_interval = absl::Seconds(10);
  // After a fault, before the reset or the next process; see FaultBackoff.
  absl::Duration first_pause = absl::Milliseconds(100);
  absl::Duration longest_pause = absl::Seconds(60);
};

// What a chip says of itself.
struct ChipInfo {
  uint32_t device_count = 0;
  uint32_t cube_cores = 0;
  uint32_t vector_cores = 0;
  uint64_t memory_bytes = 0;
  std::string model;
};

// In the daemon: the process that drives one Ascend chip. When it dies, it is started again; when
// its device fails, it is reset. Both take the chip's memory and kernels, and raise the epoch:
// requests name the epoch of what they use, and those of a former one are refused.
//
// Every request is answered exactly once: by the host, or at once when there is none. Thread-safe.
class ChipHost {
 public:
  // Begins to start the process. See AwaitReady. The last owner lets the process give its device
  // back, and ends it, within seconds. An answer may be the last owner: then its thread does that
  // later.
  static std::shared_ptr<ChipHost> Start(ChipHostOptions options);
  ChipHost(const ChipHost&) = delete;
  ChipHost& operator=(const ChipHost&) = delete;

  // Waits until the chip can be used. The error of the host if it cannot: CANN_UNUSABLE and others.
  absl::StatusOr<ChipInfo> AwaitReady(absl::Duration timeout);
  // How many devices the machine has, as a host said that could use its own or not; 0: none did.
  uint32_t device_count() const;

  // Called by the host's thread, without locks. Must not wait.
  using Answer = std::function<void(const Reply&)>;
  // Returns the id of the request. Calls `answer` at once, and returns 0, if the chip cannot be
  // used or the request's epoch is over.
  uint64_t Send(Request request, Answer answer);
  // Waits for the answer, and returns its value. If that takes too long it fails with
  // DEVICE_FAILED, and gives a value that comes later to `undo`.
  absl::StatusOr<uint64_t> Call(Request request,
                                std::function<void(ChipHost&, uint64_t value)> undo = nullptr);
  // Kills the host unless the request is answered within the time.
  void Insist(uint64_t id, absl::Duration within);

  // What is between the requests that copy. TakeSlot waits for a free one, so its caller must hold
  // none; TryTakeSlot does not wait.
  uint32_t TakeSlot();
  absl::optional<uint32_t> TryTakeSlot();
  void GiveSlot(uint32_t slot);
  std::byte* SlotData(uint32_t slot) const { return slots_ + slot * kSlotBytes; }

  // Changes when memory and kernels of the chip are lost. Never 0.
  uint64_t epoch() const;
  // Empty while the chip works.
  std::string trouble() const;
  // How often the chip has failed or its process has died, and the last time why. A fault that is
  // over before anybody looks can be seen here.
  struct Faults {
    uint64_t count = 0;
    std::string last;
  };
  Faults faults() const;
  pid_t pid() const;
  uint64_t starts() const;
  const std::string& name() const { return options_.name; }

  // Ends the process, and refuses requests from now on; another process is started.
  void KillProcess(const std::string& why);
  // Probes the chip. If it is not well, resets it or starts the next process, without a pause, and
  // waits until it can be used.
  absl::Status Recover(absl::Duration timeout);

 private:
  enum class State { kStarting, kReady, kFailed, kDead, kStopped };
  struct Pending {
    Answer answer;
    int64_t deadline_ns = 0;  // 0: none
  };
  using Answers = std::vector<std::pair<Answer, Reply>>;

  explicit ChipHost(ChipHostOptions options);
  ~ChipHost();
  // What the last owner does.
  static void End(ChipHost* host);

  // ---- on the thread
  void Run();
  // One process, from its start to its end.
  void RunProcess();
  absl::StatusOr<std::unique_ptr<host::HostProcess>> StartProcess();
  void Serve(host::HostProcess& process);
  // Waits for the end of a process that was killed. Returns what is known of it.
  std::string Bury(std::unique_ptr<host::HostProcess> process);
  // Returns whether there is more. Sets `broken` if the ring is.
  bool HandleReplies(host::RingReader& reader, std::string* broken);
  void HandleReply(const Reply& reply, Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckTimes(int64_t* next_ns, std::string* overdue);
  void SendReset() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailAll(const absl::Status& why);
  // Asks the process to end, or to wait no longer for that. Returns whether to wait.
  bool AwaitStop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // ---- on any thread
  // The process is gone, or soon: from now on it gets no requests. Only the first call counts.
  void MarkLost(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns how long to wait after a fault.
  absl::Duration NoteFault(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendProbe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refusal(uint64_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t Add(Request request, Answer answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake() const;

  const ChipHostOptions options_;
  const FileDescriptor wake_;
  FileDescriptor slot_file_;
  std::byte* slots_ = nullptr;

  mutable Mutex mutex_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  absl::Status trouble_ ABSL_GUARDED_BY(mutex_);
  ChipInfo info_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Set while the process ends by itself.
  int64_t stop_by_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string kill_ ABSL_GUARDED_BY(mutex_);  // a text: the process is to end
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t starts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::vector<std::byte>> backlog_ ABSL_GUARDED_BY(mutex_);
  absl::optional<host::RingWriter> writer_ ABSL_GUARDED_BY(mutex_);
  // Changed by the thread only, with the lock.
  std::unique_ptr<host::HostProcess> process_;
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mutex_);

  // Of the current process: whether it was ready once, and whether it is lost.
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  FaultBackoff backoff_ ABSL_GUARDED_BY(mutex_);
  Faults faults_ ABSL_GUARDED_BY(mutex_);
  absl::Duration pause_ ABSL_GUARDED_BY(mutex_);    // before the next process
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;      // no pause
  int64_t reset_ns_ ABSL_GUARDED_BY(mutex_) = 0;    // when to reset; 0: no need
  bool resetting_ ABSL_GUARDED_BY(mutex_) = false;  // the host has been told to
  int64_t probe_ns_ ABSL_GUARDED_BY(mutex_) = 0;    // when to probe; 0: a probe is under way

  host::HostOutput output_;
  std::thread thread_;
  bool orphaned_ = false;  // only for the thread: nobody else deletes this object
};

}  // namespace pto::ascend
