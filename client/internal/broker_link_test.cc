#include "client/internal/broker_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "client/internal/buffer_share.h"
#include "gtest/gtest.h"
#include "proto/broker/message.h"
#include "runtime/base/file_descriptor.h"
#include "tests/harness/directory.h"

namespace pto::internal {
namespace {

using broker::Op;
using broker::Outcome;
using broker::Reply;
using broker::Request;

constexpr uint64_t kBytes = 1 << 20;

FileDescriptor Memory(uint64_t bytes, bool sealed = true) {
  FileDescriptor memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(memory.get(), static_cast<off_t>(bytes)), 0);
  if (sealed) {
    EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  }
  return memory;
}

// The reply to a request. `size` is how much of it is sent; 0 closes the connection.
struct Answer {
  Reply reply = {};
  int descriptor = -1;
  size_t size = broker::kReplyBytes;
};

// A broker with scripted answers, for one client after the other.
class FakeBroker {
 public:
  explicit FakeBroker(std::function<Answer(const Request&)> answer)
      : answer_(std::move(answer)),
        path_(directory_.path() + "/mem"),
        listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeBroker() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  const std::string& path() const { return path_; }
  int connections() const { return connections_; }
  int releases() const { return releases_; }

 private:
  void Serve() {
    while (true) {
      const FileDescriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client.valid()) return;
      ++connections_;
      char bytes[256];
      for (ssize_t size = 0; (size = recv(client.get(), bytes, sizeof(bytes), 0)) > 0;) {
        const Request request =
            broker::ParseRequest(absl::MakeSpan(bytes, static_cast<size_t>(size))).value();
        if (request.op == Op::kRelease) ++releases_;
        const Answer answer = answer_(request);
        if (answer.size == 0 || !Send(client.get(), answer)) break;
      }
    }
  }

  static bool Send(int socket, const Answer& answer) {
    broker::ReplyBytes bytes = broker::Encode(answer.reply);
    iovec part = {bytes.data(), answer.size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (answer.descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &answer.descriptor, sizeof(int));
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) > 0;
  }

  const std::function<Answer(const Request&)> answer_;
  const testing::Directory directory_;
  const std::string path_;
  const FileDescriptor listener_;
  std::atomic<int> connections_{0};
  std::atomic<int> releases_{0};
  std::thread thread_;
};

// Answers like a correct broker with one buffer.
Answer Good(const Request& request, int memory) {
  Answer answer;
  answer.reply.op = request.op;
  answer.reply.number = request.number;
  if (request.op == Op::kMap) {
    answer.reply.region = 5;
    answer.reply.bytes = kBytes;
    answer.descriptor = memory;
  }
  return answer;
}

std::shared_ptr<BrokerLink> LinkTo(const FakeBroker& broker) {
  return std::make_shared<BrokerLink>(broker.path(), "s", BrokerLink::RandomKey());
}

Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

TEST(BrokerLinkTest, MapsChecksAndReleases) {
  const FileDescriptor memory = Memory(kBytes);
  const FakeBroker broker([&](const Request& request) { return Good(request, memory.get()); });
  const std::shared_ptr<BrokerLink> link = LinkTo(broker);
  MapRefusal why = MapRefusal::kNever;
  std::shared_ptr<Mapping> mapping = link->Map("b", kBytes, Soon(), &why);
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(mapping->bytes().size(), kBytes);
  mapping->bytes()[3] = std::byte{7};
  char byte = 0;
  EXPECT_EQ(pread(memory.get(), &byte, 1, 3), 1);
  EXPECT_EQ(byte, 7);
  EXPECT_TRUE(link->Check(mapping->region(), Soon()));
  EXPECT_EQ(broker.releases(), 0);
  mapping.reset();
  EXPECT_EQ(broker.releases(), 1);
  EXPECT_EQ(broker.connections(), 1);
}

TEST(BrokerLinkTest, NothingIsDoneWithoutABroker) {
  const auto link = std::make_shared<BrokerLink>("/nonexistent/mem", "s", BrokerLink::RandomKey());
  MapRefusal why = MapRefusal::kNever;
  EXPECT_EQ(link->Map("b", kBytes, Soon(), &why), nullptr);
  EXPECT_FALSE(link->Check({1, 0}, Soon()));
}

// Whatever a broker does wrong, nothing is mapped, and no descriptor leaks.
TEST(BrokerLinkTest, WhatIsWrongIsNotMapped) {
  const FileDescriptor good = Memory(kBytes);
  const FileDescriptor small = Memory(4096);
  const FileDescriptor loose = Memory(kBytes, /*sealed=*/false);
  const FileDescriptor directory(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::vector<std::pair<const char*, std::function<Answer(Answer)>>> kWrongs = {
      {"no descriptor", [](Answer a) { return a.descriptor = -1, a; }},
      {"too small", [&](Answer a) { return a.descriptor = small.get(), a; }},
      {"could be truncated", [&](Answer a) { return a.descriptor = loose.get(), a; }},
      {"no memory", [&](Answer a) { return a.descriptor = directory.get(), a; }},
      {"another size", [](Answer a) { return a.reply.bytes = 2 * kBytes, a; }},
      {"another question", [](Answer a) { return ++a.reply.number, a; }},
      {"another kind", [](Answer a) { return a.reply.op = Op::kCheck, a; }},
      {"half a message", [](Answer a) { return a.size = 20, a; }},
      {"refused, with memory", [](Answer a) { return a.reply.outcome = Outcome::kLimit, a; }},
      {"hangs up", [](Answer a) { return a.size = 0, a; }},
  };
  const int unused = dup(good.get());
  close(unused);
  for (const auto& [what, wrong] : kWrongs) {
    const auto answer = [&, &wrong = wrong](const Request& request) {
      const Answer right = Good(request, good.get());
      return request.op == Op::kMap ? wrong(right) : right;
    };
    {
      const FakeBroker broker(answer);
      const std::shared_ptr<BrokerLink> link = LinkTo(broker);
      MapRefusal why = MapRefusal::kNever;
      EXPECT_EQ(link->Map("b", kBytes, Soon(), &why), nullptr) << what;
    }
    const int next = dup(good.get());
    EXPECT_EQ(next, unused) << what << " leaves a descriptor";
    close(next);
  }
}

TEST(BrokerLinkTest, WhoIsDeniedDoesNotAskAgain) {
  const FakeBroker broker([](const Request& request) {
    Answer answer = Good(request, -1);
    answer.reply.outcome = Outcome::kDenied;
    answer.reply.region = answer.reply.bytes = 0;
    return answer;
  });
  const std::shared_ptr<BrokerLink> link = LinkTo(broker);
  MapRefusal why = MapRefusal::kNever;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(link->Map("b", kBytes, Soon(), &why), nullptr);
  EXPECT_EQ(broker.connections(), 1);
}

TEST(BrokerLinkTest, WhoFindsNoPlaceAsksAgainLater) {
  const FileDescriptor memory = Memory(kBytes);
  std::atomic<bool> room{false};
  const FakeBroker broker([&](const Request& request) {
    Answer answer = Good(request, memory.get());
    if (!room) answer.reply.outcome = Outcome::kLimit;
    return answer;
  });
  const std::shared_ptr<BrokerLink> link = LinkTo(broker);
  MapRefusal why = MapRefusal::kNever;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(link->Map("b", kBytes, Soon(), &why), nullptr);
    EXPECT_EQ(why, MapRefusal::kLater);
  }
  EXPECT_EQ(broker.connections(), 1);
  room = true;
  const Deadline late = Deadline::After(absl::Seconds(20));
  std::shared_ptr<Mapping> mapping;
  while (mapping == nullptr && !late.Passed()) {
    mapping = link->Map("b", kBytes, late, &why);
    std::this_thread::yield();
  }
  EXPECT_NE(mapping, nullptr);
  EXPECT_EQ(broker.connections(), 2);
}

TEST(BrokerLinkTest, ASilentBrokerTakesNoLongerThanTheDeadline) {
  std::atomic<bool> stop{false};
  const FakeBroker broker([&](const Request&) {
    while (!stop) std::this_thread::yield();
    return Answer{.size = 0};
  });
  const std::shared_ptr<BrokerLink> link = LinkTo(broker);
  MapRefusal why = MapRefusal::kNever;
  const Deadline late = Deadline::After(absl::Seconds(20));
  EXPECT_EQ(link->Map("b", kBytes, Deadline::After(absl::Milliseconds(100)), &why), nullptr);
  EXPECT_EQ(why, MapRefusal::kLater);
  EXPECT_FALSE(late.Passed());
  // Not again so soon.
  EXPECT_EQ(link->Map("b", kBytes, Deadline::Never(), &why), nullptr);
  EXPECT_EQ(broker.connections(), 1);
  stop = true;
}

TEST(BufferShareTest, CopiesOnlyWhatIsTheClients) {
  const FileDescriptor memory = Memory(kBytes);
  std::atomic<int> free_checks{1'000'000};
  const FakeBroker broker([&](const Request& request) {
    Answer answer = Good(request, memory.get());
    if (request.op == Op::kCheck && free_checks-- <= 0) {
      answer.reply.outcome = Outcome::kBufferInUse;
    }
    return answer;
  });
  BufferShare share(LinkTo(broker), "b", kBytes);
  const std::vector<std::byte> ones(kBytes, std::byte{1});
  std::vector<std::byte> read(kBytes);
  // Too small to be worthwhile.
  EXPECT_FALSE(share.Write(std::span(ones).first(BufferShare::kLeastBytes - 1), 0, Soon()));
  EXPECT_EQ(broker.connections(), 0);
  EXPECT_TRUE(share.Write(ones, 0, Soon()));
  EXPECT_TRUE(share.Read(read, 0, Soon()));
  EXPECT_EQ(read, ones);
  // A run starts between the two requests.
  free_checks = 1;
  EXPECT_FALSE(share.Read(read, 0, Soon()));
  // And before them: nothing is touched.
  const std::vector<std::byte> twos(kBytes, std::byte{2});
  free_checks = 0;
  EXPECT_FALSE(share.Write(twos, 0, Soon()));
  char byte = 0;
  EXPECT_EQ(pread(memory.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 1);
  share.Drop();
  EXPECT_EQ(broker.releases(), 1);
  MapRefusal why = MapRefusal::kLater;
  EXPECT_EQ(share.Map(Soon(), &why), nullptr);
  EXPECT_EQ(why, MapRefusal::kNever);
}

TEST(BufferShareTest, WithoutRoomOnlyWhoMapsAsksAgain) {
  const FileDescriptor memory = Memory(kBytes);
  std::atomic<bool> full{true};
  std::atomic<int> asked{0};
  const FakeBroker broker([&](const Request& request) {
    if (request.op != Op::kMap) return Good(request, memory.get());
    ++asked;
    if (!full) return Good(request, memory.get());
    Answer answer;
    answer.reply.op = request.op;
    answer.reply.number = request.number;
    answer.reply.outcome = Outcome::kLimit;
    return answer;
  });
  BufferShare share(LinkTo(broker), "b", kBytes);
  const std::vector<std::byte> ones(kBytes, std::byte{1});
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(share.Write(ones, 0, Soon()));
  EXPECT_EQ(asked, 1);
  MapRefusal why = MapRefusal::kNever;
  EXPECT_EQ(share.Map(Soon(), &why), nullptr);
  EXPECT_EQ(why, MapRefusal::kLimit);
  full = false;
  EXPECT_NE(share.Map(Soon(), &why), nullptr);
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(share.Write(ones, 0, Soon()));
}

}  // namespace
}  // namespace pto::internal
