#include "daemon/services/packed_stream.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/admission/admission.h"
#include "daemon/graph/fields.h"
#include "daemon/graph/graph_bytes.h"
#include "daemon/graph/packed_decoder.h"
#include "daemon/names/digest.h"
#include "daemon/names/names.h"
#include "daemon/services/run_request.h"
#include "daemon/session/session_hold.h"
#include "daemon/wire/convert.h"
#include "runtime/base/error.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// An error about an id, which is in the header here.
absl::Status InHeader(const absl::Status& status) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value() || (detail->field != "run_id" && detail->field != "graph_id")) {
    return status;
  }
  return Relocate(status, "header.id", {});
}

// Reads a packed graph part by part; what is done with it is the derived class's business.
template <typename Response>
class PackedStream : public rpc::ClientStreamReactor<v1::PackedGraphPart, Response> {
 public:
  PackedStream(Node& node, Gate gate)
      : node_(node),
        time_(node.clock(), node.compile_timeout_ns()),
        gate_(gate),
        decoder_(node.target(), node.limits().max_block_tasks,
                 {node.limits().max_graph_tensors, node.limits().max_graph_edges}, Cancelled()) {}

  void OnStart() override {
    const absl::StatusOr<auth::Caller> caller = gate_.Admit(*this);
    if (!caller.ok()) return this->FinishWithError(caller.status());
    caller_ = *caller;
    stay_ = gate_.Stay(*this, caller_);
    this->StartRead(&part_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // Nothing may come of a stream that did not end as it should.
      if (this->malformed()) return Refuse(rpc::MalformedError());
      Response response;
      const absl::Status status = End(&response);
      if (!status.ok()) return Refuse(status);
      Note(status);
      this->Finish(status, response);
      return;
    }
    const bool first = !decoder_.has_header();
    // Before the part is added: it is not to be there if it does not fit.
    absl::Status status = first ? absl::OkStatus() : Charge();
    if (first) FindKernels();
    if (status.ok()) status = decoder_.Add(part_);
    time_.Pause();
    if (status.ok() && first) status = CheckHeader(decoder_.header());
    if (status.ok() && first) status = Charge();
    if (!status.ok()) return Refuse(status);
    digest_.Add(part_);
    this->StartRead(&part_);
  }

  void OnDone() override { delete this; }

 protected:
  // As soon as the header is there, before any block costs anything.
  virtual absl::Status CheckHeader(const v1::PackedHeader& header) = 0;
  // All of it is there.
  virtual absl::Status Complete(std::shared_ptr<const engine::GraphImage> image,
                                const Digest& digest, Response* response) = 0;

  Node& node() { return node_; }
  engine::WorkBudget::Cancelled Cancelled() {
    return engine::WorkBudget::Cancelled([this] { return this->gone(); }).WithTime(&time_);
  }
  const auth::Principal& caller() const { return *caller_; }
  const std::string& session_id() const { return decoder_.session(); }
  const v1::PackedHeader& header() const { return decoder_.header(); }

  // Holds it until the stream ends.
  absl::StatusOr<std::shared_ptr<Session>> FindSession() {
    absl::StatusOr<std::shared_ptr<Session>> session =
        node_.sessions().Use(*caller_, decoder_.session());
    if (session.ok()) hold_ = SessionHold(*session);
    return session;
  }

 private:
  // The header names kernels, and so may have those of its session. Whether there is one is said
  // when the header has been checked.
  void FindKernels() {
    const absl::StatusOr<std::string> id = names::ParseSession(part_.header().parent(), "parent");
    if (!id.ok()) return;
    const absl::StatusOr<std::shared_ptr<Session>> session = node_.sessions().Find(*caller_, *id);
    if (!session.ok()) return;
    kernels_of_ = *session;
    decoder_.UseKernels(kernels_of_->target().kernels);
  }
  // What the part takes until the graph is compiled. Nothing for a session that is not there: then
  // the run of a former boot may be the answer.
  absl::Status Charge() {
    if (hold_.session() == nullptr) return absl::OkStatus();
    if (charge_.bytes() == 0) charge_ = HostCharge(hold_->memory());
    const uint64_t bytes = charge_.bytes() + (part_.has_header()    ? ListBytes(part_.header())
                                              : part_.has_tensors() ? BuilderBytes(part_.tensors())
                                              : part_.has_tasks()   ? BuilderBytes(part_.tasks())
                                                                    : 0);
    return hold_->WithRoom([&] { return charge_.Resize(bytes, "a graph that is sent"); });
  }
  void Note(const absl::Status& status) {
    gate_.Note(*this, caller_, decoder_.has_header() ? &decoder_.header() : nullptr, status);
  }
  void Refuse(const absl::Status& status) {
    Note(status);
    this->FinishWithError(status);
  }

  absl::Status End(Response* response) {
    PTO_ASSIGN_OR_RETURN(DecodedGraph graph, decoder_.Finish());
    return Complete(std::move(graph.image), digest_.Finish(), response);
  }

  Node& node_;
  engine::CompileTime time_;
  const Gate gate_;
  auth::Caller caller_;
  std::shared_ptr<Session> kernels_of_;  // until the decoder has gone
  PackedDecoder decoder_;
  DigestBuilder digest_;
  SessionHold hold_;
  HostCharge charge_;
  v1::PackedGraphPart part_;
  // Last, so that it goes first.
  std::unique_ptr<auth::OpenCalls::Stay> stay_;
};

class PackedRun final : public PackedStream<v1::Run> {
 public:
  using PackedStream::PackedStream;

 private:
  absl::Status CheckHeader(const v1::PackedHeader& header) override {
    PTO_RETURN_IF_ERROR(admission_.CheckAccepting());
    if (!header.id().empty()) PTO_RETURN_IF_ERROR(names::CheckId(header.id(), "header.id"));
    PTO_RETURN_IF_ERROR(
        ParseRunOptions(caller(), header.options(), "header.options", &request_.run));
    const absl::Status found = FindSession().status();
    // Whether a former boot had this very run is known when all of it is here.
    return found.ok() ? found : admission_.CheckFormer(caller(), session_id(), header.id(), found);
  }

  absl::Status Complete(std::shared_ptr<const engine::GraphImage> image, const Digest& digest,
                        v1::Run* response) override {
    request_.caller = &caller();
    request_.session = session_id();
    request_.run.id = header().id();
    if (!request_.run.id.empty()) request_.run.digest = digest;
    request_.run.image = std::move(image);
    request_.run.cancelled = Cancelled();
    const absl::StatusOr<std::shared_ptr<RunEntry>> entry =
        admission_.Start(request_, [this](Session&, RunRequest* run) -> absl::Status {
          PTO_RETURN_IF_ERROR(CheckTaskTimes(*run, "header.options"));
          return CheckWork(node(), *run, *run->image);
        });
    if (!entry.ok()) return InHeader(entry.status());
    ToProto((*entry)->Status(), response);
    return absl::OkStatus();
  }

  const Admission admission_{node()};
  Admission::Request request_;
};

class PackedGraph final : public PackedStream<v1::Graph> {
 public:
  using PackedStream::PackedStream;

 private:
  absl::Status CheckHeader(const v1::PackedHeader& header) override {
    PTO_RETURN_IF_ERROR(names::CheckId(header.id(), "header.id"));
    if (header.has_options()) {
      return Error(reason::kFieldInvalid, "a graph is registered without run options")
          .At("header.options")
          .Hint("give the options at each launch");
    }
    return FindSession().status();
  }

  absl::Status Complete(std::shared_ptr<const engine::GraphImage> image, const Digest& digest,
                        v1::Graph* response) override {
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, FindSession());
    const absl::StatusOr<std::shared_ptr<RegisteredGraph>> graph =
        session->AddGraph(header().id(), digest, std::move(image));
    if (!graph.ok()) return InHeader(graph.status());
    ToProto(**graph, response);
    return absl::OkStatus();
  }
};

}  // namespace

rpc::ClientStreamReactor<v1::PackedGraphPart, v1::Run>* NewPackedRun(Node& node, Gate gate) {
  return new PackedRun(node, gate);
}

rpc::ClientStreamReactor<v1::PackedGraphPart, v1::Graph>* NewPackedGraph(Node& node, Gate gate) {
  return new PackedGraph(node, gate);
}

}  // namespace pto::daemon
