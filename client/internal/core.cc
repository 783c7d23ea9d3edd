#include "client/internal/core.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/internal/default_address.h"
#include "client/internal/duration_proto.h"
#include "client/internal/token.h"
#include "client/run_state.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::internal {
namespace {

// The maximum time for finding out what an error means.
constexpr absl::Duration kProbeTimeout = absl::Seconds(1);
// A wait consists of calls of this length, so that a hanging daemon is noticed.
constexpr absl::Duration kWaitSlice = absl::Seconds(10);
constexpr absl::Duration kWaitGrace = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::shared_ptr<Core>> Core::Connect(absl::string_view address,
                                                    const ClientOptions& options) {
  const std::string resolved = ResolveAddress(address);
  PTO_RETURN_IF_ERROR(CheckAddress(resolved));
  PTO_ASSIGN_OR_RETURN(ChannelSecurity security,
                       MakeChannelSecurity(resolved, ResolveTls(options.tls)));
  PTO_ASSIGN_OR_RETURN(security.token, FindToken(resolved, options.token_file, security.encrypted));
  auto core = std::make_shared<Core>(resolved, options, security);
  PTO_ASSIGN_OR_RETURN(core->node_, core->GetNode(Deadline::After(options.connect_timeout)));
  return core;
}

Core::Core(std::string address, const ClientOptions& options, const ChannelSecurity& security)
    : address_(std::move(address)),
      options_(options),
      transport_(address_, options.connect_timeout, security),
      renewer_([this](SessionState& session, absl::Duration timeout,
                      const std::atomic<bool>& stop) { return Renew(session, timeout, stop); }) {}

Deadline Core::DeadlineOf(absl::Duration timeout, absl::Duration extra) const {
  return Deadline::After(timeout == kDefaultTimeout ? options_.timeout + extra : timeout);
}

std::string Core::BrokerSocket() const {
  // A path on another machine is useless here.
  if (options_.broker == ClientOptions::Broker::kOff || !absl::StartsWith(address_, "unix:")) {
    return "";
  }
  const char* const from_env = std::getenv("PTOD_BROKER");
  if (from_env != nullptr && absl::string_view(from_env) == "off") return "";
  return node_.broker_socket();
}

absl::StatusOr<v1::Node> Core::GetNode(const Deadline& deadline, const std::atomic<bool>* stop) {
  return Call("GetNode", transport_.node, &v1::NodeService::Stub::PrepareAsyncGetNode, {}, deadline,
              Retry::kOnce, stop);
}

absl::StatusOr<v1::Session> Core::Renew(SessionState& session, absl::Duration timeout,
                                        const std::atomic<bool>& stop) {
  v1::RenewSessionRequest request;
  request.set_name(session.name());
  absl::StatusOr<v1::Session> renewed =
      Call("RenewSession", transport_.session, &v1::SessionService::Stub::PrepareAsyncRenewSession,
           request, Deadline::After(timeout), Retry::kOnce, &stop);
  if (renewed.ok() || stop.load()) return renewed;
  return Examine(session, renewed.status(), Deadline::After(kProbeTimeout), &stop);
}

absl::Status Core::Examine(SessionState& session, const absl::Status& error,
                           const Deadline& deadline, const std::atomic<bool>* stop) {
  const std::string reason = ReasonOf(error);
  if (reason == reason::kBootIdChanged.name) {
    session.Lose(error);
    return session.status();
  }
  const bool session_gone =
      reason == reason::kSessionUnknown.name || reason == reason::kSessionEnded.name;
  if (!session_gone && reason != reason::kDaemonUnreachable.name) return error;

  const Deadline probe = deadline.AtMost(kProbeTimeout);
  const absl::StatusOr<v1::Node> node = GetNode(probe, stop);
  if (!node.ok()) return error;
  if (node->boot_id() != session.boot_id()) {
    session.Lose(
        Error(reason::kBootIdChanged, absl::StrCat("the daemon at ", address_, " was restarted; ",
                                                   session.name(), " and what it owned are gone"))
            .With("session", session.name())
            .With("had", session.boot_id())
            .With("boot_id", node->boot_id()));
    return session.status();
  }
  if (session_gone) {
    // The error may refer to another session named in the request.
    v1::GetSessionRequest request;
    request.set_name(session.name());
    const absl::StatusOr<v1::Session> found =
        Call("GetSession", transport_.session, &v1::SessionService::Stub::PrepareAsyncGetSession,
             request, probe, Retry::kOnce, stop);
    if (absl::IsNotFound(found.status())) {
      session.Lose(found.status());
      return session.status();
    }
  }
  return error;
}

absl::StatusOr<v1::Run> Core::WaitRun(SessionState* session, const std::string& name,
                                      const Deadline& deadline) {
  v1::WaitRunRequest request;
  request.set_name(name);
  while (true) {
    // Not zero, which means the daemon's default.
    const absl::Duration slice =
        std::clamp(deadline.Remaining(), absl::Milliseconds(1), kWaitSlice);
    ToProto(slice, *request.mutable_timeout());
    const Deadline call = deadline.AtMost(slice + kWaitGrace);
    const auto method = &v1::RunService::Stub::PrepareAsyncWaitRun;
    absl::StatusOr<v1::Run> run =
        session == nullptr ? Call("WaitRun", transport_.run, method, request, call, Retry::kOnce)
                           : CallOnRun(*session, "WaitRun", method, request, call);
    if (run.ok() && IsFinal(run->state())) return run;
    const bool in_time = !deadline.Passed();
    if (run.ok() && in_time) continue;
    if (!run.ok() && (in_time || ReasonOf(run.status()) != reason::kClientTimeout.name)) {
      return run.status();
    }
    return Error(reason::kClientTimeout,
                 absl::StrCat(name, " has not ended within ",
                              absl::FormatDuration(deadline.timeout()), "; it goes on"))
        .With("run", name)
        .With("timeout", absl::FormatDuration(deadline.timeout()))
        .Hint("wait longer, or cancel the run");
  }
}

}  // namespace pto::internal
