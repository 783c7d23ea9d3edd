#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/buffer.h"
#include "client/domain.h"
#include "client/dtype_of.h"
#include "client/event_stream.h"
#include "client/graph_builder.h"
#include "client/launch_stream.h"
#include "client/open_run.h"
#include "client/options.h"
#include "client/run.h"
#include "client/tensor.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"

namespace pto {

namespace internal {
class Core;
class Deadline;
class SessionState;
}  // namespace internal

// One buffer to create.
struct BufferSpec {
  // 1 to 63 of `a-z 0-9 -`, starting with a letter. Empty: a random one.
  std::string id = {};
  uint32_t chip = 0;
  uint64_t bytes = 0;
};

// A lease on a daemon, owner of buffers, graphs and runs. Made by Client. It renews itself at a
// third of its time to live, on the client's renewal thread.
//
// When the daemon has ended the session or was restarted, every later call on the session and
// on what it made returns that error at once, without asking the daemon again:
//   NOT_FOUND / SESSION_ENDED, NOT_FOUND / SESSION_UNKNOWN   the lease ended
//   ABORTED / BOOT_ID_CHANGED                                the daemon was restarted
// Only Run::Get and Run::Wait ask after a restart: a daemon with a journal knows how runs ended.
//
// Destroying it deletes the session on the daemon, and takes at most two seconds for that.
// Thread-safe. Buffers, runs and streams of a session may outlive the object, and then fail. A
// session that was moved from can only be destroyed or assigned to.
class Session {
 public:
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // `sessions/{id}`.
  const std::string& name() const;
  // Leases `count` chips to this session alone, as soon as it is its turn: waits for at most
  // `timeout`, and returns how far it has come; call again to wait on. The lease ends with the
  // session.
  absl::StatusOr<v1::ChipLease> LeaseChips(uint32_t count, absl::Duration timeout);

  // The daemon's boot that the session lives in.
  const std::string& boot_id() const;
  // The lease as the daemon described it at creation.
  const v1::Session& info() const;

  // OK while the session is not known to be lost; else the error that every call returns.
  absl::Status status() const;

  // Deletes the session on the daemon. Later calls return SESSION_ENDED.
  absl::Status Close(absl::Duration timeout = kDefaultTimeout);
  // Stops renewing and deletes nothing: the daemon ends the session when its lease has passed.
  void Detach();

  // Memory on a chip, zeroed. An empty id means a random one.
  absl::StatusOr<Buffer> CreateBuffer(absl::string_view id, uint32_t chip, uint64_t bytes,
                                      absl::Duration timeout = kDefaultTimeout);
  // All of them or none, in the order of `specs`.
  absl::StatusOr<std::vector<Buffer>> CreateBuffers(absl::Span<const BufferSpec> specs,
                                                    absl::Duration timeout = kDefaultTimeout);
  // A buffer of the session or of a window that exists, by id or by any of its names.
  absl::StatusOr<Buffer> GetBuffer(absl::string_view id, absl::Duration timeout = kDefaultTimeout);
  absl::Status DeleteBuffers(absl::Span<const Buffer> buffers,
                             absl::Duration timeout = kDefaultTimeout);

  // Windows on all its chips, zeroed, or none.
  absl::StatusOr<Domain> CreateDomain(const DomainSpec& spec,
                                      absl::Duration timeout = kDefaultTimeout);
  // The same as the request says; its parent is always this session.
  absl::StatusOr<Domain> CreateDomain(v1::CreateDomainRequest request,
                                      absl::Duration timeout = kDefaultTimeout);
  // A domain of the session that exists, by id or full name.
  absl::StatusOr<Domain> GetDomain(absl::string_view id, absl::Duration timeout = kDefaultTimeout);

  // A buffer of just the size of a contiguous tensor. T is one of DTypeOf.
  template <typename T>
  absl::StatusOr<Tensor<T>> CreateTensor(uint32_t chip, std::vector<int64_t> shape,
                                         absl::Duration timeout = kDefaultTimeout) {
    absl::StatusOr<uint64_t> bytes = TensorBytes(shape, sizeof(T));
    if (!bytes.ok()) return bytes.status();
    absl::StatusOr<Buffer> buffer = CreateBuffer("", chip, *bytes, timeout);
    if (!buffer.ok()) return buffer.status();
    return Tensor<T>(*std::move(buffer), std::move(shape));
  }

  // Runs a graph once.
  absl::StatusOr<Run> Submit(const v1::GraphSpec& graph, const RunOptions& options = {},
                             absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<Run> Submit(const GraphBuilder& graph, const RunOptions& options = {},
                             absl::Duration timeout = kDefaultTimeout);
  // The same in columns, for large graphs; names of tasks and tensors stay behind. Without a
  // timeout of its own it gets one second for each 100,000 tasks on top of the client's.
  absl::StatusOr<Run> SubmitPacked(const GraphBuilder& graph, const RunOptions& options = {},
                                   absl::Duration timeout = kDefaultTimeout);

  // Compiles a graph once, to be launched many times. `id` is required.
  absl::StatusOr<v1::Graph> Register(absl::string_view id, const v1::GraphSpec& graph,
                                     absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Graph> Register(absl::string_view id, const GraphBuilder& graph,
                                     absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Graph> RegisterPacked(absl::string_view id, const GraphBuilder& graph,
                                           absl::Duration timeout = kDefaultTimeout);
  // Runs of the graph go on. `id` may be a full name.
  absl::Status DeleteGraph(absl::string_view id, absl::Duration timeout = kDefaultTimeout);

  // Runs a registered graph. `graph` is an id or a full name.
  absl::StatusOr<Run> Launch(absl::string_view graph, const RunOptions& options = {},
                             absl::Duration timeout = kDefaultTimeout);
  // The same with buffers and scalars bound as the request says. `request.wait` counts on top
  // of the timeout.
  absl::StatusOr<Run> Launch(const v1::LaunchGraphRequest& request,
                             absl::Duration timeout = kDefaultTimeout);
  // A stream for many launches: the way of least latency. Does not wait for the daemon.
  absl::StatusOr<LaunchStream> OpenLaunchStream();

  // Begins an open run: tasks start as they are sent, and there may be any number of them. Does
  // not wait for the daemon. Without an id the run gets a random one; `options.wait` has no
  // effect.
  absl::StatusOr<OpenRun> BeginOpenRun(const RunOptions& options = {});

  // A run of the session, by id or full name. Asks nothing of the daemon.
  Run GetRun(absl::string_view id) const;

  // The session's events. Does not wait for the daemon.
  absl::StatusOr<EventStream> Watch(const WatchOptions& options = {});

 private:
  friend class Client;
  Session(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::SessionState> state,
          bool owned);

  // Deletes the session if this object owns it; says nothing when that fails.
  void EndQuietly();
  // The full name for an id; a full name stays.
  std::string Child(absl::string_view kind, absl::string_view id) const;
  absl::StatusOr<std::vector<v1::PackedGraphPart>> Pack(const GraphBuilder& graph,
                                                        absl::string_view id) const;
  // Tasks in one block of columns.
  uint32_t BlockTasks() const;
  // The deadline of a call that the daemon holds for `wait`.
  internal::Deadline Budget(absl::Duration timeout, absl::Duration wait) const;

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::SessionState> state_;
  // Whether the destructor deletes the session.
  bool owned_ = false;
};

}  // namespace pto
