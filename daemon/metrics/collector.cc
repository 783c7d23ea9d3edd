#include "daemon/metrics/collector.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/kernels/session_kernels.h"
#include "daemon/rpc/net/connections.h"
#include "daemon/session/session.h"
#include "runtime/base/memory_account.h"

namespace pto::daemon::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// Families, one after the other, each with its samples.
class Families {
 public:
  void Begin(std::string name, MetricType type, std::string help) {
    MetricFamily family;
    family.name = std::move(name);
    family.help = std::move(help);
    family.type = type;
    families_.push_back(std::move(family));
  }
  void Add(double value, Labels labels = {}) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = value;
    metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void Add(const Histogram::Snapshot& times, Labels labels = {}) {
    ClientMetric metric;
    metric.label = std::move(labels);
    uint64_t count = 0;
    for (size_t i = 0; i < times.counts.size(); ++i) {
      count += times.counts[i];
      const bool last = i == Histogram::kBoundsNs.size();
      metric.histogram.bucket.push_back(
          {count, last ? std::numeric_limits<double>::infinity()
                       : static_cast<double>(Histogram::kBoundsNs[i]) / 1e9});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = static_cast<double>(times.sum_ns) / 1e9;
    families_.back().metric.push_back(std::move(metric));
  }
  void Gauge(std::string name, std::string help, double value) {
    Begin(std::move(name), MetricType::Gauge, std::move(help));
    Add(value);
  }
  void Counter(std::string name, std::string help, double value) {
    Begin(std::move(name), MetricType::Counter, std::move(help));
    Add(value);
  }
  std::vector<MetricFamily> Take() && { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

double Number(uint64_t value) { return static_cast<double>(value); }

void AddChips(Node& node, const BusySampler* busy, Families& out) {
  const std::vector<std::shared_ptr<engine::Chip>>& chips = node.engine().chips();
  const auto each = [&](std::string name, MetricType type, std::string help, auto value_of) {
    out.Begin(std::move(name), type, std::move(help));
    for (uint32_t i = 0; i < chips.size(); ++i) {
      out.Add(value_of(i), {{"chip", absl::StrCat(i)}});
    }
  };
  std::vector<engine::Engine::ChipUse> use;
  for (uint32_t i = 0; i < chips.size(); ++i) use.push_back(node.engine().chip_use(i));
  each("ptod_chip_cores", MetricType::Gauge, "Cores of a chip, of both kinds.",
       [&](uint32_t i) { return 3.0 * chips[i]->spec().clusters; });
  each("ptod_chip_usable", MetricType::Gauge, "Whether a chip can be used: 1, or 0 when faulted.",
       [&](uint32_t i) { return node.health().usable(i) ? 1.0 : 0.0; });
  each("ptod_chip_busy_cores", MetricType::Gauge, "Cores that run a block now.",
       [&](uint32_t i) { return Number(use[i].busy_cores); });
  each("ptod_chip_core_busy_seconds_total", MetricType::Counter,
       "Time that cores were busy, all together; sampled.",
       [&](uint32_t i) { return busy == nullptr ? 0 : busy->busy_seconds(i); });
  each("ptod_chip_ready_tasks", MetricType::Gauge, "Tasks that wait for a core.",
       [&](uint32_t i) { return Number(use[i].ready_tasks); });
  each("ptod_chip_tasks_total", MetricType::Counter, "Tasks that ended on a chip.",
       [&](uint32_t i) { return Number(use[i].ended_tasks); });
  each("ptod_chip_memory_bytes", MetricType::Gauge, "Device memory.",
       [&](uint32_t i) { return Number(chips[i]->memory().total_bytes()); });
  each("ptod_chip_memory_used_bytes", MetricType::Gauge,
       "Device memory that buffers and windows hold.",
       [&](uint32_t i) { return Number(chips[i]->memory().used_bytes()); });
}

void AddSessions(Node& node, Families& out) {
  Session::Usage all;
  uint64_t domains = 0, windows = 0, window_bytes = 0, tasks = 0;
  uint64_t log_bytes = 0, watchers = 0, lag = 0;
  uint64_t kernels = 0, hosts = 0, host_blocks = 0, host_bytes = 0;
  const std::vector<std::shared_ptr<Session>> sessions =
      node.sessions().List(auth::Daemon(), "", std::numeric_limits<size_t>::max());
  for (const std::shared_ptr<Session>& session : sessions) {
    const Session::Usage usage = session->usage();
    all.buffers += usage.buffers;
    all.graphs += usage.graphs;
    tasks += usage.tasks + usage.open_tasks;
    for (const std::shared_ptr<Domain>& domain :
         session->domains().List("", std::numeric_limits<size_t>::max())) {
      ++domains;
      windows += domain->spec().chips.size();
      window_bytes += domain->device_bytes();
    }
    log_bytes += session->log().bytes();
    const EventLog::Watchers watching = session->log().watchers();
    watchers += watching.count;
    lag = std::max(lag, watching.largest_lag);
    kernels += session->kernels().size();
    if (const absl::optional<host::HostStatus> host = session->kernels().host()) {
      hosts += host->pid != 0 ? 1 : 0;
      host_blocks += host->posts;
      host_bytes += host->region_bytes;
    }
  }
  out.Gauge("ptod_sessions", "Sessions that are alive.", Number(sessions.size()));
  out.Counter("ptod_sessions_created_total", "Sessions that were created.",
              Number(node.sessions().created()));
  out.Counter("ptod_session_lease_expiries_total",
              "Sessions that ended because their lease expired.",
              Number(node.sessions().expired()));
  out.Gauge("ptod_kernels_uploaded", "Uploaded kernels of all sessions.", Number(kernels));
  const KernelStore::Stored files = node.kernel_hosts().store().stored();
  out.Gauge("ptod_kernel_files", "Different files of uploaded kernels.", Number(files.files));
  out.Gauge("ptod_kernel_file_bytes", "Bytes of these files.", Number(files.bytes));
  out.Gauge("ptod_kernel_hosts", "Processes that run uploaded kernels.", Number(hosts));
  out.Gauge("ptod_kernel_host_blocks", "Blocks that these processes run now.", Number(host_blocks));
  out.Gauge("ptod_kernel_host_mapped_bytes", "Memory of sessions that these processes have mapped.",
            Number(host_bytes));
  const KernelHosts::Counts counts = node.kernel_hosts().counts();
  out.Counter("ptod_kernel_host_starts_total", "Processes for uploaded kernels that were started.",
              Number(counts.starts));
  out.Counter("ptod_kernel_host_deaths_total",
              "How often such a process has died without being asked to end.",
              Number(counts.deaths));
  out.Gauge("ptod_buffers", "Buffers of all sessions.", Number(all.buffers));
  out.Gauge("ptod_graphs", "Registered graphs of all sessions.", Number(all.graphs));
  out.Gauge("ptod_tasks_in_flight", "Tasks of runs that are queued or running.", Number(tasks));
  out.Gauge("ptod_domains", "Domains of all sessions.", Number(domains));
  out.Gauge("ptod_windows", "Windows of all domains, one for each rank.", Number(windows));
  out.Gauge("ptod_window_bytes", "Device memory that windows hold.", Number(window_bytes));
  out.Gauge("ptod_event_log_bytes", "Bytes of events that sessions keep.", Number(log_bytes));
  out.Gauge("ptod_event_watchers", "Open WatchEvents streams.", Number(watchers));
  out.Gauge("ptod_event_lag_events", "Events that the slowest watcher has not been sent.",
            Number(lag));
  const MemoryAccount& memory = *node.sessions().memory().all();
  out.Gauge("ptod_memory_budget_bytes", "Memory that may be held for clients.",
            Number(memory.limit()));
  out.Gauge("ptod_memory_held_bytes", "Memory that is held for clients.", Number(memory.used()));
  out.Counter("ptod_events_dropped_total", "Events that were dropped because a log was full.",
              Number(EventLog::dropped_events()));
}

void AddRuns(Node& node, const RunStats& stats, Families& out) {
  const RunStats::Totals totals = stats.Look();
  out.Gauge("ptod_runs_active", "Runs that are queued or running.",
            Number(node.engine().active_runs()));
  out.Begin("ptod_runs_total", MetricType::Counter, "Runs that ended, by state.");
  for (const auto& [state, name] : {std::pair(engine::RunState::kSucceeded, "succeeded"),
                                    std::pair(engine::RunState::kFailed, "failed"),
                                    std::pair(engine::RunState::kCancelled, "cancelled")}) {
    out.Add(Number(totals.ended[static_cast<size_t>(state)]), {{"state", name}});
  }
  out.Counter("ptod_tasks_failed_total", "Tasks that failed.", Number(totals.tasks_failed));
  out.Counter("ptod_tasks_skipped_total", "Tasks that were skipped because an earlier task failed.",
              Number(totals.tasks_skipped));
  out.Begin("ptod_run_queue_seconds", MetricType::Histogram,
            "From a run's acceptance to the start of its first task.");
  out.Add(totals.queue);
  out.Begin("ptod_run_duration_seconds", MetricType::Histogram,
            "From the start of a run's first task to its end.");
  out.Add(totals.run);
  out.Begin("ptod_dispatch_latency_seconds", MetricType::Histogram,
            "From a run's turn to the start of its first task; of one run in 16.");
  out.Add(totals.dispatch);
}

void AddJournal(Node& node, Families& out) {
  out.Gauge("ptod_usage_writable",
            "Whether usage can be recorded; 1 also without a state directory.",
            node.usage().failing() ? 0.0 : 1.0);
  out.Gauge("ptod_used_run_ids", "Ids of runs that are known to be used, and nothing else of them.",
            Number(node.sessions().run_ids().size()));
  Journal* const journal = node.journal();
  const Journal::Counts counts = journal == nullptr ? Journal::Counts() : journal->counts();
  out.Gauge("ptod_journal_writable", "Whether the journal can be written; 1 also without one.",
            journal == nullptr || journal->writable() ? 1.0 : 0.0);
  out.Counter("ptod_journal_failures_total",
              "How often the journal could not be written or synced.", Number(counts.failures));
  out.Gauge("ptod_journal_files", "Files of the journal.", Number(counts.segments));
  out.Gauge("ptod_journal_bytes", "Bytes of the journal's files.", Number(counts.bytes));
  out.Gauge("ptod_journal_damaged_files",
            "Files of the journal that were damaged or missing when the daemon began.",
            Number(counts.damage.files));
  out.Gauge("ptod_journal_skipped_bytes", "Bytes of damaged files that could not be read.",
            Number(counts.damage.skipped_bytes));
}

void AddCalls(const RpcStats& stats, const Refusals& in_streams, Families& out) {
  const std::vector<RpcStats::MethodTotals> methods = stats.Look();
  out.Begin("ptod_grpc_calls_total", MetricType::Counter, "Calls that ended, by method and code.");
  for (const RpcStats::MethodTotals& method : methods) {
    for (size_t code = 0; code < RpcStats::kCodes; ++code) {
      if (method.codes[code] == 0) continue;
      out.Add(Number(method.codes[code]),
              {{"method", method.name},
               {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code))}});
    }
  }
  out.Begin("ptod_grpc_call_duration_seconds", MetricType::Histogram,
            "From a call's arrival to its answer, by method.");
  for (const RpcStats::MethodTotals& method : methods) {
    if (*std::max_element(method.times.counts.begin(), method.times.counts.end()) == 0) continue;
    out.Add(method.times, {{"method", method.name}});
  }
  out.Begin("ptod_quota_refusals_total", MetricType::Counter,
            "Calls and launches that were refused because a limit was reached, by reason.");
  Refusals::Counts refusals = stats.refusals();
  for (const auto& [reason, count] : in_streams.Look()) refusals[reason] += count;
  for (const auto& [reason, count] : refusals) out.Add(Number(count), {{"reason", reason}});
}

// Under the names that all exporters use.
void AddProcess(Families& out) {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  const rpc::Connections::Stats connections = rpc::Connections::OfProcess();
  out.Gauge("ptod_connections", "Connections of clients.", Number(connections.open));
  out.Counter("ptod_connections_accepted_total", "Connections that were accepted.",
              Number(connections.accepted));
  out.Counter("ptod_connections_refused_total",
              "Connections that were refused because there were too many.",
              Number(connections.refused));
  out.Counter("ptod_connections_ended_total",
              "Connections that the daemon ended because of what they did.",
              Number(connections.ended));
  out.Counter("process_cpu_seconds_total", "CPU time of the daemon.",
              seconds(usage.ru_utime) + seconds(usage.ru_stime));
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  out.Gauge("process_resident_memory_bytes", "Resident memory of the daemon.",
            Number(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  uint64_t files = 0;
  if (DIR* const directory = opendir("/proc/self/fd")) {
    // Without itself, `.` and `..`.
    while (readdir(directory) != nullptr) ++files;
    closedir(directory);
    files -= std::min<uint64_t>(files, 3);
  }
  out.Gauge("process_open_fds", "Open files of the daemon.", Number(files));
}

}  // namespace

std::vector<MetricFamily> Collector::Collect() const {
  Families out;
  Node& node = *sources_.node;
  out.Begin("ptod_build_info", MetricType::Gauge, "Always 1; the label says which release.");
  out.Add(1, {{"version", sources_.version}});
  out.Gauge("ptod_start_time_seconds", "When the daemon started, in Unix time.",
            absl::ToDoubleSeconds(node.start_time() - absl::UnixEpoch()));
  out.Gauge("ptod_draining", "1 while new work is refused.", node.draining() ? 1 : 0);
  AddChips(node, sources_.busy, out);
  AddSessions(node, out);
  AddRuns(node, *sources_.runs, out);
  AddJournal(node, out);
  AddCalls(*sources_.calls, *sources_.in_streams, out);
  AddProcess(out);
  return std::move(out).Take();
}

}  // namespace pto::daemon::metrics
