#include "daemon/services/kernel_service.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/kernels/session_kernels.h"
#include "daemon/names/names.h"
#include "daemon/services/handler.h"
#include "daemon/services/kernel_upload.h"
#include "daemon/wire/convert.h"
#include "daemon/wire/host_status.h"
#include "daemon/wire/request.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using Async = v1::KernelService::AsyncService;

constexpr PageScope kScope = {"ListKernels", ""};

constexpr PageScope kHostScope = {"ListHosts", ""};

}  // namespace

void KernelService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.Unary(
      &Async::RequestListKernels, &service_,
      Handler({node_, "pto.v1.KernelService/ListKernels"}, this, &KernelService::ListKernels));
  server.Unary(&Async::RequestGetKernel, &service_,
               Handler({node_, "pto.v1.KernelService/GetKernel"}, this, &KernelService::GetKernel));
  server.ClientStream(
      &Async::RequestRegisterKernel, &service_,
      [this, gate = Gate(node_, "pto.v1.KernelService/RegisterKernel")](
          const grpc::ServerContext&) { return NewKernelUpload(node_, gate, streams_); });
  server.Unary(
      &Async::RequestDeleteKernel, &service_,
      Handler({node_, "pto.v1.KernelService/DeleteKernel"}, this, &KernelService::DeleteKernel));
  server.Unary(&Async::RequestListHosts, &service_,
               Handler({node_, "pto.v1.KernelService/ListHosts"}, this, &KernelService::ListHosts));
}

absl::Status KernelService::ListKernels(const auth::Principal& caller,
                                        const v1::ListKernelsRequest& request,
                                        v1::ListKernelsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size()));
  if (!request.parent().empty()) return ListUploaded(caller, request, page, response);
  PTO_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(kScope, request.page_token()));
  for (const std::shared_ptr<const Kernel>& kernel : node_.kernels().List()) {
    if (kernel->name() <= after) continue;
    if (response->kernels_size() == static_cast<int>(page)) {
      const std::string& last = response->kernels(response->kernels_size() - 1).name();
      response->set_next_page_token(MakePageToken(kScope, last.substr(last.find('/') + 1)));
      break;
    }
    ToProto(*kernel, response->add_kernels());
  }
  return absl::OkStatus();
}

absl::Status KernelService::ListUploaded(const auth::Principal& caller,
                                         const v1::ListKernelsRequest& request, size_t page,
                                         v1::ListKernelsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.parent(), "parent"));
  const PageScope scope = {"ListKernels", request.parent()};
  PTO_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(scope, request.page_token()));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, id, auth::Right::kLook));
  std::vector<std::shared_ptr<const SessionKernel>> kernels =
      session->kernels().ListUploaded(after, page + 1);
  if (kernels.size() > page) {
    kernels.pop_back();
    response->set_next_page_token(MakePageToken(scope, kernels.back()->id));
  }
  for (const std::shared_ptr<const SessionKernel>& kernel : kernels) {
    ToProto(id, *kernel, response->add_kernels());
  }
  return absl::OkStatus();
}

absl::Status KernelService::GetKernel(const auth::Principal& caller,
                                      const v1::GetKernelRequest& request, v1::Kernel* response) {
  PTO_ASSIGN_OR_RETURN(const names::Child name, names::ParseAnyKernel(request.name(), "name"));
  if (!name.session.empty()) {
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                         node_.sessions().Use(caller, name.session, auth::Right::kLook));
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<const SessionKernel> kernel,
                         session->kernels().Get(name.id));
    ToProto(name.session, *kernel, response);
    return absl::OkStatus();
  }
  const std::shared_ptr<const Kernel> kernel = node_.kernels().Find(name.id);
  if (kernel == nullptr) {
    return Error(reason::kKernelUnknown, absl::StrCat("there is no kernel '", name.id, "'"))
        .At("name")
        .With("kernel", name.id);
  }
  ToProto(*kernel, response);
  return absl::OkStatus();
}

absl::Status KernelService::DeleteKernel(const auth::Principal& caller,
                                         const v1::DeleteKernelRequest& request,
                                         v1::Kernel* response) {
  PTO_ASSIGN_OR_RETURN(const names::Child name, names::ParseAnyKernel(request.name(), "name"));
  if (name.session.empty()) {
    return Error(reason::kNameInvalid,
                 absl::StrCat(request.name(), " is built in; only uploaded kernels can be deleted"))
        .At("name")
        .Hint("use a name like sessions/{session}/kernels/{kernel}");
  }
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, name.session, auth::Right::kEnd));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<const SessionKernel> kernel,
                       session->kernels().Remove(name.id));
  ToProto(name.session, *kernel, response);
  return absl::OkStatus();
}

absl::Status KernelService::ListHosts(const auth::Principal& caller,
                                      const v1::ListHostsRequest& request,
                                      v1::ListHostsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size()));
  PTO_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(kHostScope, request.page_token()));
  std::string last;
  for (const std::shared_ptr<Session>& session : node_.sessions().List(caller, after, SIZE_MAX)) {
    const absl::optional<host::HostStatus> host = session->kernels().host();
    if (!host.has_value()) continue;
    if (response->hosts_size() == static_cast<int>(page)) {
      response->set_next_page_token(MakePageToken(kHostScope, last));
      break;
    }
    ToProto(session->name(), session->kernels().size(), *host, response->add_hosts());
    last = session->id();
  }
  return absl::OkStatus();
}

}  // namespace pto::daemon
