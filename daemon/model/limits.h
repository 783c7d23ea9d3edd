#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace pto::daemon {

// Sizes beyond which a request is refused.
struct Limits {
  uint64_t max_graph_tasks = 1'048'576;
  uint64_t max_graph_tensors = 8'388'608;
  uint64_t max_graph_edges = 67'108'864;
  uint32_t max_block_tasks = 65'536;
  uint64_t max_chunk_bytes = uint64_t{2} << 20;
  uint64_t max_buffer_bytes = uint64_t{16} << 30;
  uint64_t max_session_buffers = 65'536;
  uint64_t max_session_active_runs = 4096;
  uint64_t max_session_finished_runs = 4096;
  // For open runs. Clients that exceed it are held back, not refused.
  uint64_t max_session_live_tasks = 131'072;
  uint64_t max_session_graphs = 1024;
  uint64_t max_sessions = 1024;
  uint64_t event_log_bytes = uint64_t{64} << 20;
  uint64_t max_message_bytes = uint64_t{16} << 20;
  // What one session, and all sessions of one client, may hold at once.
  uint64_t max_session_device_bytes = uint64_t{16} << 40;
  uint64_t max_session_windows = 65'536;
  uint64_t max_session_tasks = 67'108'864;
  uint64_t max_client_sessions = 1024;
  uint64_t max_client_device_bytes = uint64_t{16} << 40;
  uint64_t max_client_windows = 65'536;
  uint64_t max_client_active_runs = 65'536;
  uint64_t max_client_tasks = 268'435'456;
  uint64_t max_client_event_log_bytes = uint64_t{64} << 30;
  // What the daemon may hold of the machine's memory, for all clients and for one.
  uint64_t max_memory_bytes = ~uint64_t{0};
  uint64_t max_client_memory_bytes = ~uint64_t{0};
  // Of one uploaded kernel, and of all uploaded kernels of one client.
  uint64_t max_kernel_bytes = uint64_t{64} << 20;
  uint64_t max_client_kernel_bytes = uint64_t{1} << 30;
};

// How long sessions live.
struct SessionTimes {
  absl::Duration default_ttl = absl::Seconds(30);
  absl::Duration min_ttl = absl::Seconds(1);
  absl::Duration max_ttl = absl::Hours(1);
};

}  // namespace pto::daemon
