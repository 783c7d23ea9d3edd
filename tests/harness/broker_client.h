#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "proto/broker/message.h"
#include "runtime/base/file_descriptor.h"

namespace pto::testing {

// A client of the memory broker that can violate the protocol. For one thread.
class BrokerClient {
 public:
  explicit BrokerClient(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0)
        << path << ": " << std::strerror(errno);
  }

  int socket() const { return socket_.get(); }

  bool Send(const void* bytes, size_t size) const {
    return send(socket_.get(), bytes, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }
  bool Send(const broker::Request& request) const {
    const broker::RequestBytes bytes = broker::Encode(request);
    return Send(bytes.data(), bytes.size());
  }
  // Sends a valid message with an unexpected descriptor.
  bool SendWithDescriptor(const broker::Request& request, int descriptor) const {
    broker::RequestBytes bytes = broker::Encode(request);
    iovec part = {bytes.data(), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
    return sendmsg(socket_.get(), &message, MSG_NOSIGNAL) > 0;
  }

  // The next reply, and its descriptor, if any; nullopt if the broker has closed the connection.
  absl::optional<broker::Reply> Receive(FileDescriptor* descriptor = nullptr) const {
    constexpr int kPatienceMs = 20'000;
    pollfd ready = {socket_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, kPatienceMs), 1) << "the broker says nothing";
    char bytes[256];
    iovec part = {bytes, sizeof(bytes)};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t size = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size <= 0) return absl::nullopt;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr) {
      EXPECT_EQ(header->cmsg_len, CMSG_LEN(sizeof(int)));
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header), sizeof(number));
      FileDescriptor taken(number);
      if (descriptor != nullptr) *descriptor = std::move(taken);
    }
    return broker::ParseReply(absl::MakeSpan(bytes, static_cast<size_t>(size))).value();
  }
  bool HungUp() const { return !Receive().has_value(); }

  broker::Outcome Ask(const broker::Request& request, FileDescriptor* descriptor = nullptr,
                      uint64_t* region = nullptr) const {
    EXPECT_TRUE(Send(request));
    const absl::optional<broker::Reply> reply = Receive(descriptor);
    if (!reply.has_value()) {
      ADD_FAILURE() << "the broker has hung up";
      return broker::Outcome::kDenied;
    }
    EXPECT_EQ(reply->op, request.op);
    EXPECT_EQ(reply->number, request.number);
    if (region != nullptr) *region = reply->region;
    return reply->outcome;
  }

  // The requests. A key is one repeated character.
  broker::Outcome Attach(const std::string& session, char key) const {
    return Ask(AttachRequest(session, key));
  }
  broker::Outcome Map(const std::string& buffer, FileDescriptor* descriptor = nullptr,
                      uint64_t* region = nullptr) const {
    return Ask(MapRequest(buffer), descriptor, region);
  }
  broker::Outcome Check(uint64_t region) const { return Ask(About(broker::Op::kCheck, region)); }
  broker::Outcome Release(uint64_t region) const {
    return Ask(About(broker::Op::kRelease, region));
  }

  static broker::Request AttachRequest(const std::string& session, char key) {
    broker::Request request;
    request.op = broker::Op::kAttach;
    request.number = 11;
    request.name = session;
    request.key.fill(key);
    return request;
  }
  static broker::Request MapRequest(const std::string& buffer) {
    broker::Request request;
    request.op = broker::Op::kMap;
    request.number = 12;
    request.name = buffer;
    return request;
  }
  static broker::Request About(broker::Op op, uint64_t region) {
    broker::Request request;
    request.op = op;
    request.region = region;
    return request;
  }

 private:
  FileDescriptor socket_;
};

}  // namespace pto::testing
