#include "daemon/auth/authenticator.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "daemon/auth/testing/token.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::auth {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;
using testing::TokenLine;
using Transport = rpc::Peer::Transport;

class AuthenticatorTest : public ::testing::Test {
 protected:
  AuthenticatorTest()
      : policy_(absl::StrCat(::testing::TempDir(), "/policy-", getpid())),
        tokens_(absl::StrCat(::testing::TempDir(), "/tokens-", getpid())) {
    Write(policy_, "");
    Write(tokens_, "");
  }
  ~AuthenticatorTest() override {
    std::filesystem::remove(policy_);
    std::filesystem::remove(tokens_);
  }

  static void Write(const std::string& path, const std::string& text) {
    // As editors do: so it is another file, however coarse the times of the file system are.
    std::ofstream(path + ".new") << text;
    std::filesystem::rename(path + ".new", path);
  }

  Authenticator::Options MakeOptions() {
    Authenticator::Options options;
    options.policy_file = policy_;
    options.token_file = tokens_;
    options.own_uid = 900;
    options.clock = &clock_;
    options.groups_of = [this](uint32_t, uint32_t gid) {
      ++lookups_;
      std::vector<uint32_t> groups = groups_;
      groups.push_back(gid);
      return groups;
    };
    return options;
  }

  static rpc::Peer Unix(uint32_t uid, uint32_t gid = 100) {
    rpc::Peer peer;
    peer.transport = Transport::kUnix;
    peer.uid = uid;
    peer.gid = gid;
    return peer;
  }
  static rpc::Peer Tcp(const std::string& address = "127.0.0.1:4000") {
    rpc::Peer peer;
    peer.transport = Transport::kTcp;
    peer.address = address;
    return peer;
  }

  // With this value of `authorization`; none if it is empty.
  static absl::StatusOr<Caller> Identify(Authenticator& authenticator, const rpc::Peer& peer,
                                         const std::string& authorization = "") {
    return authenticator.Identify(&peer, [&](absl::string_view key) -> absl::optional<std::string> {
      if (key != "authorization" || authorization.empty()) return absl::nullopt;
      return authorization;
    });
  }

  const std::string policy_;
  const std::string tokens_;
  ManualClock clock_;
  int lookups_ = 0;
  std::vector<uint32_t> groups_;
};

TEST_F(AuthenticatorTest, AUserIsWhoTheKernelSays) {
  Authenticator authenticator(MakeOptions());
  const Caller user = Identify(authenticator, Unix(1000)).value();
  EXPECT_EQ(user->name, "uid-1000");
  EXPECT_FALSE(user->sees_all());
  // Whatever the call says.
  EXPECT_EQ(Identify(authenticator, Unix(1000), "Bearer ci.secret").value(), user);
  EXPECT_TRUE(Identify(authenticator, Unix(0)).value()->rights.operates);
  EXPECT_TRUE(Identify(authenticator, Unix(900)).value()->rights.operates);
  EXPECT_EQ(lookups_, 0);
}

TEST_F(AuthenticatorTest, WithoutAnIdentityNobodyIsSomebody) {
  Authenticator authenticator(MakeOptions());
  EXPECT_THAT(Identify(authenticator, rpc::Peer()), HasReason(reason::kUnauthenticated));
  EXPECT_THAT(authenticator.Identify(
                  nullptr, [](absl::string_view) { return absl::optional<std::string>(); }),
              HasReason(reason::kUnauthenticated));
  const absl::Status tcp = Identify(authenticator, Tcp()).status();
  EXPECT_THAT(tcp, HasReason(reason::kUnauthenticated));
  EXPECT_EQ(tcp.message(), "this connection has no identity: it is over TCP, without a token");
  rpc::Peer tls;
  tls.transport = Transport::kTls;
  EXPECT_THAT(std::string(Identify(authenticator, tls).status().message()),
              HasSubstr("neither a client certificate nor a token"));
  EXPECT_THAT(std::string(Identify(authenticator, Tcp(), "Basic x").status().message()),
              HasSubstr("`Bearer TOKEN`"));
}

TEST_F(AuthenticatorTest, GroupsCountAndAreLookedUpOnceAMinute) {
  Write(policy_, "grants { to: 'group-44' roles: READER } grants { to: 'group-100' roles: USER }");
  groups_ = {44};
  Authenticator authenticator(MakeOptions());
  ASSERT_THAT(authenticator.Reload(), IsOk());
  EXPECT_TRUE(Identify(authenticator, Unix(1000)).value()->rights.reader);
  EXPECT_TRUE(Identify(authenticator, Unix(1000)).value()->rights.reader);
  EXPECT_EQ(lookups_, 1);
  groups_.clear();
  clock_.Advance(absl::Seconds(59));
  EXPECT_TRUE(Identify(authenticator, Unix(1000)).value()->rights.reader);
  clock_.Advance(absl::Seconds(2));
  EXPECT_FALSE(Identify(authenticator, Unix(1000)).value()->rights.reader);
  EXPECT_EQ(lookups_, 2);
}

TEST_F(AuthenticatorTest, AWrongPolicyLeavesTheFormerOneInPlace) {
  Write(policy_, "grants { to: 'uid-1000' roles: OPERATOR }");
  Authenticator authenticator(MakeOptions());
  ASSERT_THAT(authenticator.Reload(), IsOk());
  EXPECT_TRUE(Identify(authenticator, Unix(1000)).value()->rights.operates);
  Write(policy_, "grants { to: 'uid-1000' role: USER }");
  EXPECT_THAT(authenticator.Reload(), HasReason(reason::kConfigInvalid));
  EXPECT_TRUE(Identify(authenticator, Unix(1000)).value()->rights.operates);
  Write(policy_, "grants { to: 'uid-1000' roles: USER }");
  ASSERT_THAT(authenticator.Reload(), IsOk());
  EXPECT_FALSE(Identify(authenticator, Unix(1000)).value()->rights.operates);
}

TEST_F(AuthenticatorTest, ATokenIsAPrincipal) {
  Write(tokens_, TokenLine("ci", "secret", "never", "user,reader"));
  Write(policy_, "grants { to: 'token-ci' max_sessions: 3 }");
  Authenticator authenticator(MakeOptions());
  ASSERT_THAT(authenticator.Reload(), IsOk());
  const Caller ci = Identify(authenticator, Tcp(), "Bearer ci.secret").value();
  EXPECT_EQ(ci->name, "token-ci");
  EXPECT_TRUE(ci->rights.reader);
  EXPECT_EQ(ci->rights.max_sessions, 3u);
  EXPECT_THAT(Identify(authenticator, Tcp(), "Bearer ci.wrong"),
              HasReason(reason::kUnauthenticated));
}

// Within a second, without a signal.
TEST_F(AuthenticatorTest, ARevokedTokenIsNotKnownAnyMore) {
  Write(tokens_, TokenLine("ci", "secret"));
  Authenticator authenticator(MakeOptions());
  ASSERT_THAT(authenticator.Reload(), IsOk());
  ASSERT_THAT(Identify(authenticator, Tcp(), "Bearer ci.secret"), IsOk());
  Write(tokens_, TokenLine("cd", "secret"));
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(Identify(authenticator, Tcp(), "Bearer ci.secret"),
              HasReason(reason::kUnauthenticated));
  EXPECT_THAT(Identify(authenticator, Tcp(), "Bearer cd.secret"), IsOk());
  // A file that is wrong changes nothing.
  Write(tokens_, "nonsense");
  clock_.Advance(absl::Seconds(2));
  EXPECT_THAT(Identify(authenticator, Tcp(), "Bearer cd.secret"), IsOk());
}

TEST_F(AuthenticatorTest, LoopbackMayBeTrusted) {
  Write(tokens_, TokenLine("ci", "secret"));
  Authenticator::Options options = MakeOptions();
  options.trust_loopback = true;
  Authenticator authenticator(options);
  ASSERT_THAT(authenticator.Reload(), IsOk());
  for (const char* address : {"127.0.0.1:1", "[::1]:1", "ipv4:127.3.2.1:7", "ipv6:[::1]:7"}) {
    const auto caller = Identify(authenticator, Tcp(address));
    ASSERT_THAT(caller, IsOk()) << address;
    EXPECT_EQ((*caller)->name, "loopback");
    EXPECT_FALSE((*caller)->sees_all());
  }
  for (const char* address : {"10.0.0.1:1", "[::2]:1", "", "1.127.0.0:1"}) {
    EXPECT_THAT(Identify(authenticator, Tcp(address)), HasReason(reason::kUnauthenticated))
        << address;
  }
  // Who presents a token is who it says, or nobody.
  EXPECT_EQ(Identify(authenticator, Tcp(), "Bearer ci.secret").value()->name, "token-ci");
  EXPECT_THAT(Identify(authenticator, Tcp(), "Bearer ci.x"), HasReason(reason::kUnauthenticated));
}

TEST_F(AuthenticatorTest, ACertificateIsAPrincipal) {
  Authenticator authenticator(MakeOptions());
  rpc::Peer peer;
  peer.transport = Transport::kTls;
  peer.certificate = "alice";
  EXPECT_EQ(Identify(authenticator, peer).value()->name, "cert-alice");
  // Two names must not become one principal.
  for (const char* name : {"Alice", "a.b", "a b", "alice\n", ""}) {
    peer.certificate = name;
    EXPECT_THAT(Identify(authenticator, peer), HasReason(reason::kUnauthenticated)) << name;
  }
}

TEST_F(AuthenticatorTest, RemembersOnlySoManyUsers) {
  Authenticator authenticator(MakeOptions());
  for (uint32_t uid = 1; uid < 10'000; ++uid) {
    ASSERT_EQ(Identify(authenticator, Unix(uid)).value()->name, UidName(uid));
  }
}

}  // namespace
}  // namespace pto::daemon::auth
