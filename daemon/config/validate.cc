#include "daemon/config/validate.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/config/units.h"
#include "daemon/shell/listen_address.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;
using config::v1::LimitsConfig;

// The overhead of a message around the data of a chunk.
constexpr uint64_t kMessageMargin = 64 << 10;
constexpr uint64_t kNoBound = std::numeric_limits<uint64_t>::max();

absl::Status Wrong(absl::string_view key, absl::string_view what) {
  return Error(reason::kConfigInvalid, absl::StrCat(key, ": ", what)).At(key);
}

absl::Status CheckRange(absl::string_view key, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  if (most == kNoBound) return Wrong(key, absl::StrCat(value, " is less than ", least));
  return Wrong(key, absl::StrCat(value, " is not from ", least, " to ", most));
}

absl::Status CheckBytes(absl::string_view key, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Wrong(key, absl::StrCat(FormatBytes(value), " bytes is not from ", FormatBytes(least),
                                 " to ", FormatBytes(most)));
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

absl::Status CheckDuration(absl::string_view key, const google::protobuf::Duration& proto,
                           absl::Duration least, absl::Duration most) {
  const absl::Duration value = ToDuration(proto);
  if (value >= least && value <= most) return absl::OkStatus();
  return Wrong(key, absl::StrCat(absl::FormatDuration(value), " is not from ",
                                 absl::FormatDuration(least), " to ", absl::FormatDuration(most)));
}

absl::Status CheckListen(const DaemonConfig& config) {
  if (config.listen().empty()) return Wrong("listen", "at least one address is needed");
  absl::flat_hash_set<std::string> seen;
  for (const std::string& text : config.listen()) {
    const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(text);
    if (!address.ok()) return Wrong("listen", address.status().message());
    // Port 0 is a different port each time.
    const bool any_port = !address->is_unix() && address->port() == 0;
    if (!any_port && !seen.insert(address->ToString()).second) {
      return Wrong("listen", absl::StrCat(text, " is there twice"));
    }
    if (!address->IsLocal() && !config.allow_remote()) {
      return Wrong("listen",
                   absl::StrCat(text,
                                " can be reached from other machines; listen on a unix socket or a "
                                "loopback address, or set allow_remote: true (--allow-remote) and "
                                "tls"));
    }
    if (!address->IsLocal() && config.tls().cert_file().empty()) {
      return Wrong("listen", absl::StrCat(text,
                                          " can be reached from other machines, and that needs "
                                          "TLS: set tls.cert_file (--tls-cert) and tls.key_file"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const config::v1::TlsConfig& tls) {
  const struct {
    absl::string_view key;
    bool set;
    absl::string_view needed;
    bool needed_set;
  } needs[] = {
      {"tls.cert_file", !tls.cert_file().empty(), "tls.key_file", !tls.key_file().empty()},
      {"tls.key_file", !tls.key_file().empty(), "tls.cert_file", !tls.cert_file().empty()},
      {"tls.client_ca_file", !tls.client_ca_file().empty(), "tls.cert_file",
       !tls.cert_file().empty()},
      {"tls.require_client_cert", tls.require_client_cert(), "tls.client_ca_file",
       !tls.client_ca_file().empty()},
      {"tls.crl_dir", !tls.crl_dir().empty(), "tls.client_ca_file", !tls.client_ca_file().empty()},
  };
  for (const auto& each : needs) {
    if (each.set && !each.needed_set) return Wrong(each.key, absl::StrCat("needs ", each.needed));
  }
  return absl::OkStatus();
}

absl::Status CheckMetricsListen(const DaemonConfig& config) {
  if (config.metrics_listen().empty()) return absl::OkStatus();
  const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(config.metrics_listen());
  if (!address.ok()) return Wrong("metrics_listen", address.status().message());
  if (address->IsLocal() || config.allow_remote()) return absl::OkStatus();
  return Wrong("metrics_listen",
               absl::StrCat(config.metrics_listen(),
                            " can be reached from other machines; use a unix socket or a loopback "
                            "address, or set allow_remote: true (--allow-remote)"));
}

absl::Status CheckSession(const DaemonConfig& config) {
  const auto& session = config.session();
  const absl::Duration least = absl::Milliseconds(1);
  const absl::Duration most = absl::Hours(24);
  PTO_RETURN_IF_ERROR(CheckDuration("session.max_ttl", session.max_ttl(), least, most));
  PTO_RETURN_IF_ERROR(
      CheckDuration("session.min_ttl", session.min_ttl(), least, ToDuration(session.max_ttl())));
  return CheckDuration("session.default_ttl", session.default_ttl(), ToDuration(session.min_ttl()),
                       ToDuration(session.max_ttl()));
}

absl::Status CheckLimits(const LimitsConfig& limits) {
  const struct {
    absl::string_view key;
    uint64_t value;
    uint64_t most;
  } counts[] = {
      // Indices of tasks, tensors and buffers are 32 bits wide.
      {"limits.max_graph_tasks", limits.max_graph_tasks(), 1u << 30},
      {"limits.max_block_tasks", limits.max_block_tasks(), 1u << 30},
      {"limits.max_graph_tensors", limits.max_graph_tensors(), 1u << 30},
      {"limits.max_graph_edges", limits.max_graph_edges(), 1u << 30},
      {"limits.max_buffer_bytes", limits.max_buffer_bytes(), kNoBound},
      {"limits.max_session_buffers", limits.max_session_buffers(), 1u << 30},
      {"limits.max_session_active_runs", limits.max_session_active_runs(), kNoBound},
      {"limits.max_session_finished_runs", limits.max_session_finished_runs(), kNoBound},
      {"limits.max_session_live_tasks", limits.max_session_live_tasks(), 1u << 30},
      {"limits.max_session_graphs", limits.max_session_graphs(), kNoBound},
      {"limits.max_sessions", limits.max_sessions(), kNoBound},
      {"limits.max_session_device_bytes", limits.max_session_device_bytes(), kNoBound},
      {"limits.max_session_windows", limits.max_session_windows(), kNoBound},
      {"limits.max_session_tasks", limits.max_session_tasks(), kNoBound},
      {"limits.max_client_device_bytes", limits.max_client_device_bytes(), kNoBound},
      {"limits.max_client_windows", limits.max_client_windows(), kNoBound},
      {"limits.max_client_active_runs", limits.max_client_active_runs(), kNoBound},
      {"limits.max_client_tasks", limits.max_client_tasks(), kNoBound},
      {"limits.max_client_event_log_bytes", limits.max_client_event_log_bytes(), kNoBound},
      {"limits.max_kernel_bytes", limits.max_kernel_bytes(), uint64_t{1} << 40},
      {"limits.max_client_kernel_bytes", limits.max_client_kernel_bytes(), kNoBound},
  };
  for (const auto& [key, value, most] : counts) {
    PTO_RETURN_IF_ERROR(CheckRange(key, value, 1, most));
  }
  // Zero: depends on the machine.
  for (const auto& [key, bytes] :
       {std::pair("limits.max_memory_bytes", limits.max_memory_bytes()),
        std::pair("limits.max_client_memory_bytes", limits.max_client_memory_bytes())}) {
    if (bytes != 0) PTO_RETURN_IF_ERROR(CheckBytes(key, bytes, 1 << 20, kNoBound));
  }
  PTO_RETURN_IF_ERROR(
      CheckBytes("limits.max_chunk_bytes", limits.max_chunk_bytes(), 1 << 10, uint64_t{1} << 30));
  PTO_RETURN_IF_ERROR(
      CheckBytes("limits.event_log_bytes", limits.event_log_bytes(), 64 << 10, uint64_t{1} << 40));
  return CheckBytes("limits.max_message_bytes", limits.max_message_bytes(),
                    limits.max_chunk_bytes() + kMessageMargin, (uint64_t{1} << 31) - 1);
}

absl::Status CheckConnections(const config::v1::ConnectionsConfig& connections) {
  PTO_RETURN_IF_ERROR(
      CheckRange("connections.max_connections", connections.max_connections(), 0, 1u << 14));
  PTO_RETURN_IF_ERROR(CheckRange("connections.max_user_connections",
                                 connections.max_user_connections(), 0, 1u << 14));
  PTO_RETURN_IF_ERROR(CheckRange("connections.max_connection_calls",
                                 connections.max_connection_calls(), 1, 1u << 16));
  PTO_RETURN_IF_ERROR(CheckDuration("connections.keepalive_interval",
                                    connections.keepalive_interval(), absl::Seconds(1),
                                    absl::Hours(24)));
  PTO_RETURN_IF_ERROR(CheckDuration("connections.keepalive_timeout",
                                    connections.keepalive_timeout(), absl::Milliseconds(100),
                                    absl::Hours(1)));
  PTO_RETURN_IF_ERROR(CheckDuration("connections.handshake_timeout",
                                    connections.handshake_timeout(), absl::Milliseconds(10),
                                    absl::Hours(1)));
  return CheckBytes("connections.unfinished_bytes", connections.unfinished_bytes(), 32 << 20,
                    uint64_t{1} << 40);
}

absl::Status CheckJournal(const config::v1::JournalConfig& journal) {
  PTO_RETURN_IF_ERROR(CheckRange("journal.max_runs", journal.max_runs(), 1, 1u << 24));
  PTO_RETURN_IF_ERROR(CheckDuration("journal.max_age", journal.max_age(), absl::Seconds(1),
                                    absl::Hours(24 * 365 * 10)));
  PTO_RETURN_IF_ERROR(
      CheckBytes("journal.max_bytes", journal.max_bytes(), 512 << 10, uint64_t{1} << 40));
  return CheckDuration("journal.sync_interval", journal.sync_interval(), absl::Milliseconds(1),
                       absl::Hours(1));
}

absl::Status CheckExecution(const config::v1::ExecutionConfig& execution) {
  if (ToDuration(execution.default_task_timeout()) != absl::ZeroDuration()) {
    PTO_RETURN_IF_ERROR(CheckDuration("execution.default_task_timeout",
                                      execution.default_task_timeout(), absl::Milliseconds(100),
                                      absl::Hours(24 * 365)));
  }
  PTO_RETURN_IF_ERROR(CheckDuration("execution.spare_after", execution.spare_after(),
                                    absl::Milliseconds(1), absl::Seconds(10)));
  PTO_RETURN_IF_ERROR(
      CheckRange("execution.max_spare_threads", execution.max_spare_threads(), 0, 1024));
  if (ToDuration(execution.compile_timeout()) == absl::ZeroDuration()) return absl::OkStatus();
  return CheckDuration("execution.compile_timeout", execution.compile_timeout(),
                       absl::Milliseconds(1), absl::Hours(1));
}

absl::Status CheckKernels(const config::v1::KernelsConfig& kernels) {
  const std::string& uploads = kernels.uploads();
  if (uploads != "off" && uploads != "operators" && uploads != "users") {
    return Wrong("kernels.uploads",
                 absl::StrCat("expected off, operators or users, not '", uploads, "'"));
  }
  PTO_RETURN_IF_ERROR(CheckBytes("kernels.host_memory_bytes", kernels.host_memory_bytes(), 64 << 20,
                                 uint64_t{16} << 40));
  PTO_RETURN_IF_ERROR(CheckRange("kernels.host_files", kernels.host_files(), 64, 1u << 20));
  return CheckRange("kernels.host_processes", kernels.host_processes(), 64, 1u << 22);
}

}  // namespace

absl::Status ValidateConfig(const DaemonConfig& config) {
  PTO_RETURN_IF_ERROR(CheckListen(config));
  PTO_RETURN_IF_ERROR(CheckTls(config.tls()));
  PTO_RETURN_IF_ERROR(CheckMetricsListen(config));
  const std::string& loopback = config.access().loopback_tcp();
  if (loopback != "token" && loopback != "trust") {
    return Wrong("access.loopback_tcp",
                 absl::StrCat("expected token or trust, not '", loopback, "'"));
  }
  if (config.backend() != "sim" && config.backend() != "ascend") {
    return Wrong("backend", absl::StrCat("expected sim or ascend, not '", config.backend(), "'"));
  }
  const auto& chips = config.sim_chips();
  PTO_RETURN_IF_ERROR(CheckRange("sim_chips.count", chips.count(), 0, 256));
  PTO_RETURN_IF_ERROR(CheckRange("sim_chips.clusters", chips.clusters(), 1, 1024));
  PTO_RETURN_IF_ERROR(
      CheckBytes("sim_chips.memory_bytes", chips.memory_bytes(), 1 << 20, uint64_t{16} << 40));
  if (chips.profile() != "a2a3" && chips.profile() != "a5") {
    return Wrong("sim_chips.profile",
                 absl::StrCat("expected a2a3 or a5, not '", chips.profile(), "'"));
  }
  PTO_RETURN_IF_ERROR(CheckRange("executor_threads", config.executor_threads(), 0, 1024));
  LogLevel level;
  if (!ParseLogLevel(config.log_level(), &level)) {
    return Wrong("log_level", absl::StrCat("expected debug, info, warning or error, not '",
                                           config.log_level(), "'"));
  }
  LogFormat format;
  if (!ParseLogFormat(config.log_format(), &format)) {
    return Wrong("log_format",
                 absl::StrCat("expected text or json, not '", config.log_format(), "'"));
  }
  if (config.broker() != "auto" && config.broker() != "off") {
    return Wrong("broker", absl::StrCat("expected auto or off, not '", config.broker(), "'"));
  }
  PTO_RETURN_IF_ERROR(
      CheckDuration("drain_grace", config.drain_grace(), absl::ZeroDuration(), absl::Hours(24)));
  if (ToDuration(config.stall_after()) != absl::ZeroDuration()) {
    PTO_RETURN_IF_ERROR(CheckDuration("stall_after", config.stall_after(), absl::Milliseconds(10),
                                      absl::Hours(24)));
  }
  PTO_RETURN_IF_ERROR(CheckSession(config));
  PTO_RETURN_IF_ERROR(CheckJournal(config.journal()));
  PTO_RETURN_IF_ERROR(CheckDuration("usage.interval", config.usage().interval(),
                                    absl::Milliseconds(10), absl::Hours(1)));
  PTO_RETURN_IF_ERROR(CheckExecution(config.execution()));
  PTO_RETURN_IF_ERROR(CheckConnections(config.connections()));
  PTO_RETURN_IF_ERROR(CheckKernels(config.kernels()));
  return CheckLimits(config.limits());
}

}  // namespace pto::daemon
