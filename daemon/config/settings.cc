#include "daemon/config/settings.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "daemon/config/units.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;
using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr Setting kSettings[] = {
    {"listen", "listen", "", true, "address to listen on: unix:/path or host:port; repeatable"},
    {"allow_remote", "allow-remote", "false", false,
     "allow TCP addresses that other machines can reach; they need TLS"},
    {"sim_chips.count", "sim-chips", "0", false, "number of simulated chips"},
    {"sim_chips.clusters", "sim-clusters", "24", true,
     "clusters of each simulated chip; by default those of its profile"},
    {"sim_chips.memory_bytes", "sim-memory", "16G", true, "memory of each simulated chip"},
    {"sim_chips.profile", "sim-profile", "a2a3", true,
     "what the simulated chips are like: a2a3 (24 clusters) or a5 (36)"},
    {"state_dir", "state-dir", "", false,
     "directory that only this daemon uses, to remember runs across restarts"},
    {"executor_threads", "executor-threads", "0", false,
     "threads that run kernels; 0 means one for each CPU"},
    {"log_level", "log-level", "info", true, "debug, info, warning or error"},
    {"log_format", "log-format", "text", true, "text or json"},
    {"broker", "broker", "auto", true,
     "auto, with a second socket by which local clients map their buffers, or off"},
    {"drain_grace", "drain-grace", "10s", false, "time for runs to end when the daemon stops"},
    {"stall_after", "stall-after", "30s", false,
     "time without progress after which a run is reported as stalled; 0 means never"},
    {"session.default_ttl", "session-default-ttl", "30s", true,
     "time to live of a session whose client does not choose one"},
    {"session.min_ttl", "session-min-ttl", "1s", true, "shortest time to live of a session"},
    {"session.max_ttl", "session-max-ttl", "1h", true, "longest time to live of a session"},
    {"limits.max_graph_tasks", "max-graph-tasks", "1048576", true, "tasks in one graph"},
    {"limits.max_graph_tensors", "max-graph-tensors", "8388608", true, "tensors in one graph"},
    {"limits.max_graph_edges", "max-graph-edges", "67108864", true,
     "dependencies that one graph names"},
    {"limits.max_block_tasks", "max-block-tasks", "65536", true,
     "tasks in one chunk of a packed graph"},
    {"limits.max_chunk_bytes", "max-chunk-bytes", "2M", true,
     "bytes of data in one message of a buffer's transfer"},
    {"limits.max_buffer_bytes", "max-buffer-bytes", "16G", true, "bytes in one buffer"},
    {"limits.max_session_buffers", "max-session-buffers", "65536", true, "buffers in one session"},
    {"limits.max_session_active_runs", "max-session-active-runs", "4096", true,
     "runs of one session that are queued or running at once"},
    {"limits.max_session_finished_runs", "max-session-finished-runs", "4096", true,
     "finished runs that one session keeps readable"},
    {"limits.max_session_live_tasks", "max-session-live-tasks", "131072", true,
     "tasks of a session's open runs that have not ended before more are read"},
    {"limits.max_session_graphs", "max-session-graphs", "1024", true,
     "registered graphs in one session"},
    {"limits.max_sessions", "max-sessions", "1024", true, "sessions of the node"},
    {"limits.event_log_bytes", "event-log-bytes", "64M", true,
     "bytes of events that one session keeps"},
    {"limits.max_message_bytes", "max-message-bytes", "16M", true, "bytes of one request message"},
    {"limits.max_session_device_bytes", "max-session-device-bytes", "16T", true,
     "bytes of device memory that one session holds, in buffers and windows"},
    {"limits.max_session_windows", "max-session-windows", "65536", true,
     "windows of one session's domains, one for each rank"},
    {"limits.max_session_tasks", "max-session-tasks", "67108864", true,
     "tasks of one session's runs that are queued or running; those of open runs are held back "
     "instead"},
    {"limits.max_client_sessions", "max-client-sessions", "0", false,
     "sessions of one client; 0 means a quarter of max_sessions"},
    {"limits.max_client_device_bytes", "max-client-device-bytes", "16T", true,
     "bytes of device memory that all sessions of one client hold"},
    {"limits.max_client_windows", "max-client-windows", "65536", true,
     "windows of all domains of one client"},
    {"limits.max_client_active_runs", "max-client-active-runs", "65536", true,
     "runs of one client that are queued or running at once"},
    {"limits.max_client_tasks", "max-client-tasks", "268435456", true,
     "tasks of one client's runs that are queued or running"},
    {"limits.max_client_event_log_bytes", "max-client-event-log-bytes", "64G", true,
     "bytes that the event logs of one client may grow to: event_log_bytes for each session"},
    {"limits.max_memory_bytes", "max-memory-bytes", "0", false,
     "bytes of the machine's memory that the daemon holds for all clients; 0 means three quarters "
     "of it"},
    {"limits.max_client_memory_bytes", "max-client-memory-bytes", "0", false,
     "bytes of the machine's memory that the daemon holds for one client; 0 means three quarters "
     "of those for all"},
    {"limits.max_kernel_bytes", "max-kernel-bytes", "64M", true, "bytes of one uploaded kernel"},
    {"limits.max_client_kernel_bytes", "max-client-kernel-bytes", "1G", true,
     "bytes of all uploaded kernels of one client"},
    {"journal.max_runs", "journal-max-runs", "65536", true,
     "ended runs that are remembered across restarts"},
    {"journal.max_age", "journal-max-age", "168h", true, "how long they are remembered"},
    {"journal.max_bytes", "journal-max-bytes", "256M", true, "bytes of the journal's files"},
    {"journal.sync_interval", "journal-sync-interval", "100ms", true,
     "what a power failure can make the journal lose"},
    {"usage.interval", "usage-interval", "1s", true,
     "how often the record of usage is written: what a kill can make it lose"},
    {"metrics_listen", "metrics-listen", "", false,
     "address to serve metrics for Prometheus on: unix:/path or host:port"},
    {"tls.cert_file", "tls-cert", "", true,
     "the daemon's certificate; TCP connections then use TLS"},
    {"tls.key_file", "tls-key", "", true, "private key of the daemon's certificate"},
    {"tls.client_ca_file", "tls-client-ca", "", true,
     "authorities whose certificates clients may have"},
    {"tls.require_client_cert", "tls-require-client-cert", "false", true,
     "refuse TLS clients without a certificate"},
    {"tls.crl_dir", "tls-crl-dir", "", true, "directory of revocation lists for clients"},
    {"execution.default_task_timeout", "default-task-timeout", "10m", false,
     "time that one call of a kernel may hold a thread if its task has no timeout; 0 means any"},
    {"execution.spare_after", "spare-after", "200ms", true,
     "time that kernels may hold all executor threads before spare threads take over"},
    {"execution.max_spare_threads", "max-spare-threads", "64", false, "spare threads at once"},
    {"execution.compile_timeout", "compile-timeout", "10s", false,
     "time that compiling one graph may take; 0 means any"},
    {"connections.max_connections", "max-connections", "0", false,
     "connections in total; 0 means what the limit of open files allows"},
    {"connections.max_user_connections", "max-user-connections", "0", false,
     "connections of one user or from one address; 0 means a quarter of all"},
    {"connections.max_connection_calls", "max-connection-calls", "1024", true,
     "calls that are open at once on one connection"},
    {"connections.keepalive_interval", "keepalive-interval", "30s", true,
     "how often an idle connection is checked"},
    {"connections.keepalive_timeout", "keepalive-timeout", "10s", true,
     "how long its client may take to answer"},
    {"connections.handshake_timeout", "handshake-timeout", "20s", true,
     "how long a connection may take until it speaks HTTP/2"},
    {"connections.unfinished_bytes", "unfinished-bytes", "512M", true,
     "bytes of messages that have not come completely, of all connections"},
    {"kernels.uploads", "kernel-uploads", "operators", true,
     "who may upload kernels if the access policy does not say: off, operators or users"},
    {"kernels.host_memory_bytes", "host-memory", "4G", true,
     "private memory of one process that runs uploaded kernels"},
    {"kernels.host_files", "host-files", "256", true, "its open files"},
    {"kernels.host_processes", "host-processes", "4096", true,
     "processes and threads that the daemon's user has when it makes another thread"},
    {"access.policy_file", "access-policy", "", false,
     "file with roles, quotas and priorities of users, groups and tokens"},
    {"access.token_file", "access-tokens", "", false,
     "file with hashes of the tokens that clients over TCP present"},
    {"access.loopback_tcp", "loopback-tcp", "token", true,
     "what clients over a loopback address need: token, or trust for nothing"},
    {"access.audit_log", "audit-log", "", false,
     "file with a line for each call that changes something, or log"},
    {"backend", "backend", "sim", true,
     "ascend, to drive the Ascend chips of this machine, or sim; simulated chips come with either"},
    {"ascend.cann_path", "cann-path", "", true, "folder of CANN; by default it is searched"},
    {"ascend.chip_host", "chip-host", "", true,
     "program that drives a chip; by default ptod_chip_host beside ptod"},
};

// A field within the message that directly contains it.
template <typename MessageType>
struct Place {
  MessageType* message;
  const FieldDescriptor* field;
};

Place<Message> Find(const Setting& setting, DaemonConfig* config) {
  Place<Message> place{config, nullptr};
  for (absl::string_view name : absl::StrSplit(setting.key, '.')) {
    if (place.field != nullptr) {
      place.message = place.message->GetReflection()->MutableMessage(place.message, place.field);
    }
    place.field = place.message->GetDescriptor()->FindFieldByName(std::string(name));
  }
  return place;
}

Place<const Message> Find(const Setting& setting, const DaemonConfig& config) {
  Place<const Message> place{&config, nullptr};
  for (absl::string_view name : absl::StrSplit(setting.key, '.')) {
    if (place.field != nullptr) {
      place.message = &place.message->GetReflection()->GetMessage(*place.message, place.field);
    }
    place.field = place.message->GetDescriptor()->FindFieldByName(std::string(name));
  }
  return place;
}

bool IsBytes(const FieldDescriptor& field) { return absl::EndsWith(field.name(), "_bytes"); }

absl::Status Wrong(const Setting& setting, absl::string_view text, absl::string_view expected) {
  return Error(reason::kConfigInvalid,
               absl::StrCat(setting.key, ": expected ", expected, ", not '", text, "'"))
      .At(setting.key);
}

bool ParseNumber(const FieldDescriptor& field, absl::string_view text, uint64_t* number) {
  if (IsBytes(field)) return ParseBytes(text, number);
  if (text.find_first_not_of("0123456789") != absl::string_view::npos) return false;
  return absl::SimpleAtoi(text, number);
}

// Rounded to whole nanoseconds; a setting has no use for more than 10,000 years.
bool ParseDuration(absl::string_view text, Duration* out) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration)) return false;
  if (duration < absl::ZeroDuration() || duration > absl::Hours(24 * 365 * 10'000)) return false;
  const int64_t seconds = absl::IDivDuration(duration, absl::Seconds(1), &duration);
  out->set_seconds(seconds);
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
  return true;
}

}  // namespace

absl::Span<const Setting> AllSettings() { return kSettings; }

absl::Status SetFromText(const Setting& setting, absl::string_view text, DaemonConfig* config) {
  const auto [message, field] = Find(setting, config);
  const auto* const reflection = message->GetReflection();
  uint64_t number = 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text != "true" && text != "false") return Wrong(setting, text, "true or false");
      reflection->SetBool(message, field, text == "true");
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (!ParseNumber(*field, text, &number) || number > std::numeric_limits<uint32_t>::max()) {
        return Wrong(setting, text, "a number from 0 to 4294967295");
      }
      reflection->SetUInt32(message, field, static_cast<uint32_t>(number));
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (!ParseNumber(*field, text, &number)) {
        return Wrong(setting, text,
                     IsBytes(*field) ? "a number of bytes such as 512M or 16G"
                                     : "a number from 0 to 18446744073709551615");
      }
      reflection->SetUInt64(message, field, number);
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Duration duration;
      if (!ParseDuration(text, &duration)) {
        return Wrong(setting, text, "a duration such as 500ms, 30s or 1h30m");
      }
      reflection->MutableMessage(message, field)->CopyFrom(duration);
      break;
    }
    default:
      if (field->is_repeated()) {
        reflection->AddString(message, field, std::string(text));
      } else {
        reflection->SetString(message, field, std::string(text));
      }
      break;
  }
  return absl::OkStatus();
}

bool IsList(const Setting& setting) {
  return Find(setting, DaemonConfig::default_instance()).field->is_repeated();
}

bool IsSet(const Setting& setting, const DaemonConfig& config) {
  const auto [message, field] = Find(setting, config);
  const auto* const reflection = message->GetReflection();
  if (field->is_repeated()) return reflection->FieldSize(*message, field) > 0;
  if (!reflection->HasField(*message, field)) return false;
  if (!setting.zero_is_default) return true;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->GetUInt32(*message, field) != 0;
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->GetUInt64(*message, field) != 0;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return reflection->GetMessage(*message, field).ByteSizeLong() != 0;
    case FieldDescriptor::CPPTYPE_STRING:
      return !reflection->GetString(*message, field).empty();
    default:
      return true;
  }
}

void CopySetting(const Setting& setting, const DaemonConfig& from, DaemonConfig* to) {
  const auto [source, field] = Find(setting, from);
  Message* const target = Find(setting, to).message;
  target->GetReflection()->ClearField(target, field);
  // A message with this one field only, merged.
  std::unique_ptr<Message> only(source->New());
  only->CopyFrom(*source);
  std::vector<const FieldDescriptor*> fields;
  only->GetReflection()->ListFields(*only, &fields);
  for (const FieldDescriptor* other : fields) {
    if (other != field) only->GetReflection()->ClearField(only.get(), other);
  }
  target->MergeFrom(*only);
}

absl::string_view TypeName(const Setting& setting) {
  const FieldDescriptor& field = *Find(setting, DaemonConfig::default_instance()).field;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return IsBytes(field) ? "BYTES" : "COUNT";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "DURATION";
    default:
      return "TEXT";
  }
}

std::string ToTextProto(const Setting& setting, const DaemonConfig& config) {
  const auto [message, field] = Find(setting, config);
  google::protobuf::TextFormat::Printer printer;
  std::string out;
  const int count = field->is_repeated() ? message->GetReflection()->FieldSize(*message, field) : 1;
  for (int i = 0; i < count; ++i) {
    std::string value;
    printer.SetSingleLineMode(true);
    printer.PrintFieldValueToString(*message, field, field->is_repeated() ? i : -1, &value);
    absl::StrAppend(&out, i == 0 ? "" : "\n", field->name());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      absl::StrAppend(&out, " { ", value, "}");
    } else {
      absl::StrAppend(&out, ": ", value);
    }
  }
  return out;
}

std::string ToText(const Setting& setting, const DaemonConfig& config) {
  const auto [message, field] = Find(setting, config);
  const auto* const reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(*message, field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(reflection->GetUInt32(*message, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(reflection->GetUInt64(*message, field));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Duration duration;
      duration.CopyFrom(reflection->GetMessage(*message, field));
      return absl::FormatDuration(absl::Seconds(duration.seconds()) +
                                  absl::Nanoseconds(duration.nanos()));
    }
    default:
      break;
  }
  if (!field->is_repeated()) return reflection->GetString(*message, field);
  std::string out;
  for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : " ", reflection->GetRepeatedString(*message, field, i));
  }
  return out;
}

std::string DefaultListenAddress(bool is_root, const char* runtime_dir) {
  if (is_root || runtime_dir == nullptr || *runtime_dir == '\0') {
    return "unix:/run/ptod/ptod.sock";
  }
  return absl::StrCat("unix:", runtime_dir, "/ptod.sock");
}

}  // namespace pto::daemon
