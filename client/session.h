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
#include "pto/v1/kernel.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"

namespace pto {

namespace internal {
class Core;
class Deadline;
class SessionState;
}  // namespace internal

// Describes a buffer to create.
struct BufferSpec {
  // 1 to 63 characters from `a-z 0-9 -`, starting with a letter. Empty means a random id.
  std::string id = {};
  uint32_t chip = 0;
  uint64_t bytes = 0;
};

// A session on a daemon: a lease that owns buffers, graphs and runs. Created by Client. The
// client's renewal thread renews it after each third of its time to live.
//
// If the daemon has ended the session or was restarted, all later calls on the session and on
// objects created by it return that error immediately, without an RPC:
//   NOT_FOUND / SESSION_ENDED, NOT_FOUND / SESSION_UNKNOWN   the lease ended
//   ABORTED / BOOT_ID_CHANGED                                the daemon was restarted
// Only Run::Get and Run::Wait still ask the daemon after a restart, because a daemon with a journal
// knows how runs ended.
//
// The destructor deletes the session on the daemon and takes at most two seconds. Thread-safe.
// Buffers, runs and streams of a session may outlive the object; their calls then fail. A
// moved-from session can only be destroyed or assigned to.
class Session {
 public:
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // `sessions/{id}`.
  const std::string& name() const;
  // Requests exclusive use of `count` chips. Requests are served in order. Waits at most `timeout`
  // and returns the state of the request; call again to continue waiting. The lease ends with the
  // session.
  absl::StatusOr<v1::ChipLease> LeaseChips(uint32_t count, absl::Duration timeout);

  // The boot id of the daemon that owns the session.
  const std::string& boot_id() const;
  // The session as returned by the daemon at creation.
  const v1::Session& info() const;

  // OK unless the session is known to be lost; then the error that all calls return.
  absl::Status status() const;

  // Deletes the session on the daemon. Later calls return SESSION_ENDED.
  absl::Status Close(absl::Duration timeout = kDefaultTimeout);
  // Stops renewing without deleting the session: the daemon ends it when its lease expires.
  void Detach();

  // Allocates zeroed memory on a chip. An empty id means a random id.
  absl::StatusOr<Buffer> CreateBuffer(absl::string_view id, uint32_t chip, uint64_t bytes,
                                      absl::Duration timeout = kDefaultTimeout);
  // Creates all buffers, in the order of `specs`, or none.
  absl::StatusOr<std::vector<Buffer>> CreateBuffers(absl::Span<const BufferSpec> specs,
                                                    absl::Duration timeout = kDefaultTimeout);
  // Opens an existing buffer of the session or of a domain window, by id or by any of its names.
  absl::StatusOr<Buffer> GetBuffer(absl::string_view id, absl::Duration timeout = kDefaultTimeout);
  absl::Status DeleteBuffers(absl::Span<const Buffer> buffers,
                             absl::Duration timeout = kDefaultTimeout);

  // Creates a domain with zeroed windows on all its chips, or fails without creating any.
  absl::StatusOr<Domain> CreateDomain(const DomainSpec& spec,
                                      absl::Duration timeout = kDefaultTimeout);
  // The same from an API request. Its parent is always this session.
  absl::StatusOr<Domain> CreateDomain(v1::CreateDomainRequest request,
                                      absl::Duration timeout = kDefaultTimeout);
  // Opens an existing domain of the session, by id or full name.
  absl::StatusOr<Domain> GetDomain(absl::string_view id, absl::Duration timeout = kDefaultTimeout);

  // Creates a buffer of the size of a contiguous tensor. DTypeOf must support T.
  template <typename T>
  absl::StatusOr<Tensor<T>> CreateTensor(uint32_t chip, std::vector<int64_t> shape,
                                         absl::Duration timeout = kDefaultTimeout) {
    absl::StatusOr<uint64_t> bytes = TensorBytes(shape, sizeof(T));
    if (!bytes.ok()) return bytes.status();
    absl::StatusOr<Buffer> buffer = CreateBuffer("", chip, *bytes, timeout);
    if (!buffer.ok()) return buffer.status();
    return Tensor<T>(*std::move(buffer), std::move(shape));
  }

  // Uploads a kernel for this session: a shared object, which the daemon loads into a process of
  // its own. Tasks then name it like a built-in kernel. Uploading the same again returns the kernel
  // that is there. The call may take ten seconds in addition to the timeout, and time for the
  // transfer. Errors: PERMISSION_DENIED unless the node allows it, KERNEL_INVALID, ID_CONFLICT,
  // QUOTA_KERNELS, HOST_LOST if the object crashes while it is loaded.
  absl::StatusOr<v1::Kernel> RegisterKernel(const std::string& path,
                                            const KernelOptions& options = {},
                                            absl::Duration timeout = kDefaultTimeout);
  // The same with the contents of the file.
  absl::StatusOr<v1::Kernel> RegisterKernelObject(absl::string_view object,
                                                  const KernelOptions& options,
                                                  absl::Duration timeout = kDefaultTimeout);
  // The uploaded kernels of the session, in order of name.
  absl::StatusOr<std::vector<v1::Kernel>> ListKernels(absl::Duration timeout = kDefaultTimeout);
  // Deletes an uploaded kernel, by id or full name. Graphs that were compiled with it keep it.
  absl::Status DeleteKernel(absl::string_view id, absl::Duration timeout = kDefaultTimeout);

  // Runs a graph once.
  absl::StatusOr<Run> Submit(const v1::GraphSpec& graph, const RunOptions& options = {},
                             absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<Run> Submit(const GraphBuilder& graph, const RunOptions& options = {},
                             absl::Duration timeout = kDefaultTimeout);
  // The same in the packed columnar format, for large graphs. Names of tasks and tensors are
  // omitted. Without an explicit timeout the call gets the client's timeout plus one second per
  // 100,000 tasks.
  absl::StatusOr<Run> SubmitPacked(const GraphBuilder& graph, const RunOptions& options = {},
                                   absl::Duration timeout = kDefaultTimeout);

  // Compiles a graph once, so that it can be launched many times. `id` is required.
  absl::StatusOr<v1::Graph> Register(absl::string_view id, const v1::GraphSpec& graph,
                                     absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Graph> Register(absl::string_view id, const GraphBuilder& graph,
                                     absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Graph> RegisterPacked(absl::string_view id, const GraphBuilder& graph,
                                           absl::Duration timeout = kDefaultTimeout);
  // Deletes a registered graph, by id or full name. Its runs continue.
  absl::Status DeleteGraph(absl::string_view id, absl::Duration timeout = kDefaultTimeout);

  // Runs a registered graph. `graph` is an id or a full name.
  absl::StatusOr<Run> Launch(absl::string_view graph, const RunOptions& options = {},
                             absl::Duration timeout = kDefaultTimeout);
  // The same with the buffer and scalar bindings of the request. The call may take `request.wait`
  // in addition to the timeout.
  absl::StatusOr<Run> Launch(const v1::LaunchGraphRequest& request,
                             absl::Duration timeout = kDefaultTimeout);
  // Opens a stream for many launches, which gives the lowest latency. Does not wait for the daemon.
  absl::StatusOr<LaunchStream> OpenLaunchStream();

  // Begins an open run: tasks start as they arrive, and their number is not limited. Does not wait
  // for the daemon. If no id is given, the run gets a random one. `options.wait` has no effect.
  absl::StatusOr<OpenRun> BeginOpenRun(const RunOptions& options = {});

  // Returns a handle of a run of the session, by id or full name. Makes no RPC.
  Run GetRun(absl::string_view id) const;

  // Watches the events of the session. Does not wait for the daemon.
  absl::StatusOr<EventStream> Watch(const WatchOptions& options = {});

 private:
  friend class Client;
  Session(std::shared_ptr<internal::Core> core, std::shared_ptr<internal::SessionState> state,
          bool owned);

  // Deletes the session if this object owns it. Ignores errors.
  void EndQuietly();
  // Returns the full name for an id. Returns a full name unchanged.
  std::string Child(absl::string_view kind, absl::string_view id) const;
  absl::StatusOr<std::vector<v1::PackedGraphPart>> Pack(const GraphBuilder& graph,
                                                        absl::string_view id) const;
  // Maximum number of tasks in one chunk or segment.
  uint32_t BlockTasks() const;
  // The deadline of a call whose reply the daemon may delay by `wait`.
  internal::Deadline Budget(absl::Duration timeout, absl::Duration wait) const;

  std::shared_ptr<internal::Core> core_;
  std::shared_ptr<internal::SessionState> state_;
  // Whether the destructor deletes the session.
  bool owned_ = false;
};

}  // namespace pto
