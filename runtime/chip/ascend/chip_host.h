#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/mutex.h"
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
  // A host that does not answer for so long is killed. Launches have timeouts of their own.
  absl::Duration answer_timeout = absl::Seconds(60);
  // Between a fault and the reset: doubles with each fault up to the maximum, and is forgotten when
  // there was none for a minute.
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
// its device fails, it is reset. After both the chip's memory is gone, which `epoch` tells.
//
// Every request is answered exactly once: by the host, or with HOST_LOST when it dies. Thread-safe.
class ChipHost {
 public:
  // Begins to start the process. See AwaitReady.
  static std::shared_ptr<ChipHost> Start(ChipHostOptions options);
  // Lets the process give its device back, and ends it, within seconds.
  ~ChipHost();
  ChipHost(const ChipHost&) = delete;
  ChipHost& operator=(const ChipHost&) = delete;

  // Waits until the chip can be used. The error of the host if it cannot: CANN_UNUSABLE and others.
  absl::StatusOr<ChipInfo> AwaitReady(absl::Duration timeout);

  // Called by the host's thread, without locks. Must not wait.
  using Answer = std::function<void(const Reply&)>;
  // Returns the id of the request. Calls `answer` at once if there is no host.
  uint64_t Send(Request request, Answer answer);
  // Waits for the answer, and returns its value.
  absl::StatusOr<uint64_t> Call(Request request);
  // Kills the host unless the request is answered within the time: the only way to stop a kernel.
  void Insist(uint64_t id, absl::Duration within);

  // What is between the requests that copy. TakeSlot waits for a free one.
  uint32_t TakeSlot();
  void GiveSlot(uint32_t slot);
  std::byte* SlotData(uint32_t slot) const { return slots_ + slot * kSlotBytes; }

  // Changes when memory and kernels of the chip are lost.
  uint64_t epoch() const;
  // Empty while the chip works.
  std::string trouble() const;
  pid_t pid() const;
  uint64_t starts() const;
  const std::string& name() const { return options_.name; }
  // Ends the process; another one is started.
  void KillProcess(const std::string& why);

 private:
  enum class State { kStarting, kReady, kFailed, kDead, kStopped };
  struct Pending {
    Answer answer;
    int64_t deadline_ns = 0;  // 0: none
  };
  using Answers = std::vector<std::pair<Answer, Reply>>;

  explicit ChipHost(ChipHostOptions options);

  void Run();
  // One process, from its start to its end.
  void RunProcess();
  void Serve(host::HostProcess& process);
  // Returns false if the ring is broken.
  bool HandleReplies(host::RingReader& reader, std::string* broken);
  void HandleReply(const Reply& reply, Answers* answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckTimes(int64_t* next_ns, std::string* overdue);
  void FailAll(const absl::Status& why);
  // Asks the process to end, or to wait no longer for that. Returns whether to wait.
  bool AwaitStop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
  int64_t stop_by_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // set while the process ends by itself
  std::string kill_ ABSL_GUARDED_BY(mutex_);        // a text: the process is to end
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t starts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::vector<std::byte>> backlog_ ABSL_GUARDED_BY(mutex_);
  absl::optional<host::RingWriter> writer_ ABSL_GUARDED_BY(mutex_);
  // Changed by the thread only, with the lock.
  std::unique_ptr<host::HostProcess> process_;
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mutex_);

  uint32_t faults_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_fault_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t reset_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // when to reset; 0: no need

  host::HostOutput output_;
  std::thread thread_;
};

}  // namespace pto::ascend
