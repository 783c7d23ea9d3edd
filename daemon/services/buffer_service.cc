#include "daemon/services/buffer_service.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "daemon/names/window_name.h"
#include "daemon/services/buffer_transfer.h"
#include "daemon/services/handler.h"
#include "daemon/wire/convert.h"
#include "daemon/wire/request.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using Async = v1::BufferService::AsyncService;

}  // namespace

void BufferService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.Unary(
      &Async::RequestCreateBuffers, &service_,
      Handler({node_, "pto.v1.BufferService/CreateBuffers"}, this, &BufferService::CreateBuffers));
  server.Unary(&Async::RequestGetBuffer, &service_,
               Handler({node_, "pto.v1.BufferService/GetBuffer"}, this, &BufferService::GetBuffer));
  server.Unary(
      &Async::RequestListBuffers, &service_,
      Handler({node_, "pto.v1.BufferService/ListBuffers"}, this, &BufferService::ListBuffers));
  server.Unary(
      &Async::RequestDeleteBuffers, &service_,
      Handler({node_, "pto.v1.BufferService/DeleteBuffers"}, this, &BufferService::DeleteBuffers));
  server.ClientStream(&Async::RequestWriteBuffer, &service_, [this](const grpc::ServerContext&) {
    return NewWriteBuffer(node_, {node_, "pto.v1.BufferService/WriteBuffer"});
  });
  server.ServerStream(&Async::RequestReadBuffer, &service_,
                      [this](const v1::ReadBufferRequest& request, const grpc::ServerContext&) {
                        return NewReadBuffer(node_, {node_, "pto.v1.BufferService/ReadBuffer"},
                                             request, unread_);
                      });
}

absl::Status BufferService::CreateBuffers(const auth::Principal& caller,
                                          const v1::CreateBuffersRequest& request,
                                          v1::CreateBuffersResponse* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.parent(), "parent"));
  if (request.buffers().empty()) {
    return Error(reason::kFieldInvalid, "there is no buffer to create").At("buffers");
  }
  std::vector<BufferRequest> requests;
  absl::flat_hash_set<std::string> ids;
  for (int i = 0; i < request.buffers_size(); ++i) {
    const v1::BufferSpec& spec = request.buffers(i);
    const std::string path = absl::StrCat("buffers[", i, "].");
    PTO_RETURN_IF_ERROR(names::CheckId(spec.buffer_id(), path + "buffer_id"));
    if (!ids.insert(spec.buffer_id()).second) {
      return Error(reason::kIdConflict, absl::StrCat("'", spec.buffer_id(), "' is listed twice"))
          .At(path + "buffer_id")
          .With("buffer", spec.buffer_id());
    }
    PTO_ASSIGN_OR_RETURN(const uint32_t chip, names::ParseChip(spec.chip(), path + "chip",
                                                               node_.engine().chips().size()));
    if (spec.bytes() == 0) {
      return Error(reason::kFieldInvalid, "a buffer has at least one byte").At(path + "bytes");
    }
    if (spec.bytes() > node_.limits().max_buffer_bytes) {
      return Error(reason::kBufferTooLarge,
                   absl::StrCat("a buffer has at most ", node_.limits().max_buffer_bytes,
                                " bytes, not ", spec.bytes()))
          .At(path + "bytes")
          .Limit("max_buffer_bytes", node_.limits().max_buffer_bytes, 0, spec.bytes());
    }
    requests.push_back({spec.buffer_id(), chip, spec.bytes()});
  }
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, node_.sessions().Use(caller, id));
  PTO_ASSIGN_OR_RETURN(const auto buffers, session->CreateBuffers(requests));
  for (const std::shared_ptr<SessionBuffer>& buffer : buffers) {
    ToProto(id, *buffer, response->add_buffers());
  }
  return absl::OkStatus();
}

absl::Status BufferService::GetBuffer(const auth::Principal& caller,
                                      const v1::GetBufferRequest& request, v1::Buffer* response) {
  PTO_ASSIGN_OR_RETURN(const names::Child child, names::ParseAnyBuffer(request.name(), "name"));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, child.session, auth::Right::kLook));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<SessionBuffer> buffer, session->FindBuffer(child.id));
  ToProto(child.session, *buffer, response);
  return absl::OkStatus();
}

absl::Status BufferService::ListBuffers(const auth::Principal& caller,
                                        const v1::ListBuffersRequest& request,
                                        v1::ListBuffersResponse* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.parent(), "parent"));
  PTO_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size()));
  const PageScope scope = {"ListBuffers", request.parent()};
  PTO_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(scope, request.page_token()));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, id, auth::Right::kLook));
  std::vector<std::shared_ptr<SessionBuffer>> buffers = session->ListBuffers(after, page + 1);
  if (buffers.size() > page) {
    buffers.pop_back();
    response->set_next_page_token(MakePageToken(scope, buffers.back()->id));
  }
  for (const std::shared_ptr<SessionBuffer>& buffer : buffers) {
    ToProto(id, *buffer, response->add_buffers());
  }
  return absl::OkStatus();
}

absl::Status BufferService::DeleteBuffers(const auth::Principal& caller,
                                          const v1::DeleteBuffersRequest& request,
                                          v1::DeleteBuffersResponse* response) {
  if (request.names().empty()) {
    return Error(reason::kFieldInvalid, "there is no buffer to delete").At("names");
  }
  std::string session_id;
  std::vector<std::string> ids;
  for (int i = 0; i < request.names_size(); ++i) {
    const std::string path = absl::StrCat("names[", i, "]");
    PTO_ASSIGN_OR_RETURN(names::Child child, names::ParseChild(request.names(i), "buffers", path));
    if (i == 0) session_id = child.session;
    if (child.session != session_id) {
      return Error(reason::kSessionMismatch,
                   absl::StrCat("buffers of '", session_id, "' and of '", child.session,
                                "' cannot be deleted together"))
          .At(path);
    }
    ids.push_back(std::move(child.id));
  }
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, session_id, auth::Right::kEnd));
  if (!request.allow_missing()) {
    for (const std::string& id : ids) PTO_RETURN_IF_ERROR(session->FindBuffer(id).status());
  }
  for (const std::string& id : ids) {
    const std::shared_ptr<SessionBuffer> removed = session->RemoveBuffer(id);
    if (removed != nullptr && removed->in_use.load(std::memory_order_acquire) > 0) {
      response->add_deferred(names::ChildName(session_id, "buffers", id));
    }
  }
  return absl::OkStatus();
}

}  // namespace pto::daemon
