#include "daemon/auth/authenticator.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "daemon/auth/user_groups.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::auth {
namespace {

// More users than that are not kept: the table is for those who call often.
constexpr size_t kMaxUsers = 4096;
// How long a user who left a group keeps what the group may do.
constexpr int64_t kGroupsNs = 60'000'000'000;
// How often the file of tokens is looked at, at most.
constexpr int64_t kLookNs = 1'000'000'000;

constexpr absl::string_view kLoopback = "loopback";

// `127.0.0.1:7000`, `[::1]:7000`, with or without the kind of address before.
bool IsLoopback(absl::string_view address) {
  if (!absl::ConsumePrefix(&address, "ipv4:")) absl::ConsumePrefix(&address, "ipv6:");
  return absl::StartsWith(address, "127.") || absl::StartsWith(address, "[::1]:") ||
         absl::StartsWith(address, "[::ffff:127.") || absl::StartsWith(address, "%5B::1%5D:");
}

// What tells one version of a file from another.
std::string Fingerprint(const std::string& file) {
  struct stat info = {};
  if (file.empty() || stat(file.c_str(), &info) != 0) return "";
  return absl::StrCat(info.st_dev, " ", info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec,
                      " ", info.st_mtim.tv_nsec, " ", info.st_ctim.tv_sec, " ",
                      info.st_ctim.tv_nsec);
}

absl::Status NoIdentity(absl::string_view why) {
  return Error(reason::kUnauthenticated, absl::StrCat("this connection has no identity: ", why));
}

}  // namespace

Authenticator::Authenticator(Options options)
    : options_([&] {
        if (options.groups_of == nullptr) options.groups_of = GroupsOf;
        return std::move(options);
      }()),
      policy_(std::make_shared<const Policy>(options_.own_uid)),
      tokens_(std::make_shared<const TokenFile>()) {}

absl::Status Authenticator::Reload() {
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const Policy> policy,
                       Policy::Load(options_.policy_file, options_.own_uid));
  std::string seen = Fingerprint(options_.token_file);
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const TokenFile> tokens,
                       TokenFile::Load(options_.token_file));
  MutexLock lock(mutex_);
  policy_ = std::move(policy);
  tokens_ = std::move(tokens);
  tokens_seen_ = std::move(seen);
  users_.clear();
  return absl::OkStatus();
}

void Authenticator::LookAtTokens() {
  if (options_.token_file.empty()) return;
  const int64_t now = options_.clock->NowNanos();
  int64_t next = next_look_ns_.load(std::memory_order_relaxed);
  if (now < next || !next_look_ns_.compare_exchange_strong(next, now + kLookNs)) return;
  std::string seen = Fingerprint(options_.token_file);
  {
    MutexLock lock(mutex_);
    if (seen == tokens_seen_) return;
    // Also if it cannot be read: one line in the log for each version is enough.
    tokens_seen_ = seen;
  }
  absl::StatusOr<std::shared_ptr<const TokenFile>> tokens = TokenFile::Load(options_.token_file);
  if (!tokens.ok()) {
    PTO_LOG(kError, "the file of tokens has changed and cannot be read: the former tokens stay",
            {{"error", tokens.status().message()}});
    return;
  }
  PTO_LOG(kInfo, "the file of tokens was read again", {{"file", options_.token_file}});
  MutexLock lock(mutex_);
  tokens_ = *std::move(tokens);
}

Caller Authenticator::IdentifyUser(uint32_t uid, uint32_t gid) {
  const uint64_t key = uint64_t{uid} << 32 | gid;
  std::shared_ptr<const Policy> policy;
  {
    MutexLock lock(mutex_);
    const auto it = users_.find(key);
    if (it != users_.end() &&
        (it->second.until_ns == 0 || options_.clock->NowNanos() < it->second.until_ns)) {
      return it->second.caller;
    }
    policy = policy_;
  }
  // Without the lock: others do not wait for a directory service.
  User user;
  std::vector<uint32_t> groups;
  if (policy->has_groups()) {
    groups = options_.groups_of(uid, gid);
    user.until_ns = options_.clock->NowNanos() + kGroupsNs;
  }
  user.caller = std::make_shared<const Principal>(UidName(uid), policy->OfUser(uid, groups));
  Caller caller = user.caller;
  MutexLock lock(mutex_);
  // A newer policy may have come meanwhile; this one is then only for this call.
  if (policy != policy_) return caller;
  if (users_.size() >= kMaxUsers) users_.clear();
  users_[key] = std::move(user);
  return caller;
}

absl::StatusOr<Caller> Authenticator::IdentifyToken(const rpc::Peer& peer, Metadata metadata) {
  const absl::optional<std::string> header = metadata("authorization");
  if (!header.has_value()) {
    const bool tls = peer.transport == rpc::Peer::Transport::kTls;
    return NoIdentity(tls ? "it has neither a client certificate nor a token"
                          : "it is over TCP, without a token");
  }
  absl::string_view token = *header;
  if (!absl::ConsumePrefix(&token, "Bearer ") && !absl::ConsumePrefix(&token, "bearer ")) {
    return NoIdentity("`authorization` is not of the form `Bearer TOKEN`");
  }
  LookAtTokens();
  std::shared_ptr<const Policy> policy;
  std::shared_ptr<const TokenFile> tokens;
  {
    MutexLock lock(mutex_);
    policy = policy_;
    tokens = tokens_;
  }
  PTO_ASSIGN_OR_RETURN(const TokenFile::Token found,
                       tokens->Check(token, options_.clock->WallTime()));
  const std::string name = absl::StrCat("token-", found.name);
  return std::make_shared<const Principal>(name, policy->OfOther(name, found.roles));
}

absl::StatusOr<Caller> Authenticator::Identify(const rpc::Peer* peer, Metadata metadata) {
  if (peer == nullptr) return NoIdentity("the daemon does not know where it comes from");
  using Transport = rpc::Peer::Transport;
  switch (peer->transport) {
    case Transport::kUnix:
      return IdentifyUser(peer->uid, peer->gid);
    case Transport::kTls:
      if (!peer->certificate.empty()) {
        // A token does not help: somebody who had both would hardly send this certificate.
        if (!peer->certificate_fault.empty()) {
          return NoIdentity(
              absl::StrCat("its client certificate is not valid: ", peer->certificate_fault));
        }
        const std::string name = absl::StrCat("cert-", peer->certificate);
        if (!names::CheckId(name, "certificate").ok()) {
          return NoIdentity(absl::StrCat("the name in its certificate, ",
                                         names::Quoted(peer->certificate),
                                         ", is not 1 to 58 of a-z 0-9 -"));
        }
        std::shared_ptr<const Policy> policy;
        {
          MutexLock lock(mutex_);
          policy = policy_;
        }
        return std::make_shared<const Principal>(name, policy->OfOther(name, {}));
      }
      return IdentifyToken(*peer, metadata);
    case Transport::kTcp:
      if (options_.trust_loopback && IsLoopback(peer->address) &&
          !metadata("authorization").has_value()) {
        std::shared_ptr<const Policy> policy;
        {
          MutexLock lock(mutex_);
          policy = policy_;
        }
        const std::string name(kLoopback);
        return std::make_shared<const Principal>(name, policy->OfOther(name, {}));
      }
      return IdentifyToken(*peer, metadata);
    case Transport::kUnknown:
      break;
  }
  return NoIdentity("the daemon does not know where it comes from");
}

}  // namespace pto::daemon::auth
