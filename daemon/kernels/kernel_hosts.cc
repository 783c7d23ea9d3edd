#include "daemon/kernels/kernel_hosts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/host_memory.h"

namespace pto::daemon {
namespace {

// How long the process of a host that was stopped may take to end.
constexpr absl::Duration kEndTime = absl::Seconds(10);
constexpr absl::Duration kEndLook = absl::Milliseconds(2);

// Each buffer that a host sees takes a descriptor; most of them are for connections.
constexpr uint64_t kBufferShare = 8;

}  // namespace

KernelHosts::KernelHosts(Options options)
    : options_(std::move(options)),
      store_(std::make_shared<KernelStore>(options_.max_kernel_bytes, options_.max_client_bytes)),
      // The files are counted below, and pages in the budget of the machine's memory already.
      sharing_(std::make_shared<engine::SharingBudget>(~uint64_t{0}, ~uint64_t{0})),
      buffer_files_(std::make_shared<DescriptorShares>(DescriptorShares::OfProcess(kBufferShare))) {
}

absl::Status KernelHosts::CheckAvailable() const {
  if (!options_.command.arguments.empty()) return absl::OkStatus();
  return Error(reason::kNotAvailable, "this node has no program for kernel hosts");
}

absl::StatusOr<std::shared_ptr<const void>> KernelHosts::TakeBufferFile(const std::string& client) {
  DescriptorShares::Limit exceeded;
  std::shared_ptr<const void> taken = buffer_files_->Take(client, &exceeded);
  if (taken != nullptr) return taken;
  return Error(reason::kChipMemoryExhausted,
               absl::StrCat(exceeded.of_client ? absl::StrCat("client ", client, " has")
                                               : "all clients together have",
                            " ", exceeded.used,
                            " buffers and windows in sessions with uploaded kernels, of ",
                            exceeded.limit, " that there can be"))
      .Limit("kernel_session_buffers", exceeded.limit, exceeded.used, 1)
      .Hint("use views of fewer, larger buffers, or raise LimitNOFILE of the daemon");
}

absl::Status KernelHosts::Load(const void* session, const std::string& client,
                               std::function<void()> work) {
  if (loads_.Add(session, client, std::move(work))) return absl::OkStatus();
  return Error(reason::kMemoryBudget, "the machine has no thread that could load the kernel")
      .Hint("try again later; the operator can raise TasksMax of the daemon");
}

std::shared_ptr<host::HostKeeper> KernelHosts::Start(const std::string& session) {
  host::HostOptions options;
  options.name = session;
  options.command = options_.command;
  options.sandbox = options_.sandbox;
  options.start_timeout = options_.start_timeout;
  // Who uses it holds `keeper`, which counts what it has been when it goes. The deleter itself
  // lives as long as weak references, so it lets go of the host.
  const auto started =
      std::make_shared<std::shared_ptr<host::HostKeeper>>(supervisor_.Start(std::move(options)));
  const std::shared_ptr<host::HostKeeper> keeper(started->get(),
                                                 [started, past = past_](host::HostKeeper* ending) {
                                                   ending->Stop();
                                                   const host::HostStatus status = ending->status();
                                                   started->reset();
                                                   MutexLock lock(past->mutex);
                                                   past->counts.starts += status.starts;
                                                   past->counts.deaths += status.deaths;
                                                 });
  MutexLock lock(mutex_);
  if (stopped_) keeper->Stop();
  std::erase_if(hosts_,
                [](const std::weak_ptr<host::HostKeeper>& known) { return known.expired(); });
  hosts_.push_back(keeper);
  return keeper;
}

void KernelHosts::Retire(std::shared_ptr<host::HostKeeper> keeper) {
  keeper->Stop();
  const void* const key = keeper.get();
  // Without a thread for this the next start joins it.
  (void)loads_.Add(key, "", [this, keeper = std::move(keeper)] {
    const absl::Time until = absl::Now() + kEndTime;
    while (keeper->status().state != host::HostStatus::State::kEnded && absl::Now() < until) {
      absl::SleepFor(kEndLook);
    }
    // Joins its thread.
    supervisor_.List();
  });
}

KernelHosts::Counts KernelHosts::counts() const {
  std::vector<std::shared_ptr<host::HostKeeper>> hosts;
  {
    MutexLock lock(mutex_);
    for (const std::weak_ptr<host::HostKeeper>& known : hosts_) {
      if (std::shared_ptr<host::HostKeeper> keeper = known.lock()) {
        hosts.push_back(std::move(keeper));
      }
    }
  }
  Counts counts;
  {
    MutexLock lock(past_->mutex);
    counts = past_->counts;
  }
  for (const std::shared_ptr<host::HostKeeper>& host : hosts) {
    const host::HostStatus status = host->status();
    counts.starts += status.starts;
    counts.deaths += status.deaths;
  }
  return counts;
}

void KernelHosts::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    for (const std::weak_ptr<host::HostKeeper>& known : hosts_) {
      if (const std::shared_ptr<host::HostKeeper> keeper = known.lock()) keeper->Stop();
    }
  }
  loads_.Stop();
}

}  // namespace pto::daemon
