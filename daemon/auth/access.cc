#include "daemon/auth/access.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::auth {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kMostNames = 16;

absl::string_view RoleOf(Need need) {
  return need == Need::kOperator ? "operator" : need == Need::kReader ? "reader" : "user";
}

bool Has(const Rights& rights, Need need) {
  switch (need) {
    case Need::kNone:
      return true;
    case Need::kUser:
      return rights.user;
    case Need::kReader:
      return rights.reader || rights.operates;
    case Need::kOperator:
      return rights.operates;
  }
  return false;
}

// The folder of what a field such as `run_id` is the id of.
std::string Collection(absl::string_view field) {
  if (!absl::EndsWith(field, "_id")) return "";
  return absl::StrCat(field.substr(0, field.size() - 3), "s");
}

// One text in a field of this name.
void CollectText(absl::string_view field, const std::string& text, absl::string_view parent,
                 std::vector<std::string>* names) {
  if (text.empty() || names->size() >= kMostNames) return;
  const std::string collection = Collection(field);
  if (field == "name" || field == "names" || field == "graph" || field == "lease") {
    names->push_back(text);
  } else if (collection == "sessions") {
    names->push_back(absl::StrCat("sessions/", text));
  } else if (!collection.empty()) {
    names->push_back(parent.empty() ? absl::StrCat(collection, "/", text)
                                    : absl::StrCat(parent, "/", collection, "/", text));
  }
}

// Parts of a request that name something: headers of streams, buffers to create.
bool HasNames(absl::string_view field) {
  return field == "header" || field == "launch" || field == "buffers";
}

void Collect(const Message& message, absl::string_view parent, bool is_part,
             std::vector<std::string>* names) {
  const auto* const reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  std::string own_parent(parent);
  for (const FieldDescriptor* field : fields) {
    if (field->name() != "parent" || field->is_repeated()) continue;
    own_parent = reflection->GetString(message, field);
    if (names->size() < kMostNames) names->push_back(own_parent);
  }
  for (const FieldDescriptor* field : fields) {
    if (names->size() >= kMostNames) return;
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count && names->size() < kMostNames; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
          field->type() == FieldDescriptor::TYPE_STRING) {
        // A part's own name is no resource.
        if (is_part && field->name() == "name") continue;
        CollectText(field->name(),
                    field->is_repeated() ? reflection->GetRepeatedString(message, field, i)
                                         : reflection->GetString(message, field),
                    own_parent, names);
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !is_part &&
                 HasNames(field->name())) {
        Collect(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                     : reflection->GetMessage(message, field),
                own_parent, true, names);
      }
    }
  }
}

AuditLog::Options AuditOptions(const std::string& path) {
  AuditLog::Options options;
  options.path = path;
  return options;
}

std::string CodeName(absl::StatusCode code) {
  return code == absl::StatusCode::kOk ? "OK" : absl::StatusCodeToString(code);
}

}  // namespace

std::vector<std::string> NamesIn(const Message& request) {
  std::vector<std::string> names;
  Collect(request, "", false, &names);
  return names;
}

absl::StatusOr<std::unique_ptr<Access>> Access::Open(Options options) {
  std::unique_ptr<AuditLog> audit;
  if (!options.audit_log.empty()) {
    PTO_ASSIGN_OR_RETURN(audit, AuditLog::Open(AuditOptions(options.audit_log)));
  }
  std::unique_ptr<Access> access(new Access(std::move(options), std::move(audit)));
  PTO_RETURN_IF_ERROR(access->identity_.Reload());
  return access;
}

Access::Access(Options options, std::unique_ptr<AuditLog> audit)
    : identity_(options.identity), audit_(std::move(audit)), clock_(*options.identity.clock) {}

Access::Access()
    : Access(
          [] {
            Options options;
            options.identity.own_uid = geteuid();
            return options;
          }(),
          nullptr) {}

bool Access::Operates(const rpc::Peer& peer) {
  if (peer.transport != rpc::Peer::Transport::kUnix) return false;
  const absl::StatusOr<Caller> caller =
      identity_.Identify(&peer, [](absl::string_view) { return absl::optional<std::string>(); });
  return caller.ok() && (*caller)->rights.operates;
}

absl::StatusOr<Caller> Access::Admit(const Method& method, const rpc::Peer* peer,
                                     Authenticator::Metadata metadata, const Message* request) {
  absl::StatusOr<Caller> caller = identity_.Identify(peer, metadata);
  if (!caller.ok()) {
    Note(method, nullptr, peer, request, caller.status());
    return caller;
  }
  const Principal& known = **caller;
  if (Has(known.rights, method.need)) return caller;
  const absl::Status denied = Error(reason::kPermissionDenied,
                                    absl::StrCat(known.name, " may not call ", method.short_name(),
                                                 ": that needs the role ", RoleOf(method.need)))
                                  .With("principal", known.name)
                                  .With("role", RoleOf(method.need))
                                  .With("method", method.name);
  Note(method, &known, peer, request, denied);
  return denied;
}

void Access::Note(const Method& method, const Principal* caller, const rpc::Peer* peer,
                  const Message* request, const absl::Status& status, uint64_t launches,
                  uint64_t refused) {
  if (audit_ == nullptr) return;
  const bool refused_identity = status.code() == absl::StatusCode::kUnauthenticated ||
                                status.code() == absl::StatusCode::kPermissionDenied;
  if (!method.mutates && !refused_identity) return;
  AuditEntry entry;
  entry.time = clock_.WallTime();
  if (caller != nullptr) entry.principal = caller->name;
  if (peer != nullptr) {
    entry.pid = peer->pid;
    entry.address = peer->address;
  }
  entry.method = method.name;
  if (request != nullptr) entry.names = NamesIn(*request);
  entry.code = CodeName(status.code());
  entry.reason = ReasonOf(status);
  entry.launches = launches;
  entry.refused = refused;
  audit_->Add(std::move(entry));
}

absl::Status Access::Reload() {
  if (audit_ != nullptr) audit_->Reopen();
  return identity_.Reload();
}

}  // namespace pto::daemon::auth
