#include "daemon/services/packed_stream.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/graph/fields.h"
#include "daemon/graph/packed_decoder.h"
#include "daemon/names/digest.h"
#include "daemon/names/names.h"
#include "daemon/services/run_request.h"
#include "daemon/session/session_hold.h"
#include "daemon/wire/convert.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {
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
  virtual absl::Status Complete(std::shared_ptr<Session> session,
                                std::shared_ptr<const GraphImage> image, const Digest& digest,
                                Response* response) = 0;

  // The same when the session is not there; `missing` says so.
  virtual absl::Status CompleteWithout(const absl::Status& missing, const Digest& digest,
                                       Response* response) = 0;

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
    absl::StatusOr<std::shared_ptr<Session>> session = FindSession();
    if (!session.ok()) return CompleteWithout(session.status(), digest_.Finish(), response);
    return Complete(*std::move(session), std::move(graph.image), digest_.Finish(), response);
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
    PTO_RETURN_IF_ERROR(node().CheckAccepting());
    if (!header.id().empty()) PTO_RETURN_IF_ERROR(names::CheckId(header.id(), "header.id"));
    PTO_RETURN_IF_ERROR(ParseRunOptions(header.options(), "header.options", &request_));
    const absl::Status found = FindSession().status();
    // Whether a former boot had this very run is known when all of it is here.
    if (node().former().FindRun(session_id(), header.id()) != nullptr) return absl::OkStatus();
    return found;
  }

  absl::Status CompleteWithout(const absl::Status& missing, const Digest& digest,
                               v1::Run* response) override {
    const absl::StatusOr<std::shared_ptr<RunEntry>> former =
        FindFormerRun(node(), session_id(), header().id(), digest, missing);
    if (!former.ok()) return InHeader(former.status());
    ToProto((*former)->Status(), response);
    return absl::OkStatus();
  }

  absl::Status Complete(std::shared_ptr<Session> session, std::shared_ptr<const GraphImage> image,
                        const Digest& digest, v1::Run* response) override {
    PTO_RETURN_IF_ERROR(node().CheckAccepting());
    request_.id = header().id();
    if (!request_.id.empty()) request_.digest = digest;
    request_.image = std::move(image);
    request_.cancelled = [this] { return gone(); };
    PTO_RETURN_IF_ERROR(CheckTaskTimes(request_, "header.options"));
    const absl::StatusOr<std::shared_ptr<RunEntry>> entry = session->StartRun(std::move(request_));
    if (!entry.ok()) return InHeader(entry.status());
    ToProto((*entry)->Status(), response);
    return absl::OkStatus();
  }

  RunRequest request_;
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

  absl::Status CompleteWithout(const absl::Status& missing, const Digest&, v1::Graph*) override {
    return missing;
  }

  absl::Status Complete(std::shared_ptr<Session> session, std::shared_ptr<const GraphImage> image,
                        const Digest& digest, v1::Graph* response) override {
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

}  // namespace pto
