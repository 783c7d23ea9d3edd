#include "daemon/services/domain_service.h"

#include "absl/strings/str_cat.h"
#include "daemon/services/handler.h"
#include "runtime/base/error.h"

namespace pto {
namespace {

using Async = v1::DomainService::AsyncService;

}  // namespace

void DomainService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.Unary(&Async::RequestCreateDomain, &service_,
               NotAvailable<v1::CreateDomainRequest, v1::Domain>("CreateDomain"));
  server.Unary(&Async::RequestGetDomain, &service_,
               NotAvailable<v1::GetDomainRequest, v1::Domain>("GetDomain"));
  server.Unary(&Async::RequestListDomains, &service_,
               NotAvailable<v1::ListDomainsRequest, v1::ListDomainsResponse>("ListDomains"));
  server.Unary(&Async::RequestRevokeDomain, &service_,
               NotAvailable<v1::RevokeDomainRequest, v1::Domain>("RevokeDomain"));
  server.Unary(&Async::RequestDeleteDomain, &service_,
               NotAvailable<v1::DeleteDomainRequest, v1::Domain>("DeleteDomain"));
  server.Unary(&Async::RequestNotify, &service_,
               NotAvailable<v1::NotifyRequest, v1::NotifyResponse>("Notify"));
  server.Unary(&Async::RequestReadSignals, &service_,
               NotAvailable<v1::ReadSignalsRequest, v1::ReadSignalsResponse>("ReadSignals"));
}

}  // namespace pto
