// Connections that do harm on purpose, or just do not answer, and a real daemon.

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/rpc/net/testing_frames.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"
#include "tests/integration/world.h"

namespace pto::testing {
namespace {

using daemon::rpc::Frame;
using daemon::rpc::testing::Hello;
using daemon::rpc::testing::MakeFrame;
using daemon::rpc::testing::MessagePrefix;
using daemon::rpc::testing::OpenCall;
using daemon::rpc::testing::RawClient;
using daemon::rpc::testing::ResetCall;

constexpr absl::Duration kLongest = kAddressSanitizer ? absl::Seconds(5) : absl::Seconds(1);
constexpr uint64_t kMayGrow = uint64_t{kAddressSanitizer ? 2048 : 700} << 20;

// A client that calls again and again; all its calls must succeed within a second.
class Witness {
 public:
  explicit Witness(const std::string& address)
      : api_(address), thread_([this] {
          while (!stop_) {
            const absl::Time start = absl::Now();
            EXPECT_THAT(Call(*api_.node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest()),
                        IsOk());
            longest_ = std::max(longest_, absl::Now() - start);
            ++calls_;
          }
        }) {
    while (calls_ == 0) std::this_thread::yield();
  }
  ~Witness() {
    stop_ = true;
    thread_.join();
    EXPECT_LT(longest_, kLongest);
  }

 private:
  Api api_;
  std::atomic<bool> stop_{false};
  std::atomic<int> calls_{0};
  absl::Duration longest_;
  std::thread thread_;
};

// Sends the beginnings of messages, as fast as the windows of HTTP/2 allow.
class Uploads {
 public:
  // `count` messages of `bytes` each, which never end.
  Uploads(const std::string& path, const char* method, uint32_t count, uint32_t bytes) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    std::string hello = Hello();
    for (uint32_t stream = 1; stream < 2 * count; stream += 2) {
      absl::StrAppend(&hello, OpenCall(stream, method),
                      MakeFrame(Frame::kData, 0, stream, MessagePrefix(bytes + 1)));
      streams_[stream] = {kInitial - 5, bytes};
      window_ -= 5;
    }
    open_ = Send(hello);
  }
  ~Uploads() { close(socket_); }

  // Sends what it may. Returns false once the server has ended the connection.
  bool Continue() {
    const std::string chunk(kChunk, 'x');
    open_ = open_ && Send(std::exchange(answers_, ""));
    for (auto& [stream, state] : streams_) {
      while (open_ && state.left > 0) {
        const int64_t size = std::min({window_, state.window, state.left, kChunk});
        if (size <= 0) break;
        open_ = Send(MakeFrame(Frame::kData, 0, stream,
                               absl::string_view(chunk).substr(0, static_cast<size_t>(size))));
        window_ -= size;
        state.window -= size;
        state.left -= size;
      }
    }
    if (open_) open_ = Read();
    return open_;
  }

 private:
  static constexpr int64_t kInitial = 65'535;
  static constexpr int64_t kChunk = 16'384;
  struct Stream {
    int64_t window;
    int64_t left;
  };

  bool Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno != EAGAIN || !Read()) {
        return false;
      }
    }
    return true;
  }

  // Waits a little for what the server says about windows.
  bool Read() {
    pollfd waits = {socket_, POLLIN, 0};
    poll(&waits, 1, 1);
    char bytes[65'536];
    const ssize_t size = recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (size <= 0) return size < 0 && errno == EAGAIN;
    unread_.append(bytes, static_cast<size_t>(size));
    absl::string_view rest = unread_;
    while (rest.size() >= 9) {
      const uint32_t length = Number(rest, 3);
      if (rest.size() < 9 + length) break;
      OnFrame(rest[3], rest[4], Number(rest.substr(5), 4), rest.substr(9, length));
      rest.remove_prefix(9 + length);
    }
    unread_ = std::string(rest);
    return true;
  }

  static uint32_t Number(absl::string_view bytes, size_t size) {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    return value;
  }

  void OnFrame(int type, int flags, uint32_t stream, absl::string_view payload) {
    if (type == Frame::kWindowUpdate) {
      (stream == 0 ? window_ : streams_[stream].window) += Number(payload, 4);
    } else if (type == Frame::kPing && flags == 0) {
      answers_ += MakeFrame(Frame::kPing, 1, 0, payload);
    } else if (type == Frame::kSettings && flags == 0) {
      answers_ += MakeFrame(Frame::kSettings, 1, 0);
      for (; payload.size() >= 6; payload.remove_prefix(6)) {
        constexpr uint32_t kInitialWindow = 4;
        if (Number(payload, 2) != kInitialWindow) continue;
        const int64_t value = Number(payload.substr(2), 4);
        for (auto& [id, state] : streams_) state.window += value - initial_;
        initial_ = value;
      }
    }
  }

  const int socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool open_ = true;
  int64_t window_ = kInitial;
  int64_t initial_ = kInitial;
  std::map<uint32_t, Stream> streams_;
  std::string unread_;
  std::string answers_;
};

TEST(HostileClientTest, MoreConnectionsThanTheDaemonHasFiles) {
  constexpr rlim_t kFiles = 150;
  DaemonProcess daemon;
  const size_t files = daemon.OpenFiles();
  const rlimit limit = {kFiles, kFiles};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &limit, nullptr), 0);
  for (int round = 0; round < 2; ++round) {
    // The connections of the first round must have gone, or the witness gets none.
    ASSERT_TRUE(Eventually([&] { return daemon.OpenFiles() <= files + 2; })) << daemon.OpenFiles();
    const Witness witness(daemon.address());
    std::vector<std::unique_ptr<RawClient>> clients;
    for (rlim_t i = 0; i < kFiles + 50; ++i) {
      clients.push_back(std::make_unique<RawClient>(daemon.socket_path()));
      EXPECT_TRUE(clients.back()->connected());
    }
    // The last one is refused, and is told so.
    EXPECT_TRUE(clients.back()->WaitForEnd());
    EXPECT_NE(clients.back()->received().find("no free file"), std::string::npos);
  }
  // They have gone, and everything is as before: also new connections.
  EXPECT_TRUE(Eventually([&] { return daemon.OpenFiles() <= files + 2; })) << daemon.OpenFiles();
  Api api(daemon.address());
  DeleteSession(api, MakeSession(api));
}

TEST(HostileClientTest, MoreConnectionsThanAllowed) {
  DaemonProcess daemon({"--sim-chips=2", "--max-connections=32"});
  const Witness witness(daemon.address());
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 64; ++i) {
    clients.push_back(std::make_unique<RawClient>(daemon.socket_path()));
    EXPECT_TRUE(clients.back()->connected());
  }
  EXPECT_TRUE(clients.back()->WaitForEnd());
  EXPECT_NE(clients.back()->received().find("are allowed"), std::string::npos);
  clients.clear();
  EXPECT_TRUE(Eventually([&] {
    RawClient one(daemon.socket_path());
    return one.Send(Hello()) && one.WaitForBytes() &&
           one.received().find("are allowed") == std::string::npos;
  }));
}

TEST(HostileClientTest, FloodsAreEndedAndOthersServed) {
  DaemonProcess daemon;
  const uint64_t before = daemon.ResidentBytes();
  {
    const Witness witness(daemon.address());
    constexpr char kPath[] = "/pto.v1.NodeService/GetNode";

    RawClient headers(daemon.socket_path());
    EXPECT_TRUE(headers.Send(absl::StrCat(Hello(), MakeFrame(Frame::kHeaders, 0, 1, "x"))));
    bool ended = false;
    const std::string more = MakeFrame(Frame::kContinuation, 0, 1, std::string(16'000, 'x'));
    for (int i = 0; i < 1024 && !ended; ++i) ended = !headers.Send(more);
    EXPECT_TRUE(ended);

    RawClient resets(daemon.socket_path());
    EXPECT_TRUE(resets.Send(Hello()));
    ended = false;
    for (uint32_t stream = 1; stream < 1'000'000 && !ended;) {
      std::string batch;
      for (int i = 0; i < 100; ++i, stream += 2) {
        absl::StrAppend(&batch, OpenCall(stream, kPath), ResetCall(stream));
      }
      ended = !resets.Send(batch);
    }
    EXPECT_TRUE(ended);
  }
  EXPECT_LT(daemon.ResidentBytes(), before + kMayGrow);
  const auto logged = [&daemon](const char* text) {
    return daemon.Log().find(text) != std::string::npos;
  };
  EXPECT_TRUE(Eventually([&] { return logged("why=headers"); }));
  // Or the watch over the poller is quicker, on a busy machine.
  EXPECT_TRUE(Eventually([&] { return logged("why=resets") || logged("why=stall"); }));
}

TEST(HostileClientTest, CompressedMessagesAreRefused) {
  DaemonProcess daemon;
  const Witness witness(daemon.address());
  const uint64_t before = daemon.ResidentBytes();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::GetChipRequest request;
  request.set_name(std::string(64 << 20, 'x'));
  v1::Chip response;
  const grpc::Status status = daemon.api().node->GetChip(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  EXPECT_LT(daemon.ResidentBytes(), before + (uint64_t{kAddressSanitizer ? 200 : 50} << 20));
}

TEST(HostileClientTest, MessagesThatDoNotEnd) {
  constexpr char kWrite[] = "/pto.v1.BufferService/WriteBuffer";
  constexpr uint32_t kBytes = 15 << 20;
  DaemonProcess daemon({"--sim-chips=2", "--unfinished-bytes=32M"});
  const uint64_t before = daemon.ResidentBytes();
  uint64_t most = 0;
  const Witness witness(daemon.address());
  // One connection with many messages goes first.
  Uploads many(daemon.socket_path(), kWrite, 200, kBytes);
  while (many.Continue()) most = std::max(most, daemon.ResidentBytes());
  // Several that have few each: the largest go, as long as there are too many bytes.
  std::vector<std::unique_ptr<Uploads>> few;
  for (int i = 0; i < 5; ++i) {
    few.push_back(std::make_unique<Uploads>(daemon.socket_path(), kWrite, 2, kBytes));
  }
  bool ended = false;
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!ended && absl::Now() < deadline) {
    for (const auto& uploads : few) ended = !uploads->Continue() || ended;
    most = std::max(most, daemon.ResidentBytes());
  }
  EXPECT_TRUE(ended);
  EXPECT_LT(most, before + kMayGrow);
  EXPECT_TRUE(Eventually([&] { return daemon.Log().find("why=unfinished") != std::string::npos; }));
}

TEST(HostileClientTest, ReadsThatNobodyReads) {
  constexpr int kReads = kAddressSanitizer ? 100 : 600;
  constexpr uint64_t kBytes = 8 << 20;
  DaemonProcess daemon;
  const std::string session = MakeSession(daemon.api());
  MakeBuffer(daemon.api(), session, "b", kBytes);
  v1::ReadBufferRequest request;
  request.set_name(session + "/buffers/b");
  struct Read {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::ReadBufferResponse>> stream;
  };
  const uint64_t before = daemon.ResidentBytes();
  Api hostile(daemon.address());
  std::vector<std::unique_ptr<Read>> reads;
  for (int i = 0; i < kReads; ++i) {
    reads.push_back(std::make_unique<Read>());
    reads.back()->stream = hostile.buffer->ReadBuffer(&reads.back()->context, request);
  }
  // Each has begun: its headers have come.
  for (const auto& read : reads) read->stream->WaitForInitialMetadata();
  EXPECT_LT(daemon.ResidentBytes(), before + kMayGrow);
  {
    const Witness witness(daemon.address());
    // Somebody else still gets a whole buffer, in smaller messages.
    Api other(daemon.address());
    Read honest;
    honest.context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
    honest.stream = other.buffer->ReadBuffer(&honest.context, request);
    uint64_t bytes = 0;
    v1::ReadBufferResponse response;
    while (honest.stream->Read(&response)) bytes += response.data().size();
    EXPECT_TRUE(honest.stream->Finish().ok());
    EXPECT_EQ(bytes, kBytes);
  }
  for (const auto& read : reads) read->context.TryCancel();
}

// A client that neither reads nor answers, as after SIGSTOP, but whose connection is open.
TEST(HostileClientTest, AFrozenClientDoesNotKeepItsChips) {
  DaemonProcess daemon({"--sim-chips=2", "--session-default-ttl=1s", "--session-max-ttl=1s",
                        "--keepalive-interval=1s", "--keepalive-timeout=1s"});
  const std::string session = MakeSession(daemon.api());
  v1::LeaseChipsRequest lease;
  lease.set_name(session);
  lease.set_count(1);
  ASSERT_THAT(Call(*daemon.api().session, &v1::SessionService::Stub::LeaseChips, lease), IsOk());
  v1::WatchEventsRequest request;
  request.set_parent(session);
  const std::string bytes = request.SerializeAsString();
  RawClient frozen(daemon.socket_path());
  ASSERT_TRUE(frozen.Send(absl::StrCat(
      Hello(), OpenCall(1, "/pto.v1.EventService/WatchEvents"),
      MakeFrame(Frame::kData, Frame::kEndStream, 1,
                absl::StrCat(MessagePrefix(static_cast<uint32_t>(bytes.size())), bytes)))));
  EXPECT_TRUE(frozen.WaitForEnd());
  EXPECT_TRUE(Eventually([&] {
    return GetChip(daemon.api(), 0).lease().empty() && GetChip(daemon.api(), 1).lease().empty();
  }));
}

// The daemon is stopped for longer than a lease: its clients could not renew it.
TEST(HostileClientTest, LeasesDoNotExpireWhileTheDaemonDoesNotServe) {
  DaemonProcess daemon({"--sim-chips=2", "--session-default-ttl=2s", "--session-max-ttl=2s"});
  const std::string session = MakeSession(daemon.api(), absl::Seconds(2));
  daemon.Pause();
  // Not for synchronisation: this is the time that the daemon must not count.
  absl::SleepFor(absl::Seconds(4));
  daemon.Resume();
  EXPECT_TRUE(SessionLives(daemon.api(), session));
  // But without a renewal it ends.
  EXPECT_TRUE(Eventually([&] { return GetNode(daemon.api()).session_count() == 0; }));
}

}  // namespace
}  // namespace pto::testing
