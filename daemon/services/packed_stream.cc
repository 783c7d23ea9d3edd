#include "daemon/services/packed_stream.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/admission/admission.h"
#include "daemon/graph/fields.h"
#include "daemon/graph/packed_decoder.h"
#include "daemon/names/digest.h"
#include "daemon/names/names.h"
#include "daemon/services/run_request.h"
#include "daemon/session/session_hold.h"
#include "daemon/wire/convert.h"
#include "runtime/base/error.h"
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
  explicit PackedStream(Node& node)
      : node_(node),
        decoder_(node.target(), node.limits().max_block_tasks,
                 {node.limits().max_graph_tensors, node.limits().max_graph_edges},
                 [this] { return this->gone(); }) {}

  void OnStart() override { this->StartRead(&part_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // Nothing may come of a stream that did not end as it should.
      if (this->malformed()) return this->FinishWithError(rpc::MalformedError());
      Response response;
      const absl::Status status = End(&response);
      if (status.ok()) {
        this->Finish(status, response);
      } else {
        this->FinishWithError(status);
      }
      return;
    }
    const bool first = !decoder_.has_header();
    absl::Status status = decoder_.Add(part_);
    if (status.ok() && first) status = CheckHeader(decoder_.header());
    if (!status.ok()) {
      this->FinishWithError(status);
      return;
    }
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
  const std::string& session_id() const { return decoder_.session(); }
  const v1::PackedHeader& header() const { return decoder_.header(); }

  // Holds it until the stream ends.
  absl::StatusOr<std::shared_ptr<Session>> FindSession() {
    absl::StatusOr<std::shared_ptr<Session>> session = node_.sessions().Use(decoder_.session());
    if (session.ok()) hold_ = SessionHold(*session);
    return session;
  }

 private:
  absl::Status End(Response* response) {
    PTO_ASSIGN_OR_RETURN(DecodedGraph graph, decoder_.Finish());
    return Complete(std::move(graph.image), digest_.Finish(), response);
  }

  Node& node_;
  PackedDecoder decoder_;
  DigestBuilder digest_;
  SessionHold hold_;
  v1::PackedGraphPart part_;
};

class PackedRun final : public PackedStream<v1::Run> {
 public:
  using PackedStream::PackedStream;

 private:
  absl::Status CheckHeader(const v1::PackedHeader& header) override {
    PTO_RETURN_IF_ERROR(admission_.CheckAccepting());
    if (!header.id().empty()) PTO_RETURN_IF_ERROR(names::CheckId(header.id(), "header.id"));
    PTO_RETURN_IF_ERROR(ParseRunOptions(header.options(), "header.options", &request_.run));
    const absl::Status found = FindSession().status();
    // Whether a former boot had this very run is known when all of it is here.
    return found.ok() ? found : admission_.CheckFormer(session_id(), header.id(), found);
  }

  absl::Status Complete(std::shared_ptr<const engine::GraphImage> image, const Digest& digest,
                        v1::Run* response) override {
    request_.session = session_id();
    request_.run.id = header().id();
    if (!request_.run.id.empty()) request_.run.digest = digest;
    request_.run.image = std::move(image);
    request_.run.cancelled = [this] { return gone(); };
    const absl::StatusOr<std::shared_ptr<RunEntry>> entry = admission_.Start(
        request_, [](Session&, RunRequest* run) { return CheckTaskTimes(*run, "header.options"); });
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

rpc::ClientStreamReactor<v1::PackedGraphPart, v1::Run>* NewPackedRun(Node& node) {
  return new PackedRun(node);
}

rpc::ClientStreamReactor<v1::PackedGraphPart, v1::Graph>* NewPackedGraph(Node& node) {
  return new PackedGraph(node);
}

}  // namespace pto::daemon
