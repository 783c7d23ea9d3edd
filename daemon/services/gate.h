#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/auth/access.h"
#include "daemon/auth/methods.h"
#include "daemon/auth/open_calls.h"
#include "daemon/auth/principal.h"
#include "daemon/node/node.h"
#include "daemon/services/answer_charge.h"
#include "google/protobuf/message.h"

namespace pto::daemon {

// The way into one method: finds out who calls, and has calls written into the audit log. `Call` is
// a rpc::UnaryCall or a reactor. Cheap to copy; the node outlives it. Thread-safe.
class Gate {
 public:
  // `method` such as `pto.v1.NodeService/GetNode`, one of auth::AllMethods.
  Gate(Node& node, absl::string_view method)
      : access_(&node.access()),
        memory_(&node.sessions().memory()),
        method_(&auth::FindMethod(method)) {}

  // Who calls. Errors, which are written down: UNAUTHENTICATED, PERMISSION_DENIED.
  template <typename Call>
  absl::StatusOr<auth::Caller> Admit(const Call& call,
                                     const google::protobuf::Message* request = nullptr) const {
    return access_->Admit(
        *method_, call.peer().get(), [&call](absl::string_view key) { return call.Metadata(key); },
        request);
  }

  // Of a stream that was admitted: as long as the result exists, the stream is cancelled when its
  // caller would not be admitted any more, or be somebody else. Not longer than the stream.
  template <typename Stream>
  std::unique_ptr<auth::OpenCalls::Stay> Stay(const Stream& stream,
                                              const auth::Caller& caller) const {
    return std::make_unique<auth::OpenCalls::Stay>(
        access_->open_calls(), auth::OpenCalls::Call{[gate = *this, &stream, name = caller->name] {
                                                       const absl::StatusOr<auth::Caller> now =
                                                           gate.Admit(stream);
                                                       return now.ok() && (*now)->name == name;
                                                     },
                                                     [&stream] { stream.context().TryCancel(); }});
  }

  // A call that was admitted was accepted, or refused: once, before the client knows. `request`:
  // the first message of a stream, or nullptr if none came.
  template <typename Call>
  void Note(const Call& call, const auth::Caller& caller, const google::protobuf::Message* request,
            const absl::Status& status, uint64_t launches = 0, uint64_t refused = 0) const {
    if (!access_->audits()) return;
    access_->Note(*method_, caller.get(), call.peer().get(), request, status, launches, refused);
  }

  // Charges a large answer to the caller. Errors: MEMORY_BUDGET, if the method only reads: what was
  // changed must be answered.
  template <typename Call>
  absl::Status Charge(const auth::Caller& caller, Call& call) const {
    return ChargeAnswer(*memory_, *caller, call, /*must=*/method_->mutates);
  }

 private:
  auth::Access* access_;
  MemoryBudget* memory_;
  const auth::Method* method_;
};

}  // namespace pto::daemon
