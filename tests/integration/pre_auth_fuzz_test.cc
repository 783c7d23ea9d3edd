// Bytes from people whom the daemon does not know: to each kind of socket, from a seed. Afterwards
// it serves as before, with no more memory and no more files, and meanwhile it serves others.
//
// Some seconds of each; PTOD_FUZZ_SECONDS=600 makes it ten minutes (deploy/fuzz.sh pre_auth).

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/rpc/net/testing_frames.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/certificates.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/directory.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/bad_request_world.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using daemon::rpc::Frame;
using daemon::rpc::testing::BigEndian;
using daemon::rpc::testing::CallHeaders;
using daemon::rpc::testing::Header;
using daemon::rpc::testing::Hello;
using daemon::rpc::testing::MakeFrame;
using daemon::rpc::testing::MessagePrefix;

constexpr absl::Duration kLongest = absl::Seconds(15);
constexpr uint64_t kMayGrow = uint64_t{kAddressSanitizer ? 600 : 200} << 20;
constexpr absl::Duration kBehind = absl::Milliseconds(300);
constexpr int kThreads = 3;

absl::Duration FuzzTime() {
  int seconds = 5;
  if (const char* text = std::getenv("PTOD_FUZZ_SECONDS")) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &seconds));
  }
  return absl::Seconds(seconds);
}

// Makes what a connection sends. For one thread.
class ByteMaker {
 public:
  explicit ByteMaker(uint32_t seed) : random_(seed) {
    for (const google::protobuf::MethodDescriptor* method : AllMethods()) {
      paths_.push_back(PathOf(method));
    }
    paths_.emplace_back("/grpc.health.v1.Health/Check");
    paths_.emplace_back("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
    paths_.emplace_back("/");
  }

  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  bool OneOf(uint32_t count) { return Below(count) == 0; }
  std::string Bytes(size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  std::string Http2() {
    if (OneOf(12)) return Bytes(Below(2000));
    if (OneOf(12)) return "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\n\r\n";
    std::string bytes = Hello();
    for (uint32_t i = Below(12); i > 0; --i) {
      absl::StrAppend(&bytes, OneOf(2) ? Call() : AnyFrame());
    }
    return OneOf(3) ? Mutated(std::move(bytes)) : bytes;
  }

  // The bytes of another protocol, with a few of them changed.
  std::string Mutated(std::string bytes) {
    for (uint32_t i = Below(8); i > 0 && !bytes.empty(); --i) {
      const auto at = Below(static_cast<uint32_t>(bytes.size()));
      switch (Below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random_());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << Below(8));
          break;
        case 2:
          bytes.insert(at, Bytes(Below(20)));
          break;
        default:
          bytes.erase(at, Below(20));
      }
    }
    return bytes;
  }

 private:
  uint32_t Stream() {
    switch (Below(4)) {
      case 0:
        return 0;
      case 1:
        return static_cast<uint32_t>(random_());
      default:
        return next_stream_;
    }
  }

  std::string AnyFrame() {
    const auto type = static_cast<uint8_t>(OneOf(8) ? random_() : Below(11));
    const auto flags = static_cast<uint8_t>(OneOf(3) ? random_() : 0);
    if (type == Frame::kSettings && OneOf(2)) {
      std::string settings;
      for (uint32_t i = Below(10); i > 0; --i) {
        absl::StrAppend(&settings, BigEndian(Below(10), 2),
                        BigEndian(OneOf(2) ? 0xffffffff : static_cast<uint32_t>(random_()), 4));
      }
      return MakeFrame(type, 0, 0, settings);
    }
    if (type == Frame::kWindowUpdate && OneOf(2)) {
      return MakeFrame(type, 0, Stream(), BigEndian(OneOf(2) ? 0x7fffffff : 0, 4));
    }
    std::string frame = MakeFrame(type, flags, Stream(), Bytes(Below(OneOf(10) ? 20'000 : 60)));
    // A length that is not that of the payload.
    if (OneOf(10)) frame.replace(0, 3, BigEndian(static_cast<uint32_t>(random_()) & 0xffffff, 3));
    return frame;
  }

  std::string AnyHeader() {
    switch (Below(9)) {
      case 0:
        return Header("authorization", absl::StrCat("Bearer ", Bytes(Below(40))));
      case 1:
        return Header("authorization", "Bearer ci." + std::string(Below(9000), 'x'));
      case 2:
        return Header("grpc-timeout", OneOf(2) ? "99999999999H" : Bytes(3));
      case 3:
        return Header("grpc-encoding", OneOf(2) ? "gzip" : "nonsense");
      case 4:
        return Header("x-bin", Bytes(30));
      case 5:
        return Header(":path", "/second");
      case 6:
        return Header("", "");
      case 7:
        // Of the dynamic table, which is empty, or a change of its size.
        return Bytes(1 + Below(4));
      default:
        return Header(absl::StrCat("h", Below(100)), std::string(Below(200), 'y'));
    }
  }

  std::string Call() {
    next_stream_ += 2;
    std::string headers = CallHeaders(paths_[Below(static_cast<uint32_t>(paths_.size()))]);
    for (uint32_t i = Below(OneOf(20) ? 300 : 4); i > 0; --i) headers += AnyHeader();
    std::string call = MakeFrame(Frame::kHeaders, OneOf(10) ? 0 : Frame::kEndHeaders, next_stream_,
                                 headers.substr(0, 16'000));
    const std::string message = Bytes(Below(300));
    std::string data = MessagePrefix(OneOf(4) ? static_cast<uint32_t>(random_())
                                              : static_cast<uint32_t>(message.size()));
    if (OneOf(8)) data[0] = 1;  // compressed
    absl::StrAppend(&call, MakeFrame(Frame::kData, OneOf(2) ? Frame::kEndStream : 0, next_stream_,
                                     data + message));
    return call;
  }

  std::mt19937 random_;
  std::vector<std::string> paths_;
  uint32_t next_stream_ = uint32_t(-1);
};

int Connect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return fd;
}

int Connect(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return fd;
}

// Sends the bytes, perhaps in pieces, reads a little, and leaves without a word.
void Visit(int fd, const std::string& bytes, ByteMaker& maker) {
  size_t at = 0;
  while (at < bytes.size()) {
    const size_t size = maker.OneOf(3) ? 1 + maker.Below(50) : bytes.size();
    const ssize_t sent =
        send(fd, bytes.data() + at, std::min(size, bytes.size() - at), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;
    at += static_cast<size_t>(sent);
  }
  if (maker.OneOf(4)) shutdown(fd, SHUT_WR);
  if (maker.OneOf(3)) {
    char answer[4096];
    pollfd waits = {fd, POLLIN, 0};
    if (poll(&waits, 1, 20) > 0) recv(fd, answer, sizeof answer, MSG_DONTWAIT);
  }
  // A reset instead of an end.
  if (maker.OneOf(4)) {
    const linger reset = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  close(fd);
}

// A ClientHello, as OpenSSL writes it.
std::string ClientHello() {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL* const ssl = SSL_new(context);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl, kHttp2, sizeof kHttp2);
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(ssl);
  SSL_do_handshake(ssl);
  char bytes[4096];
  const int size = BIO_read(SSL_get_wbio(ssl), bytes, sizeof bytes);
  std::string hello(bytes, static_cast<size_t>(std::max(size, 0)));
  SSL_free(ssl);
  SSL_CTX_free(context);
  return hello;
}

class PreAuthFuzzTest : public ::testing::Test {
 protected:
  using Make = std::function<std::string(ByteMaker&)>;

  static void Fuzz(DaemonProcess& daemon, const std::function<int()>& dial, const Make& make) {
    const uint64_t before = daemon.ResidentBytes();
    const size_t files = daemon.OpenFiles();
    const uint32_t seed = ::testing::UnitTest::GetInstance()->random_seed() + 1;
    std::printf("seed %u\n", seed);
    std::atomic<uint64_t> visits{0};
    std::atomic<uint64_t> bytes{0};
    std::atomic<bool> over{false};
    // Of the call that waits for an answer now.
    std::atomic<int64_t> call_began{absl::ToUnixNanos(absl::Now())};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (uint32_t visit = 0; !over; ++visit) {
          // The test is about what is sent, not about how much: a machine with other work to do
          // gets behind. What really holds the daemon up still does so while nothing more comes.
          while (!over && absl::Now() - absl::FromUnixNanos(call_began) > kBehind) {
            absl::SleepFor(absl::Milliseconds(1));
          }
          ByteMaker maker(seed + visit * kThreads + i);
          const std::string sent = make(maker);
          Visit(dial(), sent, maker);
          ++visits;
          bytes += sent.size();
        }
      });
    }
    // Meanwhile somebody else is served.
    const absl::Time end = absl::Now() + FuzzTime();
    absl::Duration longest;
    Api other(daemon.address());
    while (absl::Now() < end) {
      const absl::Time begin = absl::Now();
      call_began = absl::ToUnixNanos(begin);
      EXPECT_THAT(Call(*other.node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest()), IsOk());
      const absl::Duration took = absl::Now() - begin;
      if (took > kLongest / 5) {
        // What the daemon has logged since tells more than the time.
        std::printf("a call took %s, from %s\n", absl::FormatDuration(took).c_str(),
                    absl::FormatTime(begin, absl::UTCTimeZone()).c_str());
        std::fflush(stdout);
      }
      longest = std::max(longest, took);
    }
    over = true;
    for (std::thread& thread : threads) thread.join();
    std::printf("%lu connections, %lu KiB; the longest call took %s\n",
                static_cast<unsigned long>(visits), static_cast<unsigned long>(bytes) >> 10,
                absl::FormatDuration(longest).c_str());
    EXPECT_LT(longest, kLongest);
    EXPECT_GT(visits, 50u);
    EXPECT_TRUE(Eventually([&] { return daemon.OpenFiles() <= files + 4; })) << daemon.OpenFiles();
    EXPECT_LT(daemon.ResidentBytes(), before + kMayGrow);
    DeleteSession(other, MakeSession(other));
    EXPECT_TRUE(daemon.running());
    // Nor does it fill a disk with what libraries say of such clients.
    int64_t lines = 0;
    const std::string log = daemon.Log();
    for (size_t at = 0; (at = log.find(" from=grpc", at)) != std::string::npos; ++at) ++lines;
    EXPECT_LT(lines, 200 + 6 * absl::ToInt64Seconds(FuzzTime() + absl::Seconds(20)));
  }

  const Directory files_;
};

TEST_F(PreAuthFuzzTest, UnixSocket) {
  DaemonProcess daemon({"--sim-chips=1"});
  Fuzz(
      daemon, [&] { return Connect(daemon.socket_path()); },
      [](ByteMaker& maker) { return maker.Http2(); });
}

// Each test has a network of its own.
TEST_F(PreAuthFuzzTest, TcpWithoutAToken) {
  WriteFile(files_.path() + "/tokens", "# none\n");
  DaemonProcess daemon(
      {"--sim-chips=1", "--listen=127.0.0.1:7002", "--access-tokens=" + files_.path() + "/tokens"});
  Fuzz(
      daemon, [] { return Connect(uint16_t{7002}); },
      [](ByteMaker& maker) { return maker.Http2(); });
}

TEST_F(PreAuthFuzzTest, TlsWithoutACertificate) {
  const TestCertificate authority = TestCertificate::Authority("authority");
  const TestCertificate node =
      TestCertificate::SignedBy(authority, {.name = "node", .host = "localhost"});
  DaemonProcess daemon({"--sim-chips=1", "--listen=127.0.0.1:7003",
                        "--tls-cert=" + node.CertificateFile(), "--tls-key=" + node.KeyFile(),
                        "--tls-client-ca=" + authority.CertificateFile(),
                        "--tls-require-client-cert=true"});
  const std::string hello = ClientHello();
  ASSERT_GT(hello.size(), 100u);
  Fuzz(
      daemon, [] { return Connect(uint16_t{7003}); },
      [&](ByteMaker& maker) {
        if (maker.OneOf(8)) return maker.Http2();
        return maker.Mutated(hello) + (maker.OneOf(2) ? maker.Bytes(maker.Below(300)) : "");
      });
}

TEST_F(PreAuthFuzzTest, BrokerAndMetrics) {
  const std::string metrics = files_.path() + "/metrics";
  DaemonProcess daemon({"--sim-chips=1", "--metrics-listen=unix:" + metrics});
  const std::string broker = GetNode(daemon.api()).broker_socket();
  std::atomic<uint32_t> turn{0};
  Fuzz(
      daemon, [&] { return Connect(turn++ % 2 == 0 ? broker : metrics); },
      [](ByteMaker& maker) {
        if (maker.OneOf(2)) return maker.Bytes(maker.Below(600));
        return maker.Mutated("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
      });
}

}  // namespace
}  // namespace pto::testing
