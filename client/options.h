#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "pto/v1/graph.pb.h"

namespace pto {

// Where the machine's daemon listens unless it was told otherwise.
inline constexpr absl::string_view kDefaultAddress = "unix:/run/ptod/ptod.sock";

// As a call's timeout: the client's own (ClientOptions::timeout).
inline constexpr absl::Duration kDefaultTimeout = -absl::InfiniteDuration();

struct ClientOptions {
  // Longest time to reach the daemon: in Connect, and whenever a stream has to reconnect.
  absl::Duration connect_timeout = absl::Seconds(5);
  // Longest time for one call that is not told otherwise.
  absl::Duration timeout = absl::Seconds(30);
  // Whether large transfers to and from buffers go through shared memory.
  enum class Broker {
    kAuto,  // when the daemon offers it on this machine, and PTOD_BROKER is not `off`
    kOff,   // never: all bytes go over gRPC
  };
  Broker broker = Broker::kAuto;
};

struct SessionOptions {
  // 1 to 63 of `a-z 0-9 -`, starting with a letter. Empty: a random one.
  std::string id = {};
  // Time to live without renewal. Zero: the daemon's default.
  absl::Duration ttl = {};
  // For people and lists.
  std::map<std::string, std::string> labels = {};
  // Share of a chip that other sessions want too, in proportion to theirs: 1 to 1,000. Zero: 1.
  uint32_t weight = 0;
  // A session whose leased chips (Session::LeaseChips) this one may use. Empty: that of the
  // environment's PTOD_LEASE, which `ptoctl chips lease` sets, if any.
  std::string lease = {};
};

// How a graph is run: for submitted and for launched graphs.
struct RunOptions {
  // 1 to 63 of `a-z 0-9 -`, starting with a letter. Empty: the daemon chooses. A call with an
  // id can be repeated when its reply was lost; the run is executed once.
  std::string run_id = {};
  // Longest time from acceptance to end; the run then fails with RUN_DEADLINE. Zero: no limit.
  absl::Duration timeout = {};
  // The same from acceptance to the first task's start (QUEUE_DEADLINE), from a task's start to
  // its end (TASK_DEADLINE), and for one wait of a task (WAIT_TIMEOUT).
  absl::Duration queue_timeout = {};
  absl::Duration task_timeout = {};
  absl::Duration wait_timeout = {};
  // Whose ready tasks go first.
  v1::Priority priority = v1::PRIORITY_UNSPECIFIED;
  // Which events the run writes.
  v1::EventLevel event_level = v1::EVENT_LEVEL_UNSPECIFIED;
  // For people and lists.
  std::map<std::string, std::string> labels = {};
  // How long the daemon may hold the reply until the run has ended. It counts on top of the
  // call's timeout. A packed submission does not wait.
  absl::Duration wait = {};
};

// What to watch.
struct WatchOptions {
  // Events with a greater number are wanted. Zero: from the first.
  uint64_t after_sequence = 0;
  // Boot that `after_sequence` belongs to. Empty: that of the session.
  std::string boot_id = {};
  // Full names of runs whose events are wanted. Empty: all of the session.
  std::vector<std::string> runs = {};
  // When set, the stream ends after the event that says that this run (a full name) has ended.
  std::string until_run_ends = {};
  // Longest time that an event may wait to travel with others. Zero: the daemon's default.
  absl::Duration max_linger = {};
  // How often the daemon shows on an idle stream that it is alive. Zero: its default.
  absl::Duration progress_interval = {};
};

}  // namespace pto
