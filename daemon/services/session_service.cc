#include "daemon/services/session_service.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/names/digest.h"
#include "daemon/names/names.h"
#include "daemon/services/handler.h"
#include "daemon/services/lease_wait.h"
#include "daemon/wire/convert.h"
#include "daemon/wire/request.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using Async = v1::SessionService::AsyncService;

constexpr PageScope kScope = {"ListSessions", ""};

constexpr uint32_t kApiVersion = 1;
constexpr uint32_t kMaxWeight = 1000;
constexpr size_t kKeyBytes = 32;

// The key is not part of a request's identity: a second client that creates the same session gets
// it, but not the right to map its buffers.
Digest DigestWithoutKey(v1::CreateSessionRequest request) {
  request.clear_attach_key();
  return DigestOf(request);
}
constexpr absl::string_view kAnonymous = "anonymous";

// How many chips all leases of a client may have. Half of them, unless the policy says something
// else: so one client alone cannot lock out the others. Operators can have all, and can wait for
// more while they do.
uint32_t MostLeasedChips(const auth::Principal& client, uint32_t chips) {
  if (client.rights.max_leased_chips != 0) return client.rights.max_leased_chips;
  return client.rights.operates ? std::numeric_limits<uint32_t>::max() : (chips + 1) / 2;
}

}  // namespace

void SessionService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.Unary(&Async::RequestCreateSession, &service_,
               Handler({node_, "pto.v1.SessionService/CreateSession"}, this,
                       &SessionService::CreateSession));
  server.Unary(
      &Async::RequestRenewSession, &service_,
      Handler({node_, "pto.v1.SessionService/RenewSession"}, this, &SessionService::RenewSession));
  server.Unary(
      &Async::RequestGetSession, &service_,
      Handler({node_, "pto.v1.SessionService/GetSession"}, this, &SessionService::GetSession));
  server.Unary(
      &Async::RequestListSessions, &service_,
      Handler({node_, "pto.v1.SessionService/ListSessions"}, this, &SessionService::ListSessions));
  server.Unary(&Async::RequestDeleteSession, &service_,
               Handler({node_, "pto.v1.SessionService/DeleteSession"}, this,
                       &SessionService::DeleteSession));
  server.LongUnary(
      &Async::RequestLeaseChips, &service_,
      AsyncHandler({node_, "pto.v1.SessionService/LeaseChips"}, this, &SessionService::LeaseChips));
}

void SessionService::LeaseChips(const Gate& gate, const auth::Caller& caller,
                                rpc::UnaryCallPtr<v1::LeaseChipsRequest, v1::ChipLease> call) {
  const v1::LeaseChipsRequest& request = call->request();
  absl::Duration wait;
  std::shared_ptr<Session> session;
  const auto ask = [&]() -> absl::Status {
    PTO_RETURN_IF_ERROR(node_.CheckAccepting());
    PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.name(), "name"));
    PTO_ASSIGN_OR_RETURN(
        wait, ParseDuration(request.wait(), "wait", absl::ZeroDuration(), absl::Hours(1)));
    const size_t chips = node_.engine().chips().size();
    if (request.count() == 0 || request.count() > chips) {
      return Error(reason::kFieldInvalid,
                   absl::StrCat("a lease has 1 to ", chips, " chips, not ", request.count()))
          .At("count")
          .With("have", request.count())
          .With("want", chips);
    }
    PTO_ASSIGN_OR_RETURN(session, node_.sessions().Use(*caller, id));
    const uint32_t limit = MostLeasedChips(*caller, static_cast<uint32_t>(chips));
    PTO_RETURN_IF_ERROR(node_.leases().Ask(id, request.count(), session->owner(), limit).status());
    // The session may have ended in between, and then nobody would release the lease.
    if (session->ended()) node_.leases().Release(id);
    return absl::OkStatus();
  };
  const absl::Status asked = ask();
  gate.Note(*call, caller, &request, asked);
  if (!asked.ok()) return call->Finish(asked);
  std::make_shared<LeaseWait>(node_, std::move(call), std::move(session))->Begin(wait);
}

absl::Status SessionService::CreateSession(const auth::Principal& caller,
                                           const v1::CreateSessionRequest& request,
                                           v1::Session* response) {
  PTO_RETURN_IF_ERROR(node_.CheckAccepting());
  PTO_RETURN_IF_ERROR(names::CheckId(request.session_id(), "session_id"));
  SessionManager::Request create;
  create.id = request.session_id();
  PTO_ASSIGN_OR_RETURN(
      create.ttl, ParseDuration(request.ttl(), "ttl", absl::ZeroDuration(), absl::Hours(24 * 365)));
  PTO_ASSIGN_OR_RETURN(create.labels, ParseLabels(request.labels(), "labels"));
  if (request.weight() > kMaxWeight) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("a weight is 1 to ", kMaxWeight, ", not ", request.weight()))
        .At("weight")
        .With("have", request.weight())
        .With("want", kMaxWeight);
  }
  if (request.weight() > caller.rights.max_weight) {
    return Error(reason::kPermissionDenied,
                 absl::StrCat(caller.name, " may have sessions of weight ",
                              caller.rights.max_weight, " at most, not ", request.weight(),
                              ": see max_weight in the access policy"))
        .At("weight")
        .With("principal", caller.name)
        .With("have", request.weight())
        .With("want", caller.rights.max_weight);
  }
  if (request.weight() != 0) create.weight = request.weight();
  if (request.api_min() > kApiVersion ||
      (request.api_max() != 0 && request.api_max() < kApiVersion)) {
    return Error(reason::kApiVersionUnsupported,
                 absl::StrCat("this daemon speaks version ", kApiVersion, " of the API, not ",
                              request.api_min(), " to ", request.api_max()))
        .At(request.api_min() > kApiVersion ? "api_min" : "api_max")
        .With("api_min", kApiVersion)
        .With("api_max", kApiVersion);
  }
  create.api_version = kApiVersion;
  if (!request.attach_key().empty() && request.attach_key().size() != kKeyBytes) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("a key has ", kKeyBytes, " bytes, not ", request.attach_key().size()))
        .At("attach_key")
        .With("have", request.attach_key().size())
        .With("want", kKeyBytes);
  }
  create.attach_key = request.attach_key();
  create.digest = DigestWithoutKey(request);
  create.client = request.client().empty() ? std::string(kAnonymous) : request.client();
  PTO_RETURN_IF_ERROR(names::CheckId(create.client, "client"));
  if (!request.lease().empty()) {
    PTO_ASSIGN_OR_RETURN(create.lease, names::ParseSession(request.lease(), "lease"));
  }
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Create(caller, std::move(create)));
  ToProto(*session, node_.boot_id(), response);
  return absl::OkStatus();
}

absl::Status SessionService::RenewSession(const auth::Principal& caller,
                                          const v1::RenewSessionRequest& request,
                                          v1::Session* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.name(), "name"));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, node_.sessions().Use(caller, id));
  ToProto(*session, node_.boot_id(), response);
  return absl::OkStatus();
}

absl::Status SessionService::GetSession(const auth::Principal& caller,
                                        const v1::GetSessionRequest& request,
                                        v1::Session* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.name(), "name"));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Find(caller, id, auth::Right::kLook));
  ToProto(*session, node_.boot_id(), response);
  return absl::OkStatus();
}

absl::Status SessionService::ListSessions(const auth::Principal& caller,
                                          const v1::ListSessionsRequest& request,
                                          v1::ListSessionsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size()));
  PTO_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(kScope, request.page_token()));
  // One more than a page shows whether there is another page.
  std::vector<std::shared_ptr<Session>> sessions = node_.sessions().List(caller, after, page + 1);
  if (sessions.size() > page) {
    sessions.pop_back();
    response->set_next_page_token(MakePageToken(kScope, sessions.back()->id()));
  }
  for (const std::shared_ptr<Session>& session : sessions) {
    ToProto(*session, node_.boot_id(), response->add_sessions());
  }
  return absl::OkStatus();
}

absl::Status SessionService::DeleteSession(const auth::Principal& caller,
                                           const v1::DeleteSessionRequest& request,
                                           v1::Session* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.name(), "name"));
  absl::StatusOr<std::shared_ptr<Session>> session =
      node_.sessions().Delete(caller, id, "it was deleted");
  if (!session.ok()) {
    if (!request.allow_missing()) return session.status();
  } else if (*session != nullptr) {
    ToProto(**session, node_.boot_id(), response);
    return absl::OkStatus();
  }
  response->set_name(request.name());
  response->set_state(v1::Session::ENDED);
  response->set_boot_id(node_.boot_id());
  return absl::OkStatus();
}

}  // namespace pto::daemon
