#include "client/client.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/broker_link.h"
#include "client/internal/core.h"
#include "client/internal/duration_proto.h"
#include "client/internal/graph_structure.h"
#include "client/internal/random_id.h"
#include "runtime/base/status_macros.h"

namespace pto {
namespace {

using internal::Core;
using internal::Deadline;
using internal::Retry;

constexpr int kPageSize = 1000;
constexpr uint64_t kStructurePage = 10'000;  // tasks

// Fetches all pages of a list, up to `limit` items; zero means no limit.
template <typename Item, typename Service, typename Request, typename Response>
absl::StatusOr<std::vector<Item>> ListAll(
    Core& core, absl::string_view rpc, const internal::Wire<Service>& wire,
    internal::Unary<Service, Request, Response> method,
    google::protobuf::RepeatedPtrField<Item>* (Response::*items)(),
    std::type_identity_t<Request> request, uint64_t limit, const Deadline& deadline) {
  std::vector<Item> all;
  do {
    const uint64_t wanted = limit == 0 ? kPageSize : limit - all.size();
    request.set_page_size(static_cast<int>(std::min<uint64_t>(wanted, kPageSize)));
    PTO_ASSIGN_OR_RETURN(Response page,
                         core.Call(rpc, wire, method, request, deadline, Retry::kOnce));
    auto& found = *(page.*items)();
    std::move(found.begin(), found.end(), std::back_inserter(all));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && (limit == 0 || all.size() < limit));
  return all;
}

}  // namespace

absl::StatusOr<Client> Client::Connect(absl::string_view address, const ClientOptions& options) {
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<Core> core, Core::Connect(address, options));
  return Client(std::move(core));
}

Client::Client(std::shared_ptr<internal::Core> core) : core_(std::move(core)) {}
Client::~Client() = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;

const std::string& Client::address() const { return core_->address(); }
const v1::Node& Client::node() const { return core_->node(); }

absl::StatusOr<Session> Client::CreateSession(const SessionOptions& options,
                                              absl::Duration timeout) {
  v1::CreateSessionRequest request;
  request.set_session_id(options.id.empty() ? internal::RandomId("s-") : options.id);
  if (options.ttl != absl::ZeroDuration()) internal::ToProto(options.ttl, *request.mutable_ttl());
  request.mutable_labels()->insert(options.labels.begin(), options.labels.end());
  request.set_weight(options.weight);
  // The daemon counts errors per client. It does not verify this name.
  request.set_client(absl::StrCat("uid-", geteuid()));
  const char* const lease = std::getenv("PTOD_LEASE");  // NOLINT: nobody changes it
  request.set_lease(!options.lease.empty() || lease == nullptr ? options.lease : lease);
  request.set_api_min(1);
  request.set_api_max(1);
  const std::string broker_socket = core_->BrokerSocket();
  broker::Key key = {};
  if (!broker_socket.empty()) {
    key = internal::BrokerLink::RandomKey();
    request.set_attach_key(key.data(), key.size());
  }
  PTO_ASSIGN_OR_RETURN(v1::Session session,
                       core_->Call("CreateSession", core_->transport().session,
                                   &v1::SessionService::Stub::PrepareAsyncCreateSession, request,
                                   core_->DeadlineOf(timeout), Retry::kOnce));
  std::shared_ptr<internal::BrokerLink> broker;
  if (!broker_socket.empty()) {
    broker = std::make_shared<internal::BrokerLink>(broker_socket, request.session_id(), key);
  }
  return Session(core_,
                 std::make_shared<internal::SessionState>(std::move(session), std::move(broker)),
                 /*owned=*/true);
}

absl::StatusOr<Session> Client::AttachSession(absl::string_view name, absl::Duration timeout) {
  PTO_ASSIGN_OR_RETURN(v1::Session session, GetSession(name, timeout));
  return Session(core_, std::make_shared<internal::SessionState>(std::move(session)),
                 /*owned=*/false);
}

absl::StatusOr<v1::Node> Client::GetNode(absl::Duration timeout) {
  return core_->GetNode(core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Config> Client::GetConfig(absl::Duration timeout) {
  return core_->Call("GetConfig", core_->transport().node,
                     &v1::NodeService::Stub::PrepareAsyncGetConfig, {}, core_->DeadlineOf(timeout),
                     Retry::kOnce);
}

absl::StatusOr<std::vector<v1::Chip>> Client::ListChips(absl::Duration timeout) {
  return ListAll(*core_, "ListChips", core_->transport().node,
                 &v1::NodeService::Stub::PrepareAsyncListChips,
                 &v1::ListChipsResponse::mutable_chips, {}, 0, core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Chip> Client::GetChip(absl::string_view name, absl::Duration timeout) {
  v1::GetChipRequest request;
  request.set_name(std::string(name));
  return core_->Call("GetChip", core_->transport().node,
                     &v1::NodeService::Stub::PrepareAsyncGetChip, request,
                     core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::StatusOr<v1::DrainNodeResponse> Client::DrainNode(absl::string_view reason,
                                                        absl::Duration grace,
                                                        absl::Duration timeout) {
  v1::DrainNodeRequest request;
  request.set_reason(std::string(reason));
  if (grace != absl::ZeroDuration()) internal::ToProto(grace, *request.mutable_grace());
  return core_->Call("DrainNode", core_->transport().node,
                     &v1::NodeService::Stub::PrepareAsyncDrainNode, request,
                     core_->DeadlineOf(timeout), Retry::kNever);
}

absl::StatusOr<v1::Chip> Client::ResetChip(absl::string_view name, bool force,
                                           absl::Duration timeout) {
  v1::ResetChipRequest request;
  request.set_name(std::string(name));
  request.set_force(force);
  return core_->Call("ResetChip", core_->transport().node,
                     &v1::NodeService::Stub::PrepareAsyncResetChip, request,
                     core_->DeadlineOf(timeout), Retry::kNever);
}

absl::StatusOr<std::vector<v1::Usage>> Client::ListUsage(absl::Time begin, absl::Time end,
                                                         absl::string_view principal,
                                                         absl::Duration timeout) {
  v1::ListUsageRequest request;
  if (begin != absl::InfinitePast()) {
    request.mutable_start_time()->set_seconds(absl::ToUnixSeconds(begin));
  }
  if (end != absl::InfiniteFuture()) {
    request.mutable_end_time()->set_seconds(absl::ToUnixSeconds(end));
  }
  request.set_principal(std::string(principal));
  return ListAll(*core_, "ListUsage", core_->transport().node,
                 &v1::NodeService::Stub::PrepareAsyncListUsage,
                 &v1::ListUsageResponse::mutable_usage, request, 0, core_->DeadlineOf(timeout));
}

absl::StatusOr<std::vector<v1::Session>> Client::ListSessions(absl::Duration timeout) {
  return ListAll(*core_, "ListSessions", core_->transport().session,
                 &v1::SessionService::Stub::PrepareAsyncListSessions,
                 &v1::ListSessionsResponse::mutable_sessions, {}, 0, core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Session> Client::GetSession(absl::string_view name, absl::Duration timeout) {
  v1::GetSessionRequest request;
  request.set_name(std::string(name));
  return core_->Call("GetSession", core_->transport().session,
                     &v1::SessionService::Stub::PrepareAsyncGetSession, request,
                     core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::StatusOr<v1::Session> Client::DeleteSession(absl::string_view name, bool allow_missing,
                                                  absl::Duration timeout) {
  v1::DeleteSessionRequest request;
  request.set_name(std::string(name));
  request.set_allow_missing(allow_missing);
  return core_->Call("DeleteSession", core_->transport().session,
                     &v1::SessionService::Stub::PrepareAsyncDeleteSession, request,
                     core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::StatusOr<std::vector<v1::Buffer>> Client::ListBuffers(absl::string_view session,
                                                            absl::Duration timeout) {
  v1::ListBuffersRequest request;
  request.set_parent(std::string(session));
  return ListAll(*core_, "ListBuffers", core_->transport().buffer,
                 &v1::BufferService::Stub::PrepareAsyncListBuffers,
                 &v1::ListBuffersResponse::mutable_buffers, std::move(request), 0,
                 core_->DeadlineOf(timeout));
}

absl::StatusOr<std::vector<v1::Domain>> Client::ListDomains(absl::string_view session,
                                                            absl::Duration timeout) {
  v1::ListDomainsRequest request;
  request.set_parent(std::string(session));
  return ListAll(*core_, "ListDomains", core_->transport().domain,
                 &v1::DomainService::Stub::PrepareAsyncListDomains,
                 &v1::ListDomainsResponse::mutable_domains, std::move(request), 0,
                 core_->DeadlineOf(timeout));
}

absl::StatusOr<std::vector<v1::Kernel>> Client::ListKernels(absl::Duration timeout) {
  return ListAll(*core_, "ListKernels", core_->transport().kernel,
                 &v1::KernelService::Stub::PrepareAsyncListKernels,
                 &v1::ListKernelsResponse::mutable_kernels, {}, 0, core_->DeadlineOf(timeout));
}

absl::StatusOr<std::vector<v1::Kernel>> Client::ListKernels(absl::string_view session,
                                                            absl::Duration timeout) {
  v1::ListKernelsRequest request;
  request.set_parent(std::string(session));
  return ListAll(*core_, "ListKernels", core_->transport().kernel,
                 &v1::KernelService::Stub::PrepareAsyncListKernels,
                 &v1::ListKernelsResponse::mutable_kernels, request, 0, core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Kernel> Client::DeleteKernel(absl::string_view name, absl::Duration timeout) {
  v1::DeleteKernelRequest request;
  request.set_name(std::string(name));
  return core_->Call("DeleteKernel", core_->transport().kernel,
                     &v1::KernelService::Stub::PrepareAsyncDeleteKernel, request,
                     core_->DeadlineOf(timeout), Retry::kNever);
}

absl::StatusOr<std::vector<v1::Host>> Client::ListHosts(absl::Duration timeout) {
  return ListAll(*core_, "ListHosts", core_->transport().kernel,
                 &v1::KernelService::Stub::PrepareAsyncListHosts,
                 &v1::ListHostsResponse::mutable_hosts, {}, 0, core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Kernel> Client::GetKernel(absl::string_view name, absl::Duration timeout) {
  v1::GetKernelRequest request;
  request.set_name(std::string(name));
  return core_->Call("GetKernel", core_->transport().kernel,
                     &v1::KernelService::Stub::PrepareAsyncGetKernel, request,
                     core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::StatusOr<v1::Graph> Client::GetGraph(absl::string_view name, absl::Duration timeout) {
  v1::GetGraphRequest request;
  request.set_name(std::string(name));
  return core_->Call("GetGraph", core_->transport().run,
                     &v1::RunService::Stub::PrepareAsyncGetGraph, request,
                     core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::StatusOr<v1::Graph> Client::GetGraphStructure(absl::string_view name, uint64_t max_tasks,
                                                    absl::Duration timeout) {
  if (max_tasks == 0) max_tasks = std::numeric_limits<uint64_t>::max();
  const Deadline deadline = core_->DeadlineOf(timeout);
  v1::GetGraphRequest request;
  request.set_name(std::string(name));
  request.set_view(v1::STRUCTURE);
  v1::GraphStructure all;
  while (true) {
    const uint64_t have = static_cast<uint64_t>(all.kernel_size());
    request.set_first_task(have);
    request.set_max_tasks(static_cast<uint32_t>(std::min(kStructurePage, max_tasks - have)));
    PTO_ASSIGN_OR_RETURN(v1::Graph graph, core_->Call("GetGraph", core_->transport().run,
                                                      &v1::RunService::Stub::PrepareAsyncGetGraph,
                                                      request, deadline, Retry::kOnce));
    internal::AppendStructure(graph.structure(), &all);
    const auto now = static_cast<uint64_t>(all.kernel_size());
    if (now < max_tasks && now < graph.task_count() && now > have) continue;
    *graph.mutable_structure() = std::move(all);
    return graph;
  }
}

absl::StatusOr<std::vector<v1::Run>> Client::ListRuns(absl::string_view session, bool active_only,
                                                      uint64_t limit, absl::Duration timeout) {
  v1::ListRunsRequest request;
  request.set_parent(std::string(session));
  request.set_active_only(active_only);
  return ListAll(*core_, "ListRuns", core_->transport().run,
                 &v1::RunService::Stub::PrepareAsyncListRuns, &v1::ListRunsResponse::mutable_runs,
                 std::move(request), limit, core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Run> Client::GetRun(absl::string_view name, absl::Duration timeout) {
  v1::GetRunRequest request;
  request.set_name(std::string(name));
  return core_->Call("GetRun", core_->transport().run, &v1::RunService::Stub::PrepareAsyncGetRun,
                     request, core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::StatusOr<v1::RunGraph> Client::GetRunGraph(absl::string_view name, uint64_t max_tasks,
                                                 absl::Duration timeout) {
  if (max_tasks == 0) max_tasks = std::numeric_limits<uint64_t>::max();
  const Deadline deadline = core_->DeadlineOf(timeout);
  v1::GetRunGraphRequest request;
  request.set_name(std::string(name));
  v1::RunGraph all;
  while (true) {
    const v1::GraphStructure& known = all.structure();
    const auto have = static_cast<uint64_t>(known.kernel_size());
    request.set_first_task(have == 0 ? 0 : known.first_task() + have);
    request.set_max_tasks(static_cast<uint32_t>(std::min(kStructurePage, max_tasks - have)));
    PTO_ASSIGN_OR_RETURN(v1::RunGraph page,
                         core_->Call("GetRunGraph", core_->transport().run,
                                     &v1::RunService::Stub::PrepareAsyncGetRunGraph, request,
                                     deadline, Retry::kOnce));
    if (have == 0) {
      all = page;
      all.clear_structure();
    } else {
      if (page.structure().first_task() > request.first_task()) {
        // The daemon has discarded the tasks in between. The result must have no gaps.
        all.clear_structure();
        all.clear_blocks();
      }
      all.set_task_count(page.task_count());
      // A segment may continue from the previous page.
      for (v1::RunGraph::Block& segment : *page.mutable_blocks()) {
        if (!all.blocks().empty() &&
            all.blocks(all.blocks_size() - 1).first_task() >= segment.first_task()) {
          continue;
        }
        *all.add_blocks() = std::move(segment);
      }
    }
    internal::AppendStructure(page.structure(), all.mutable_structure());
    const auto now = static_cast<uint64_t>(all.structure().kernel_size());
    const bool is_last = all.structure().first_task() + now >= all.task_count();
    if (is_last || now >= max_tasks || page.structure().kernel().empty()) return all;
  }
}

absl::StatusOr<v1::Run> Client::WaitRun(absl::string_view name, absl::Duration timeout) {
  return core_->WaitRun(/*session=*/nullptr, std::string(name), core_->DeadlineOf(timeout));
}

absl::StatusOr<v1::Run> Client::CancelRun(absl::string_view name, absl::string_view reason,
                                          absl::Duration timeout) {
  v1::CancelRunRequest request;
  request.set_name(std::string(name));
  request.set_reason(std::string(reason));
  return core_->Call("CancelRun", core_->transport().run,
                     &v1::RunService::Stub::PrepareAsyncCancelRun, request,
                     core_->DeadlineOf(timeout), Retry::kOnce);
}

absl::StatusOr<v1::ExplainRunResponse> Client::ExplainRun(absl::string_view name,
                                                          uint32_t max_tasks,
                                                          absl::Duration timeout) {
  v1::ExplainRunRequest request;
  request.set_name(std::string(name));
  request.set_max_tasks(max_tasks);
  return core_->Call("ExplainRun", core_->transport().run,
                     &v1::RunService::Stub::PrepareAsyncExplainRun, request,
                     core_->DeadlineOf(timeout), Retry::kOnce);
}

}  // namespace pto
