#include "client/testing/fake_daemon.h"

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/internal/deadline.h"
#include "client/internal/duration_proto.h"
#include "client/run_state.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "proto/status/grpc_status.h"
#include "proto/status/status_proto.h"
#include "runtime/base/error.h"

// Passes the gate, or returns the gate's status.
#define FAKE_ENTER(rpc) \
  if (grpc::Status gate = daemon.gate_.Enter(*context, #rpc); !gate.ok()) return gate
// Leaves the method with an error.
#define FAKE_CHECK(expr) \
  if (absl::Status error = (expr); !error.ok()) return ToGrpcStatus(error)

namespace pto::testing {
namespace {

using grpc::ServerContext;
using grpc::Status;

// `sessions/s1/runs/r1` belongs to `sessions/s1`.
std::string SessionOf(const std::string& name) {
  const size_t second = name.find('/', name.find('/') + 1);
  return name.substr(0, second);
}

}  // namespace

struct FakeDaemon::Node final : v1::NodeService::Service {
  explicit Node(FakeDaemon& daemon) : daemon(daemon) {}
  FakeDaemon& daemon;

  Status GetNode(ServerContext* context, const v1::GetNodeRequest*, v1::Node* node) override {
    FAKE_ENTER(GetNode);
    node->set_version("0.0.0");
    node->set_boot_id(daemon.options_.boot_id);
    node->mutable_limits()->set_max_chunk_bytes(daemon.options_.max_chunk_bytes);
    node->mutable_limits()->set_max_block_tasks(daemon.options_.max_block_tasks);
    return Status::OK;
  }

  Status ListChips(ServerContext* context, const v1::ListChipsRequest* request,
                   v1::ListChipsResponse* response) override {
    FAKE_ENTER(ListChips);
    // Two pages of one chip each.
    const bool first = request->page_token().empty();
    response->add_chips()->set_name(first ? "chips/0" : "chips/1");
    if (first) response->set_next_page_token("second");
    return Status::OK;
  }
};

struct FakeDaemon::Sessions final : v1::SessionService::Service {
  explicit Sessions(FakeDaemon& daemon) : daemon(daemon) {}
  FakeDaemon& daemon;

  Status CreateSession(ServerContext* context, const v1::CreateSessionRequest* request,
                       v1::Session* response) override {
    FAKE_ENTER(CreateSession);
    MutexLock lock(daemon.mutex_);
    v1::Session& session = daemon.sessions_[absl::StrCat("sessions/", request->session_id())];
    session.set_name(absl::StrCat("sessions/", request->session_id()));
    session.set_state(v1::Session::ACTIVE);
    session.set_boot_id(daemon.options_.boot_id);
    internal::ToProto(daemon.options_.ttl, *session.mutable_ttl());
    *session.mutable_labels() = request->labels();
    session.set_weight(request->weight());
    *response = session;
    return Status::OK;
  }

  Status RenewSession(ServerContext* context, const v1::RenewSessionRequest* request,
                      v1::Session* response) override {
    FAKE_ENTER(RenewSession);
    return Find(request->name(), response);
  }

  Status GetSession(ServerContext* context, const v1::GetSessionRequest* request,
                    v1::Session* response) override {
    FAKE_ENTER(GetSession);
    return Find(request->name(), response);
  }

  Status DeleteSession(ServerContext* context, const v1::DeleteSessionRequest* request,
                       v1::Session* response) override {
    FAKE_ENTER(DeleteSession);
    response->set_name(request->name());
    daemon.EndSession(request->name());
    return Status::OK;
  }

  Status Find(const std::string& name, v1::Session* response) {
    MutexLock lock(daemon.mutex_);
    FAKE_CHECK(daemon.CheckSession(name));
    *response = daemon.sessions_[name];
    return Status::OK;
  }
};

struct FakeDaemon::Buffers final : v1::BufferService::Service {
  explicit Buffers(FakeDaemon& daemon) : daemon(daemon) {}
  FakeDaemon& daemon;

  Status CreateBuffers(ServerContext* context, const v1::CreateBuffersRequest* request,
                       v1::CreateBuffersResponse* response) override {
    FAKE_ENTER(CreateBuffers);
    MutexLock lock(daemon.mutex_);
    FAKE_CHECK(daemon.CheckSession(request->parent()));
    for (const v1::BufferSpec& spec : request->buffers()) {
      v1::Buffer& buffer = *response->add_buffers();
      buffer.set_name(absl::StrCat(request->parent(), "/buffers/", spec.buffer_id()));
      buffer.set_chip(spec.chip());
      buffer.set_bytes(spec.bytes());
      daemon.buffers_[buffer.name()].resize(spec.bytes());
    }
    return Status::OK;
  }

  Status WriteBuffer(ServerContext* context, grpc::ServerReader<v1::WriteBufferRequest>* reader,
                     v1::WriteBufferResponse* response) override {
    FAKE_ENTER(WriteBuffer);
    std::string name;
    v1::WriteBufferRequest request;
    while (reader->Read(&request)) {
      if (!request.name().empty()) name = request.name();
      MutexLock lock(daemon.mutex_);
      FAKE_CHECK(daemon.CheckSession(SessionOf(name)));
      const std::string& data = request.data();
      daemon.buffers_[name].replace(request.offset(), data.size(), data);
      daemon.chunk_sizes_.push_back(data.size());
      response->set_written_bytes(response->written_bytes() + data.size());
    }
    return Status::OK;
  }

  Status ReadBuffer(ServerContext* context, const v1::ReadBufferRequest* request,
                    grpc::ServerWriter<v1::ReadBufferResponse>* writer) override {
    FAKE_ENTER(ReadBuffer);
    std::string bytes;
    {
      MutexLock lock(daemon.mutex_);
      FAKE_CHECK(daemon.CheckSession(SessionOf(request->name())));
      bytes = daemon.buffers_[request->name()].substr(request->offset(), request->limit());
    }
    for (uint64_t at = 0; at < bytes.size(); at += daemon.options_.max_chunk_bytes) {
      v1::ReadBufferResponse response;
      response.set_offset(request->offset() + at);
      response.set_data(bytes.substr(at, daemon.options_.max_chunk_bytes));
      if (!writer->Write(response)) break;
    }
    return Status::OK;
  }

  Status DeleteBuffers(ServerContext* context, const v1::DeleteBuffersRequest*,
                       v1::DeleteBuffersResponse*) override {
    FAKE_ENTER(DeleteBuffers);
    return Status::OK;
  }
};

struct FakeDaemon::Runs final : v1::RunService::Service {
  explicit Runs(FakeDaemon& daemon) : daemon(daemon) {}
  FakeDaemon& daemon;

  Status SubmitRun(ServerContext* context, const v1::SubmitRunRequest* request,
                   v1::Run* response) override {
    FAKE_ENTER(SubmitRun);
    MutexLock lock(daemon.mutex_);
    FAKE_CHECK(daemon.CheckSession(request->parent()));
    daemon.submitted_ = *request;
    *response = daemon.StartRun(request->parent(), request->run_id());
    return Status::OK;
  }

  Status SubmitPackedRun(ServerContext* context, grpc::ServerReader<v1::PackedGraphPart>* reader,
                         v1::Run* response) override {
    FAKE_ENTER(SubmitPackedRun);
    std::vector<v1::PackedGraphPart> parts;
    v1::PackedGraphPart part;
    while (reader->Read(&part)) parts.push_back(part);
    if (parts.empty()) return Status::CANCELLED;
    MutexLock lock(daemon.mutex_);
    daemon.packed_ = std::move(parts);
    const v1::PackedHeader& header = daemon.packed_.front().header();
    FAKE_CHECK(daemon.CheckSession(header.parent()));
    *response = daemon.StartRun(header.parent(), header.id());
    return Status::OK;
  }

  // A run with all its tasks has ended; a run without a commit does not exist.
  Status StreamRun(ServerContext* context, grpc::ServerReader<v1::StreamRunRequest>* reader,
                   v1::Run* response) override {
    FAKE_ENTER(StreamRun);
    std::vector<v1::StreamRunRequest> parts;
    v1::StreamRunRequest part;
    while (reader->Read(&part)) parts.push_back(part);
    if (parts.empty() || !parts.back().has_commit()) return Status::CANCELLED;
    MutexLock lock(daemon.mutex_);
    daemon.streamed_ = std::move(parts);
    const v1::StreamRunHeader& header = daemon.streamed_.front().header();
    FAKE_CHECK(daemon.CheckSession(header.parent()));
    *response = daemon.StartRun(header.parent(), header.run_id());
    return Status::OK;
  }

  Status RegisterGraph(ServerContext* context, const v1::RegisterGraphRequest* request,
                       v1::Graph* response) override {
    FAKE_ENTER(RegisterGraph);
    response->set_name(absl::StrCat(request->parent(), "/graphs/", request->graph_id()));
    response->set_task_count(request->graph().tasks_size());
    return Status::OK;
  }

  Status LaunchGraph(ServerContext* context, const v1::LaunchGraphRequest* request,
                     v1::Run* response) override {
    FAKE_ENTER(LaunchGraph);
    MutexLock lock(daemon.mutex_);
    FAKE_CHECK(daemon.CheckSession(SessionOf(request->graph())));
    *response = daemon.StartRun(SessionOf(request->graph()), request->run_id());
    response->set_graph(request->graph());
    return Status::OK;
  }

  // Answers each launch immediately. `hold` delays it; a graph named `bad` is refused.
  Status LaunchStream(
      ServerContext* context,
      grpc::ServerReaderWriter<v1::LaunchCompletion, v1::LaunchStreamRequest>* stream) override {
    FAKE_ENTER(LaunchStream);
    v1::LaunchStreamRequest request;
    while (stream->Read(&request)) {
      v1::LaunchCompletion completion;
      completion.set_tag(request.tag());
      MutexLock lock(daemon.mutex_);
      while (daemon.hold_runs_ && !daemon.stopping_) daemon.changed_.Wait(daemon.mutex_);
      FAKE_CHECK(daemon.CheckSession(SessionOf(request.launch().graph())));
      if (absl::EndsWith(request.launch().graph(), "/bad")) {
        *completion.mutable_error() =
            StatusToProto(Error(reason::kGraphUnknown, "there is no such graph"));
      } else {
        completion.set_run(
            daemon.StartRun(SessionOf(request.launch().graph()), request.launch().run_id()).name());
        completion.set_state(v1::Run::SUCCEEDED);
      }
      stream->Write(completion);
    }
    return Status::OK;
  }

  Status GetRun(ServerContext* context, const v1::GetRunRequest* request,
                v1::Run* response) override {
    FAKE_ENTER(GetRun);
    MutexLock lock(daemon.mutex_);
    FAKE_CHECK(daemon.CheckSession(SessionOf(request->name())));
    *response = daemon.runs_[request->name()];
    response->set_as_of_sequence(daemon.events_[SessionOf(request->name())].size());
    return Status::OK;
  }

  Status WaitRun(ServerContext* context, const v1::WaitRunRequest* request,
                 v1::Run* response) override {
    FAKE_ENTER(WaitRun);
    const internal::Deadline deadline =
        internal::Deadline::After(absl::Seconds(request->timeout().seconds()) +
                                  absl::Nanoseconds(request->timeout().nanos()));
    MutexLock lock(daemon.mutex_);
    while (true) {
      FAKE_CHECK(daemon.CheckSession(SessionOf(request->name())));
      *response = daemon.runs_[request->name()];
      if (IsFinal(response->state()) || deadline.Passed() || daemon.stopping_) return Status::OK;
      daemon.changed_.WaitFor(daemon.mutex_, absl::ToChronoNanoseconds(deadline.Remaining()));
    }
  }

  Status CancelRun(ServerContext* context, const v1::CancelRunRequest* request,
                   v1::Run* response) override {
    FAKE_ENTER(CancelRun);
    MutexLock lock(daemon.mutex_);
    FAKE_CHECK(daemon.CheckSession(SessionOf(request->name())));
    v1::Run& run = daemon.runs_[request->name()];
    run.set_state(v1::Run::CANCELLED);
    *run.mutable_error() = StatusToProto(Error(reason::kRunCancelled, request->reason()));
    daemon.changed_.NotifyAll();
    *response = run;
    return Status::OK;
  }
};

struct FakeDaemon::Events final : v1::EventService::Service {
  explicit Events(FakeDaemon& daemon) : daemon(daemon) {}
  FakeDaemon& daemon;

  Status WatchEvents(ServerContext* context, const v1::WatchEventsRequest* request,
                     grpc::ServerWriter<v1::EventBatch>* writer) override {
    FAKE_ENTER(WatchEvents);
    MutexLock lock(daemon.mutex_);
    daemon.watched_after_.push_back(request->after_sequence());
    FAKE_CHECK(daemon.CheckSession(request->parent()));
    const uint64_t drops = daemon.drops_;
    // An empty batch first: it only reports progress.
    v1::EventBatch batch;
    batch.set_boot_id(daemon.options_.boot_id);
    batch.set_through_sequence(request->after_sequence());
    writer->Write(batch);
    while (!daemon.stopping_ && daemon.drops_ == drops) {
      for (const v1::Event& event : daemon.events_[request->parent()]) {
        if (event.sequence() <= batch.through_sequence()) continue;
        batch.clear_events();
        *batch.add_events() = event;
        batch.set_through_sequence(event.sequence());
        if (!writer->Write(batch)) return Status::OK;
      }
      if (daemon.ended_.contains(request->parent())) return Status::OK;
      daemon.changed_.Wait(daemon.mutex_);
    }
    return Status(grpc::StatusCode::UNAVAILABLE, "dropped");
  }
};

FakeDaemon::FakeDaemon(const std::string& address, Options options)
    : options_(std::move(options)), address_(address) {
  services_.push_back(std::make_unique<Node>(*this));
  services_.push_back(std::make_unique<Sessions>(*this));
  services_.push_back(std::make_unique<Buffers>(*this));
  services_.push_back(std::make_unique<Runs>(*this));
  services_.push_back(std::make_unique<Events>(*this));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  for (const auto& service : services_) builder.RegisterService(service.get());
  server_ = builder.BuildAndStart();
  if (!absl::StartsWith(address, "unix:")) {
    address_ = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  }
}

FakeDaemon::~FakeDaemon() {
  gate_.Release();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
}

absl::Status FakeDaemon::CheckSession(const std::string& name) {
  if (ended_.contains(name)) return Error(reason::kSessionEnded, absl::StrCat(name, " has ended"));
  if (sessions_.contains(name)) return absl::OkStatus();
  return Error(reason::kSessionUnknown, absl::StrCat("there is no ", name));
}

v1::Run FakeDaemon::StartRun(const std::string& parent, const std::string& id) {
  v1::Run run;
  run.set_name(absl::StrCat(parent, "/runs/", id.empty() ? absl::StrCat("r", next_run_++) : id));
  run.set_state(hold_runs_ ? v1::Run::RUNNING : v1::Run::SUCCEEDED);
  runs_[run.name()] = run;
  return run;
}

void FakeDaemon::EndSession(const std::string& name) {
  MutexLock lock(mutex_);
  sessions_.erase(name);
  ended_.insert(name);
  changed_.NotifyAll();
}

bool FakeDaemon::HasSession(const std::string& name) const {
  MutexLock lock(mutex_);
  return sessions_.contains(name);
}

std::vector<uint64_t> FakeDaemon::chunk_sizes() const {
  MutexLock lock(mutex_);
  return chunk_sizes_;
}

std::vector<v1::StreamRunRequest> FakeDaemon::streamed() const {
  MutexLock lock(mutex_);
  return streamed_;
}

std::vector<v1::PackedGraphPart> FakeDaemon::packed() const {
  MutexLock lock(mutex_);
  return packed_;
}

v1::SubmitRunRequest FakeDaemon::submitted() const {
  MutexLock lock(mutex_);
  return submitted_;
}

void FakeDaemon::HoldRuns(bool hold) {
  MutexLock lock(mutex_);
  hold_runs_ = hold;
  if (!hold) {
    for (auto& [name, run] : runs_) {
      if (!IsFinal(run.state())) run.set_state(v1::Run::SUCCEEDED);
    }
  }
  changed_.NotifyAll();
}

void FakeDaemon::AddRunEvent(const std::string& session, const std::string& run,
                             v1::Run::State state) {
  MutexLock lock(mutex_);
  std::vector<v1::Event>& log = events_[session];
  v1::Event& event = log.emplace_back();
  event.set_sequence(log.size());
  event.mutable_run()->set_name(run);
  event.mutable_run()->set_state(state);
  changed_.NotifyAll();
}

void FakeDaemon::AddDroppedEvent(const std::string& session) {
  MutexLock lock(mutex_);
  std::vector<v1::Event>& log = events_[session];
  v1::Event& event = log.emplace_back();
  event.set_sequence(log.size());
  event.mutable_dropped()->set_last_sequence(log.size());
  event.mutable_dropped()->set_count(1);
  changed_.NotifyAll();
}

void FakeDaemon::DropEventStreams() {
  MutexLock lock(mutex_);
  ++drops_;
  changed_.NotifyAll();
}

std::vector<uint64_t> FakeDaemon::watched_after() const {
  MutexLock lock(mutex_);
  return watched_after_;
}

}  // namespace pto::testing
