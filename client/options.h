#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pto/v1/graph.pb.h"

namespace pto {

// The default address of a system-wide daemon.
inline constexpr absl::string_view kDefaultAddress = "unix:/run/ptod/ptod.sock";

// As the timeout of a call, it means ClientOptions::timeout.
inline constexpr absl::Duration kDefaultTimeout = -absl::InfiniteDuration();

// How a client of a `host:port` address checks the daemon and says who it is. The files are PEM.
// Has no effect for unix sockets, where the operating system does both.
struct TlsOptions {
  // Certificates of the authorities that may have signed the daemon's certificate. Empty means the
  // environment variable PTOD_TLS_CA; if that is not set, the connection is not encrypted.
  std::string ca_file = {};
  // The client's own certificate and its private key. Empty means PTOD_TLS_CERT and PTOD_TLS_KEY;
  // if they are not set, the client has no certificate.
  std::string cert_file = {};
  std::string key_file = {};
  // The name in the daemon's certificate, if it is not the host of the address. Empty means
  // PTOD_TLS_SERVER_NAME, or the host.
  std::string server_name = {};
};

struct ClientOptions {
  // Time limit for connecting: in Connect, and when a stream reconnects.
  absl::Duration connect_timeout = absl::Seconds(5);
  // Default time limit for one call.
  absl::Duration timeout = absl::Seconds(30);
  // Whether large transfers to and from buffers go through shared memory.
  enum class Broker {
    kAuto,  // if the daemon on this machine offers it and PTOD_BROKER is not `off`
    kOff,   // never: all transfers use gRPC
  };
  Broker broker = Broker::kAuto;
  TlsOptions tls = {};
  // File with a bearer token, which only its owner can read, for a daemon over TCP. Empty means the
  // one that the environment variable PTOD_TOKEN_FILE names, if any. Only sent over
  // loopback connections and with TLS, and not on unix sockets, where the daemon knows the user.
  std::string token_file = {};
};

struct SessionOptions {
  // 1 to 63 characters from `a-z 0-9 -`, starting with a letter. Empty means a random id.
  std::string id = {};
  // Time to live without renewal. Zero means the daemon's default.
  absl::Duration ttl = {};
  // Free-form labels, shown in lists.
  std::map<std::string, std::string> labels = {};
  // Relative share of a chip that is contended with other sessions: 1 to 1,000. Zero means 1.
  uint32_t weight = 0;
  // A session whose leased chips (Session::LeaseChips) this session may use. Empty means the one in
  // the environment variable PTOD_LEASE, if set (`ptoctl chips lease` sets it).
  std::string lease = {};
};

// How to upload a kernel.
struct KernelOptions {
  // 1 to 63 characters from `a-z 0-9 _`, starting with a letter: the name that tasks use. Empty
  // means the name in the object's `pto_kernel_info`; a kernel of the PTO ABI needs one.
  std::string id = {};
  // The parameters of a kernel of the PTO ABI, whose object does not describe itself, such as
  // `in f32[] x, out f32[] y; core aiv`. See deploy/docs/kernels.md.
  std::string signature = {};
  // The symbol of the kernel. Empty means `pto_kernel_info` or `kernel_entry`.
  std::string entry = {};
  // The name of the file in messages and backtraces. Empty means the last part of the path, or the
  // id with `.so`.
  std::string file_name = {};
  // Called by the calling thread after each part of the file, with the bytes that are sent and all.
  std::function<void(uint64_t sent, uint64_t total)> progress = {};
};

// Options for submitting or launching a graph.
struct RunOptions {
  // 1 to 63 characters from `a-z 0-9 -`, starting with a letter. Empty means the daemon chooses
  // one. A call with an id is idempotent: if the reply was lost, repeat it; the graph runs once.
  std::string run_id = {};
  // Time limit from acceptance to end; the run then fails with RUN_DEADLINE. Zero means no limit.
  absl::Duration timeout = {};
  // Time limits from acceptance to the start of the first task (QUEUE_DEADLINE), from start to end
  // of each task (TASK_DEADLINE), and for each wait task (WAIT_TIMEOUT).
  absl::Duration queue_timeout = {};
  absl::Duration task_timeout = {};
  absl::Duration wait_timeout = {};
  // Ready tasks of runs with a higher priority start first.
  v1::Priority priority = v1::PRIORITY_UNSPECIFIED;
  // Which events the run produces.
  v1::EventLevel event_level = v1::EVENT_LEVEL_UNSPECIFIED;
  // Free-form labels, shown in lists.
  std::map<std::string, std::string> labels = {};
  // How long the daemon may delay the reply to wait for the end of the run, in addition to the
  // timeout of the call. Has no effect for packed submissions.
  absl::Duration wait = {};
};

// Selects the events to watch.
struct WatchOptions {
  // Return only events with a greater sequence number. Zero means all events.
  uint64_t after_sequence = 0;
  // Boot id that `after_sequence` belongs to. Empty means the boot id of the session.
  std::string boot_id = {};
  // Full names of the runs to watch. Empty means all runs of the session.
  std::vector<std::string> runs = {};
  // If set, the stream ends after the event that reports the end of this run (a full name).
  std::string until_run_ends = {};
  // Maximum time that the daemon delays an event to batch it with others. Zero means the daemon's
  // default.
  absl::Duration max_linger = {};
  // Interval of the daemon's keep-alive messages on an idle stream. Zero means its default.
  absl::Duration progress_interval = {};
};

}  // namespace pto
