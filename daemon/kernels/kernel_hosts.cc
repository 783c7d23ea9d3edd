#include "daemon/kernels/kernel_hosts.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/host_memory.h"

namespace pto::daemon {
namespace {

// How long the process of a host that was stopped may take to end.
constexpr absl::Duration kEndTime = absl::Seconds(10);
constexpr absl::Duration kEndLook = absl::Milliseconds(2);

// Each buffer that a host sees takes a descriptor; most of them are for connections.
std::shared_ptr<engine::SharingBudget> MakeSharing() {
  constexpr uint64_t kMostFiles = 65'536;
  constexpr uint64_t kShare = 8;
  rlimit limit = {};
  uint64_t files = kMostFiles;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    files = std::min<uint64_t>(files, limit.rlim_cur / kShare);
  }
  // The pages of buffers count in the budget of the machine's memory already.
  return std::make_shared<engine::SharingBudget>(files, ~uint64_t{0});
}

}  // namespace

KernelHosts::KernelHosts(Options options)
    : options_(std::move(options)),
      store_(std::make_shared<KernelStore>(options_.max_kernel_bytes, options_.max_client_bytes)),
      sharing_(MakeSharing()) {}

absl::Status KernelHosts::CheckAvailable() const {
  if (!options_.command.arguments.empty()) return absl::OkStatus();
  return Error(reason::kNotAvailable, "this node has no program for kernel hosts");
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
  loads_.Add(key, "", [this, keeper = std::move(keeper)] {
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
