#include "client/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/internal/core.h"
#include "client/internal/duration_proto.h"
#include "client/internal/event_reader.h"
#include "client/internal/launch_pipe.h"
#include "client/internal/packed_call.h"
#include "client/internal/random_id.h"
#include "client/internal/run_pipe.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {
namespace {

using internal::Deadline;
using internal::Retry;

constexpr absl::Duration kEndQuietlyTimeout = absl::Seconds(2);

v1::RunOptions ToProto(const RunOptions& options) {
  v1::RunOptions proto;
  const absl::Duration zero = absl::ZeroDuration();
  if (options.timeout != zero) internal::ToProto(options.timeout, *proto.mutable_timeout());
  if (options.queue_timeout != zero) {
    internal::ToProto(options.queue_timeout, *proto.mutable_queue_timeout());
  }
  if (options.task_timeout != zero) {
    internal::ToProto(options.task_timeout, *proto.mutable_task_timeout());
  }
  if (options.wait_timeout != zero) {
    internal::ToProto(options.wait_timeout, *proto.mutable_wait_timeout());
  }
  proto.set_priority(options.priority);
  proto.set_event_level(options.event_level);
  proto.mutable_labels()->insert(options.labels.begin(), options.labels.end());
  return proto;
}

absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return absl::Seconds(proto.seconds()) + absl::Nanoseconds(proto.nanos());
}

uint32_t ChipIndex(absl::string_view name) {
  uint32_t index = 0;
  if (!absl::ConsumePrefix(&name, "chips/") || !absl::SimpleAtoi(name, &index)) return 0;
  return index;
}

}  // namespace

Session::Session(std::shared_ptr<internal::Core> core,
                 std::shared_ptr<internal::SessionState> state, bool owned)
    : core_(std::move(core)), state_(std::move(state)), owned_(owned) {
  if (owned_) core_->renewer().Add(state_);
}

Session::~Session() { EndQuietly(); }

Session::Session(Session&& other) noexcept
    : core_(std::move(other.core_)),
      state_(std::move(other.state_)),
      owned_(std::exchange(other.owned_, false)) {}

Session& Session::operator=(Session&& other) noexcept {
  if (this == &other) return *this;
  EndQuietly();
  core_ = std::move(other.core_);
  state_ = std::move(other.state_);
  owned_ = std::exchange(other.owned_, false);
  return *this;
}

const std::string& Session::name() const { return state_->name(); }
const std::string& Session::boot_id() const { return state_->boot_id(); }
const v1::Session& Session::info() const { return state_->info(); }
absl::Status Session::status() const { return state_->status(); }

void Session::EndQuietly() {
  if (!owned_) return;
  core_->renewer().Remove(*state_);
  // If this does not reach the daemon, the lease expires.
  if (state_->status().ok()) {
    (void)Close(std::min(kEndQuietlyTimeout, core_->options().timeout));
  }
  owned_ = false;
}

absl::Status Session::Close(absl::Duration timeout) {
  v1::DeleteSessionRequest request;
  request.set_name(name());
  request.set_allow_missing(true);
  const absl::Status closed = core_
                                  ->CallOn(*state_, "DeleteSession", core_->transport().session,
                                           &v1::SessionService::Stub::PrepareAsyncDeleteSession,
                                           request, core_->DeadlineOf(timeout), Retry::kOnce)
                                  .status();
  if (!closed.ok()) return closed;
  core_->renewer().Remove(*state_);
  if (state_->broker() != nullptr) state_->broker()->Close();
  state_->Lose(Error(reason::kSessionEnded, absl::StrCat(name(), " was closed by this client"))
                   .With("session", name())
                   .Hint("create another session"));
  return absl::OkStatus();
}

void Session::Detach() {
  if (!owned_) return;
  core_->renewer().Remove(*state_);
  owned_ = false;
}

std::string Session::Child(absl::string_view kind, absl::string_view id) const {
  if (absl::StartsWith(id, "domains/")) return absl::StrCat(name(), "/", id);
  if (absl::StrContains(id, "/")) return std::string(id);
  return absl::StrCat(name(), "/", kind, "/", id);
}

absl::StatusOr<Buffer> Session::CreateBuffer(absl::string_view id, uint32_t chip, uint64_t bytes,
                                             absl::Duration timeout) {
  const BufferSpec spec{std::string(id), chip, bytes};
  PTO_ASSIGN_OR_RETURN(std::vector<Buffer> buffers, CreateBuffers({&spec, 1}, timeout));
  return std::move(buffers.front());
}

absl::StatusOr<std::vector<Buffer>> Session::CreateBuffers(absl::Span<const BufferSpec> specs,
                                                           absl::Duration timeout) {
  v1::CreateBuffersRequest request;
  request.set_parent(name());
  for (const BufferSpec& spec : specs) {
    v1::BufferSpec& buffer = *request.add_buffers();
    buffer.set_buffer_id(spec.id.empty() ? internal::RandomId("b-") : spec.id);
    buffer.set_chip(absl::StrCat("chips/", spec.chip));
    buffer.set_bytes(spec.bytes);
  }
  PTO_ASSIGN_OR_RETURN(v1::CreateBuffersResponse response,
                       core_->CallOn(*state_, "CreateBuffers", core_->transport().buffer,
                                     &v1::BufferService::Stub::PrepareAsyncCreateBuffers, request,
                                     core_->DeadlineOf(timeout), Retry::kOnce));
  if (response.buffers_size() != request.buffers_size()) {
    return Error(reason::kInternal,
                 absl::StrCat("the daemon returned ", response.buffers_size(), " buffers, but ",
                              request.buffers_size(), " were requested"));
  }
  std::vector<Buffer> buffers;
  buffers.reserve(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    buffers.push_back(Buffer(core_, state_, response.buffers(static_cast<int>(i)).name(),
                             specs[i].chip, specs[i].bytes));
  }
  return buffers;
}

absl::StatusOr<Buffer> Session::GetBuffer(absl::string_view id, absl::Duration timeout) {
  v1::GetBufferRequest request;
  request.set_name(Child("buffers", id));
  PTO_ASSIGN_OR_RETURN(const v1::Buffer buffer,
                       core_->CallOn(*state_, "GetBuffer", core_->transport().buffer,
                                     &v1::BufferService::Stub::PrepareAsyncGetBuffer, request,
                                     core_->DeadlineOf(timeout), Retry::kOnce));
  return Buffer(core_, state_, buffer.name(), ChipIndex(buffer.chip()), buffer.bytes());
}

absl::Status Session::DeleteBuffers(absl::Span<const Buffer> buffers, absl::Duration timeout) {
  v1::DeleteBuffersRequest request;
  for (const Buffer& buffer : buffers) request.add_names(buffer.name());
  const absl::Status deleted = core_
                                   ->CallOn(*state_, "DeleteBuffers", core_->transport().buffer,
                                            &v1::BufferService::Stub::PrepareAsyncDeleteBuffers,
                                            request, core_->DeadlineOf(timeout), Retry::kNever)
                                   .status();
  if (deleted.ok()) {
    for (const Buffer& buffer : buffers) buffer.Forget();
  }
  return deleted;
}

absl::StatusOr<Domain> Session::CreateDomain(const DomainSpec& spec, absl::Duration timeout) {
  v1::CreateDomainRequest request;
  request.set_domain_id(spec.id.empty() ? internal::RandomId("d-") : spec.id);
  for (const uint32_t chip : spec.chips) request.add_chips(absl::StrCat("chips/", chip));
  request.set_window_bytes(spec.window_bytes);
  for (const WindowBufferSpec& spec_buffer : spec.buffers) {
    v1::WindowBuffer& buffer = *request.add_buffers();
    buffer.set_name(spec_buffer.name);
    buffer.set_dtype(spec_buffer.dtype);
    buffer.set_count(spec_buffer.count);
    buffer.set_bytes(spec_buffer.bytes);
    buffer.set_zero_before_run(spec_buffer.zero_before_run);
  }
  request.set_signal_count(spec.signal_count);
  return CreateDomain(std::move(request), timeout);
}

absl::StatusOr<Domain> Session::CreateDomain(v1::CreateDomainRequest request,
                                             absl::Duration timeout) {
  request.set_parent(name());
  PTO_ASSIGN_OR_RETURN(v1::Domain domain,
                       core_->CallOn(*state_, "CreateDomain", core_->transport().domain,
                                     &v1::DomainService::Stub::PrepareAsyncCreateDomain, request,
                                     core_->DeadlineOf(timeout), Retry::kOnce));
  return Domain(core_, state_, std::move(domain));
}

absl::StatusOr<Domain> Session::GetDomain(absl::string_view id, absl::Duration timeout) {
  v1::GetDomainRequest request;
  request.set_name(Child("domains", id));
  PTO_ASSIGN_OR_RETURN(v1::Domain domain,
                       core_->CallOn(*state_, "GetDomain", core_->transport().domain,
                                     &v1::DomainService::Stub::PrepareAsyncGetDomain, request,
                                     core_->DeadlineOf(timeout), Retry::kOnce));
  return Domain(core_, state_, std::move(domain));
}

absl::StatusOr<Run> Session::Submit(const v1::GraphSpec& graph, const RunOptions& options,
                                    absl::Duration timeout) {
  v1::SubmitRunRequest request;
  request.set_parent(name());
  request.set_run_id(options.run_id);
  // Borrow the caller's graph during the call, because it may be too large to copy.
  request.unsafe_arena_set_allocated_graph(const_cast<v1::GraphSpec*>(&graph));
  *request.mutable_options() = ToProto(options);
  if (options.wait != absl::ZeroDuration()) {
    internal::ToProto(options.wait, *request.mutable_wait());
  }
  // Without an id, a retry would start a second run.
  const Retry retry = options.run_id.empty() ? Retry::kNever : Retry::kOnce;
  absl::StatusOr<v1::Run> run = core_->CallOn(*state_, "SubmitRun", core_->transport().run,
                                              &v1::RunService::Stub::PrepareAsyncSubmitRun, request,
                                              Budget(timeout, options.wait), retry);
  request.unsafe_arena_release_graph();
  if (!run.ok()) return run.status();
  return Run(core_, state_, *std::move(run));
}

absl::StatusOr<Run> Session::Submit(const GraphBuilder& graph, const RunOptions& options,
                                    absl::Duration timeout) {
  PTO_ASSIGN_OR_RETURN(const v1::GraphSpec spec, graph.Build());
  return Submit(spec, options, timeout);
}

absl::StatusOr<Run> Session::SubmitPacked(const GraphBuilder& graph, const RunOptions& options,
                                          absl::Duration timeout) {
  PTO_ASSIGN_OR_RETURN(std::vector<v1::PackedGraphPart> parts, Pack(graph, options.run_id));
  *parts.front().mutable_header()->mutable_options() = ToProto(options);
  PTO_ASSIGN_OR_RETURN(
      v1::Run run,
      internal::PackedCall(*core_, *state_, "SubmitPackedRun",
                           &v1::RunService::Stub::PrepareAsyncSubmitPackedRun, parts,
                           core_->DeadlineOf(timeout, internal::PackedTime(graph.task_count()))));
  return Run(core_, state_, std::move(run));
}

absl::StatusOr<v1::Graph> Session::Register(absl::string_view id, const v1::GraphSpec& graph,
                                            absl::Duration timeout) {
  v1::RegisterGraphRequest request;
  request.set_parent(name());
  request.set_graph_id(std::string(id));
  request.unsafe_arena_set_allocated_graph(const_cast<v1::GraphSpec*>(&graph));
  absl::StatusOr<v1::Graph> registered =
      core_->CallOn(*state_, "RegisterGraph", core_->transport().run,
                    &v1::RunService::Stub::PrepareAsyncRegisterGraph, request,
                    core_->DeadlineOf(timeout), Retry::kOnce);
  request.unsafe_arena_release_graph();
  return registered;
}

absl::StatusOr<v1::Graph> Session::Register(absl::string_view id, const GraphBuilder& graph,
                                            absl::Duration timeout) {
  PTO_ASSIGN_OR_RETURN(const v1::GraphSpec spec, graph.Build());
  return Register(id, spec, timeout);
}

absl::StatusOr<v1::Graph> Session::RegisterPacked(absl::string_view id, const GraphBuilder& graph,
                                                  absl::Duration timeout) {
  PTO_ASSIGN_OR_RETURN(const std::vector<v1::PackedGraphPart> parts, Pack(graph, id));
  return internal::PackedCall(*core_, *state_, "RegisterPackedGraph",
                              &v1::RunService::Stub::PrepareAsyncRegisterPackedGraph, parts,
                              core_->DeadlineOf(timeout, internal::PackedTime(graph.task_count())));
}

absl::Status Session::DeleteGraph(absl::string_view id, absl::Duration timeout) {
  v1::DeleteGraphRequest request;
  request.set_name(Child("graphs", id));
  return core_
      ->CallOn(*state_, "DeleteGraph", core_->transport().run,
               &v1::RunService::Stub::PrepareAsyncDeleteGraph, request, core_->DeadlineOf(timeout),
               Retry::kNever)
      .status();
}

absl::StatusOr<Run> Session::Launch(absl::string_view graph, const RunOptions& options,
                                    absl::Duration timeout) {
  v1::LaunchGraphRequest request;
  request.set_graph(Child("graphs", graph));
  request.set_run_id(options.run_id);
  *request.mutable_options() = ToProto(options);
  if (options.wait != absl::ZeroDuration()) {
    internal::ToProto(options.wait, *request.mutable_wait());
  }
  return Launch(request, timeout);
}

absl::StatusOr<Run> Session::Launch(const v1::LaunchGraphRequest& request, absl::Duration timeout) {
  const Retry retry = request.run_id().empty() ? Retry::kNever : Retry::kOnce;
  PTO_ASSIGN_OR_RETURN(v1::Run run,
                       core_->CallOn(*state_, "LaunchGraph", core_->transport().run,
                                     &v1::RunService::Stub::PrepareAsyncLaunchGraph, request,
                                     Budget(timeout, FromProto(request.wait())), retry));
  return Run(core_, state_, std::move(run));
}

absl::StatusOr<LaunchStream> Session::OpenLaunchStream() {
  PTO_RETURN_IF_ERROR(state_->status());
  return LaunchStream(std::unique_ptr<internal::LaunchPipe, internal::LaunchPipeCloser>(
      new internal::LaunchPipe(core_, state_)));
}

absl::StatusOr<OpenRun> Session::BeginOpenRun(const RunOptions& options) {
  PTO_RETURN_IF_ERROR(state_->status());
  v1::StreamRunHeader header;
  header.set_parent(name());
  header.set_run_id(options.run_id.empty() ? internal::RandomId("o-") : options.run_id);
  *header.mutable_options() = ToProto(options);
  return OpenRun(std::unique_ptr<internal::RunPipe, internal::RunPipeCloser>(
                     new internal::RunPipe(core_, state_)),
                 std::move(header), BlockTasks());
}

absl::StatusOr<v1::ChipLease> Session::LeaseChips(uint32_t count, absl::Duration timeout) {
  // The maximum that the daemon allows.
  constexpr absl::Duration kLongest = absl::Hours(1);
  const absl::Duration wait = std::clamp(timeout, absl::ZeroDuration(), kLongest);
  v1::LeaseChipsRequest request;
  request.set_name(name());
  request.set_count(count);
  internal::ToProto(wait, *request.mutable_wait());
  return core_->CallOn(*state_, "LeaseChips", core_->transport().session,
                       &v1::SessionService::Stub::PrepareAsyncLeaseChips, request,
                       core_->DeadlineOf(kDefaultTimeout, wait), internal::Retry::kOnce);
}

Run Session::GetRun(absl::string_view id) const {
  v1::Run run;
  run.set_name(Child("runs", id));
  return Run(core_, state_, std::move(run));
}

absl::StatusOr<EventStream> Session::Watch(const WatchOptions& options) {
  PTO_RETURN_IF_ERROR(state_->status());
  return EventStream(std::make_unique<internal::EventReader>(core_, state_, options));
}

absl::StatusOr<std::vector<v1::PackedGraphPart>> Session::Pack(const GraphBuilder& graph,
                                                               absl::string_view id) const {
  PTO_ASSIGN_OR_RETURN(std::vector<v1::PackedGraphPart> parts, graph.BuildPacked(BlockTasks()));
  v1::PackedHeader& header = *parts.front().mutable_header();
  header.set_parent(name());
  header.set_id(std::string(id));
  return parts;
}

uint32_t Session::BlockTasks() const {
  constexpr uint32_t kBlockTasks = 4096;
  const uint32_t limit = core_->node().limits().max_block_tasks();
  return limit == 0 ? kBlockTasks : std::min(limit, kBlockTasks);
}

internal::Deadline Session::Budget(absl::Duration timeout, absl::Duration wait) const {
  const absl::Duration own = timeout == kDefaultTimeout ? core_->options().timeout : timeout;
  return Deadline::After(own + std::max(wait, absl::ZeroDuration()));
}

}  // namespace pto
