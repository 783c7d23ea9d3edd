#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/allocation.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_reports.h"
#include "runtime/host/crash_report.h"
#include "runtime/host/host_output.h"
#include "runtime/host/host_process.h"
#include "runtime/host/hosted_kernel.h"
#include "runtime/host/message.h"
#include "runtime/host/region_map.h"
#include "runtime/host/ring.h"

namespace pto::host {

struct HostOptions {
  std::string name;  // of the lane
  HostCommand command;
  SandboxLimits sandbox;
  // Threads for kernels that do not block; 0: one for each processor.
  uint32_t runners = 0;
  // A host that does not end a cancelled post within this time is killed and started again. Less
  // than the grace of the engine, which would give up the lane for good. 0: leave it to the engine.
  absl::Duration grace = absl::Seconds(3);
  // How long a new host may take until it is ready.
  absl::Duration start_timeout = absl::Seconds(10);
  // Between two starts that fail: doubles up to the maximum.
  absl::Duration first_pause = absl::Milliseconds(100);
  absl::Duration longest_pause = absl::Seconds(10);
};

// What is to be known of a host.
struct HostStatus {
  enum class State { kStarting, kReady, kPaused, kEnded };

  std::string name;
  State state = State::kStarting;
  pid_t pid = 0;  // 0: no process now
  uint64_t starts = 0;
  uint64_t deaths = 0;  // without being asked to end
  std::string last_death;
  // From the last death until the next host was ready.
  absl::Duration last_restart;
  size_t kernels = 0;
  size_t regions = 0;
  uint64_t region_bytes = 0;
  size_t posts = 0;    // given to the host
  size_t waiting = 0;  // posts that it has no room for yet
  SandboxReport sandbox;
};

// A kernel that a host is to load.
struct HostedObject {
  FileDescriptor object;  // a memfd or a file
  std::string entry;      // the symbol of the kernel; empty: the usual one
  std::string file_name;  // for messages
  HostAbi abi = HostAbi::kOwn;
  // Of the PTO ABI, whose objects do not tell: the kernel's name and signature (PtoSignature).
  std::string name;
  std::string signature;
};

// A domain whose windows a host sees.
struct HostedDomain {
  struct Window {
    uint32_t chip = 0;
    // In memory that the host sees. Used for each new host, so RemoveDomain comes before the end
    // of the memory.
    const void* data = nullptr;
    uint64_t bytes = 0;
  };
  // Never used again, also not for another domain of the same name. Tasks name the domain by it.
  uint64_t number = 0;
  std::vector<Window> windows;  // of each rank
};

// Keeps a kernel host running: one process that runs the kernels of one owner, for example a
// session. When the process dies, all its posts fail with HOST_LOST, and another one is started,
// which gets the same kernels and memory. So images that use the kernels stay usable.
//
// The process may do what it wants: whatever comes from it is checked, and what is wrong ends it.
// Thread-safe. HostSupervisor makes it and calls Run in a thread of its own.
class HostKeeper : public std::enable_shared_from_this<HostKeeper> {
 public:
  explicit HostKeeper(HostOptions options);
  ~HostKeeper();
  HostKeeper(const HostKeeper&) = delete;
  HostKeeper& operator=(const HostKeeper&) = delete;

  // ---- for the owner
  // Loads a kernel into the host, and into each later one. Waits until it is loaded. `object` is a
  // memfd or a file; `file_name` is for messages.
  //
  // FIELD_INVALID with what the host says, if the kernel is refused. HOST_LOST if the host dies
  // meanwhile; if loading was the cause, or takes longer than the timeout, the kernel is never
  // loaded again.
  absl::StatusOr<std::shared_ptr<const HostedKernel>> Load(FileDescriptor object,
                                                           const std::string& entry,
                                                           const std::string& file_name,
                                                           absl::Duration timeout);
  absl::StatusOr<std::shared_ptr<const HostedKernel>> Load(HostedObject object,
                                                           absl::Duration timeout);
  // Shows the memory to the host, and to each later one. It must have been moved to a file (see
  // HostAllocation); otherwise NOT_AVAILABLE. It lives until RemoveMemory or the end of the keeper.
  absl::Status AddMemory(std::shared_ptr<engine::HostAllocation> memory);
  // Tensors of later posts must not be in it.
  void RemoveMemory(const engine::HostAllocation& memory);
  // Tells the host, and each later one, where the windows of a domain are. Their memory must have
  // been added, or posts that name the domain fail. They may name it until RemoveDomain.
  // FIELD_INVALID for more ranks than kernels know.
  absl::Status AddDomain(const HostedDomain& domain);
  void RemoveDomain(uint64_t number);
  HostStatus status() const;
  // Waits until a host is ready. Returns false if that does not happen in time.
  bool AwaitReady(absl::Duration timeout);
  // Ends the host for good. Returns at once. Posts that have not ended fail.
  void Stop();

  // ---- for HostLane: see engine::Lane
  const std::string& name() const { return options_.name; }
  void Open(std::shared_ptr<engine::LaneReports> reports);
  void Post(absl::Span<const engine::LanePost* const> posts);
  void Cancel(absl::Span<const engine::PostId> ids);
  void EndRun(uint64_t run);
  void Resume(const engine::LaneAnswer& answer);
  bool BeginPoll();
  void Poll();
  void EndPoll();
  void Kill();

  // ---- for HostSupervisor
  // Returns after Stop or Kill, when no process is left.
  void Run();

 private:
  using State = HostStatus::State;

  struct KernelEntry {
    HostedObject object;
    enum class State { kLoading, kLoaded, kBroken } state = State::kLoading;
    bool known = false;  // it was loaded once
    absl::Status error;  // of a broken one
    KernelDescription description;
  };
  struct Slot {
    // nullptr: free. Lives until the post is answered or Kill has returned, so it is used only with
    // the lock.
    const engine::LanePost* post = nullptr;
    int64_t cancelled_ns = 0;
    bool in_call = false;  // a call of its kernel has no answer
    uint32_t call = 0;     // its number
    std::string why;       // the last call did not succeed
  };
  // Why a host has ended.
  struct Cause {
    std::string text;         // empty: it ended by itself
    uint32_t slot = kNoSlot;  // of the post that is the cause
    uint32_t kernel = 0;      // that was being loaded
  };

  // ---- for posts
  // Writes the post to the ring, or adds it to `refused`. Returns false if it must wait.
  bool SendPost(const engine::LanePost& post, std::vector<engine::LaneResult>* refused)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status FillTensors(const engine::LanePost& post) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends what waits, as far as there is room.
  void SendBacklog(std::vector<engine::LaneResult>* refused) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishPosts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Complete(std::vector<engine::LaneResult>* results);

  // ---- for orders
  void Send(Order order) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(const OrderMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Send(Order{message, {}, {}});
  }
  // The descriptor that goes with an order, or -1. An order for what is gone by now becomes its
  // opposite, so that the numbers of the orders stay complete.
  int DescriptorOf(OrderMessage* order) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendLoad(uint32_t id, KernelEntry& kernel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendMap(const Region& region) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendDomain(const HostedDomain& domain) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends what waits, as far as there is room.
  void SendOrders() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unload(uint32_t id);

  // ---- for the thread
  bool AwaitStart();
  void BeginProcess(std::unique_ptr<HostProcess> process);
  Cause Serve();
  // Handles up to a batch of reports. Returns how many; a broken ring is a cause.
  size_t HandleReports(Cause* cause) {
    MutexLock lock(reading_);
    return HandleReportsLocked(cause);
  }
  size_t HandleReportsLocked(Cause* cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(reading_);
  void HandleReport(const Report& report, std::vector<engine::LaneResult>* results, Cause* cause);
  void HandleAnswers(Cause* cause);
  absl::Status HandleAnswer(const AnswerMessage& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the thread has been told, and what is due. Sets `next_ns` to when to look again; 0: never.
  void CheckTimes(int64_t* next_ns, Cause* cause);
  void Bury(Cause cause);
  // What the daemon tells of the death.
  std::string Explain(const Cause& cause, const CrashReport& crash, HostProcess::End end) const;
  // nullptr: there is none.
  const engine::LanePost* PostAt(uint32_t slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FindCulprit(const CrashReport& crash, Cause* cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Place(uint32_t slot, const CrashReport& crash) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake() const;
  void LogOf(const Report& report, const std::string& kernel);
  // Begins a call of a kernel: what the engine is to be asked. A post that is in a call is a cause.
  absl::optional<engine::LaneCall> BeginCall(const Report& report, Slot& slot, Cause* cause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const HostOptions options_;
  const FileDescriptor wake_;  // an eventfd that ends the sleep of the thread

  // Held while a thread handles reports: that of the host, or one that polls. Before `mutex_`.
  Mutex reading_;
  absl::optional<RingReader> reader_ ABSL_GUARDED_BY(reading_);  // of the process that is there
  uint64_t reader_number_ ABSL_GUARDED_BY(reading_) = 0;
  uint64_t polled_number_ ABSL_GUARDED_BY(reading_) = 0;
  std::vector<engine::LaneResult> results_ ABSL_GUARDED_BY(reading_);
  std::vector<std::byte> report_bytes_ ABSL_GUARDED_BY(reading_);
  std::atomic<bool> polling_{false};

  mutable Mutex mutex_;
  CondVar changed_;  // a kernel or the state
  State state_ ABSL_GUARDED_BY(mutex_) = State::kStarting;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  Cause give_up_ ABSL_GUARDED_BY(mutex_);  // a text: the thread is to end the host
  std::shared_ptr<engine::LaneReports> reports_ ABSL_GUARDED_BY(mutex_);
  // Changed by the thread only, with the lock. So the thread itself may use it without.
  std::unique_ptr<HostProcess> process_;
  absl::optional<RingWriter> writer_ ABSL_GUARDED_BY(mutex_);
  uint64_t orders_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last one that posts need: what they use must be there.
  uint64_t needed_orders_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Order> unsent_ ABSL_GUARDED_BY(mutex_);
  int64_t unsent_since_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // when the host last took one

  uint32_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;  // of kernels and regions
  absl::flat_hash_map<uint32_t, KernelEntry> kernels_ ABSL_GUARDED_BY(mutex_);
  std::deque<uint32_t> loading_ ABSL_GUARDED_BY(mutex_);  // in the order of their answers
  RegionMap regions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, HostedDomain> domains_ ABSL_GUARDED_BY(mutex_);
  // Runs that may have left pipes in the host.
  absl::flat_hash_set<uint64_t> pipe_runs_ ABSL_GUARDED_BY(mutex_);

  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint32_t> free_slots_ ABSL_GUARDED_BY(mutex_);
  std::deque<const engine::LanePost*> backlog_ ABSL_GUARDED_BY(mutex_);
  size_t cancelled_ ABSL_GUARDED_BY(mutex_) = 0;  // posts with a time
  std::vector<TensorMessage> tensors_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte> bytes_ ABSL_GUARDED_BY(mutex_);

  uint64_t starts_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t deaths_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string last_death_ ABSL_GUARDED_BY(mutex_);
  absl::Duration last_restart_ ABSL_GUARDED_BY(mutex_);
  SandboxReport sandbox_ ABSL_GUARDED_BY(mutex_);

  // Of the thread.
  HostOutput output_;
  int64_t started_ns_ = 0;  // of the process
  int64_t died_ns_ = 0;     // the process before
  int64_t next_start_ns_ = 0;
  uint32_t failed_starts_ = 0;
};

}  // namespace pto::host
