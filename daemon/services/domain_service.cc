#include "daemon/services/domain_service.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "daemon/services/handler.h"
#include "daemon/wire/request.h"
#include "proto/status/status_proto.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using Async = v1::DomainService::AsyncService;

static_assert(static_cast<int>(v1::NotifyRequest::SET) == PTO_SET);
static_assert(static_cast<int>(v1::NotifyRequest::ADD) == PTO_ADD);

void ToProto(const Domain& domain, v1::Domain* proto) {
  proto->set_name(domain.name());
  const absl::Status error = domain.error();
  proto->set_state(error.ok() ? v1::Domain::ACTIVE : v1::Domain::REVOKED);
  if (!error.ok()) *proto->mutable_error() = StatusToProto(error);
  const DomainSpec& spec = domain.spec();
  for (const uint32_t chip : spec.chips) proto->add_chips(names::Chip(chip));
  proto->set_window_bytes(spec.window_bytes);
  for (const WindowBufferSpec& buffer : spec.buffers) {
    v1::WindowBuffer* out = proto->add_buffers();
    out->set_name(buffer.name);
    out->set_dtype(static_cast<v1::DType>(buffer.dtype));
    out->set_count(buffer.count);
    out->set_bytes(buffer.bytes);
    out->set_zero_before_run(buffer.zero_before_run);
  }
  proto->set_signal_count(spec.signal_count);
  proto->set_epoch(domain.epoch());
}

}  // namespace

void DomainService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.Unary(
      &Async::RequestCreateDomain, &service_,
      Handler({node_, "pto.v1.DomainService/CreateDomain"}, this, &DomainService::CreateDomain));
  server.Unary(&Async::RequestGetDomain, &service_,
               Handler({node_, "pto.v1.DomainService/GetDomain"}, this, &DomainService::GetDomain));
  server.Unary(
      &Async::RequestListDomains, &service_,
      Handler({node_, "pto.v1.DomainService/ListDomains"}, this, &DomainService::ListDomains));
  server.Unary(
      &Async::RequestRevokeDomain, &service_,
      Handler({node_, "pto.v1.DomainService/RevokeDomain"}, this, &DomainService::RevokeDomain));
  server.Unary(
      &Async::RequestDeleteDomain, &service_,
      Handler({node_, "pto.v1.DomainService/DeleteDomain"}, this, &DomainService::DeleteDomain));
  server.Unary(&Async::RequestNotify, &service_,
               Handler({node_, "pto.v1.DomainService/Notify"}, this, &DomainService::Notify));
  server.Unary(
      &Async::RequestReadSignals, &service_,
      Handler({node_, "pto.v1.DomainService/ReadSignals"}, this, &DomainService::ReadSignals));
}

absl::StatusOr<std::shared_ptr<Domain>> DomainService::FindDomain(const auth::Principal& caller,
                                                                  const std::string& name,
                                                                  auth::Right right) {
  PTO_ASSIGN_OR_RETURN(const names::Child child, names::ParseChild(name, "domains", "name"));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, child.session, right));
  return session->domains().Find(child.id);
}

absl::Status DomainService::CreateDomain(const auth::Principal& caller,
                                         const v1::CreateDomainRequest& request,
                                         v1::Domain* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.parent(), "parent"));
  PTO_RETURN_IF_ERROR(names::CheckId(request.domain_id(), "domain_id"));
  DomainSpec spec;
  for (int i = 0; i < request.chips_size(); ++i) {
    PTO_ASSIGN_OR_RETURN(const uint32_t chip,
                         names::ParseChip(request.chips(i), absl::StrCat("chips[", i, "]"),
                                          node_.engine().chips().size()));
    spec.chips.push_back(chip);
  }
  spec.window_bytes = request.window_bytes();
  for (const v1::WindowBuffer& buffer : request.buffers()) {
    spec.buffers.push_back({buffer.name(), static_cast<uint32_t>(buffer.dtype()), buffer.count(),
                            buffer.bytes(), buffer.zero_before_run()});
  }
  spec.signal_count = request.signal_count();
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, node_.sessions().Use(caller, id));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Domain> domain,
                       session->domains().Create(request.domain_id(), std::move(spec)));
  ToProto(*domain, response);
  return absl::OkStatus();
}

absl::Status DomainService::GetDomain(const auth::Principal& caller,
                                      const v1::GetDomainRequest& request, v1::Domain* response) {
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Domain> domain,
                       FindDomain(caller, request.name(), auth::Right::kLook));
  ToProto(*domain, response);
  return absl::OkStatus();
}

absl::Status DomainService::ListDomains(const auth::Principal& caller,
                                        const v1::ListDomainsRequest& request,
                                        v1::ListDomainsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.parent(), "parent"));
  PTO_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size()));
  const PageScope scope = {"ListDomains", request.parent()};
  PTO_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(scope, request.page_token()));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, id, auth::Right::kLook));
  std::vector<std::shared_ptr<Domain>> domains = session->domains().List(after, page + 1);
  if (domains.size() > page) {
    domains.pop_back();
    response->set_next_page_token(MakePageToken(scope, domains.back()->id()));
  }
  for (const std::shared_ptr<Domain>& domain : domains) {
    ToProto(*domain, response->add_domains());
  }
  return absl::OkStatus();
}

absl::Status DomainService::RevokeDomain(const auth::Principal& caller,
                                         const v1::RevokeDomainRequest& request,
                                         v1::Domain* response) {
  PTO_RETURN_IF_ERROR(CheckReasonText(request.reason()));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Domain> domain,
                       FindDomain(caller, request.name(), auth::Right::kEnd));
  domain->Revoke(request.reason());
  ToProto(*domain, response);
  return absl::OkStatus();
}

absl::Status DomainService::DeleteDomain(const auth::Principal& caller,
                                         const v1::DeleteDomainRequest& request,
                                         v1::Domain* response) {
  PTO_ASSIGN_OR_RETURN(const names::Child child,
                       names::ParseChild(request.name(), "domains", "name"));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, child.session, auth::Right::kEnd));
  const std::shared_ptr<Domain> removed = session->RemoveDomain(child.id);
  if (removed != nullptr) {
    ToProto(*removed, response);
    return absl::OkStatus();
  }
  if (!request.allow_missing()) return session->domains().Find(child.id).status();
  response->set_name(request.name());
  return absl::OkStatus();
}

absl::Status DomainService::Notify(const auth::Principal& caller, const v1::NotifyRequest& request,
                                   v1::NotifyResponse* response) {
  if (request.operation() != v1::NotifyRequest::SET &&
      request.operation() != v1::NotifyRequest::ADD) {
    return Error(reason::kFieldInvalid,
                 request.operation() == 0
                     ? std::string("the operation is missing")
                     : absl::StrCat("operation ", request.operation(), " is not known"))
        .At("operation")
        .With("have", request.operation())
        .Hint("use SET or ADD");
  }
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Domain> domain,
                       FindDomain(caller, request.name(), auth::Right::kUse));
  PTO_ASSIGN_OR_RETURN(const uint64_t value,
                       domain->Notify(request.rank(), request.signal(),
                                      static_cast<pto_notify_op>(request.operation()),
                                      static_cast<int64_t>(request.value())));
  response->set_value(value);
  return absl::OkStatus();
}

absl::Status DomainService::ReadSignals(const auth::Principal& caller,
                                        const v1::ReadSignalsRequest& request,
                                        v1::ReadSignalsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Domain> domain,
                       FindDomain(caller, request.name(), auth::Right::kUse));
  PTO_ASSIGN_OR_RETURN(const std::vector<uint64_t> values,
                       domain->ReadSignals(request.rank(), request.first(), request.count()));
  response->mutable_values()->Add(values.begin(), values.end());
  return absl::OkStatus();
}

}  // namespace pto::daemon
