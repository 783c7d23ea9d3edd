#include "runtime/host/lifeline.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace pto::host {
namespace {

LifelineResult Failed() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS
             ? LifelineResult::kLater
             : LifelineResult::kGone;
}

}  // namespace

LifelineResult SendMessage(int socket, absl::Span<const std::byte> message, int descriptor) {
  iovec part = {const_cast<std::byte*>(message.data()), message.size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? Failed() : LifelineResult::kDone;
}

LifelineResult ReceiveMessage(int socket, size_t max_bytes, bool wait,
                              std::vector<std::byte>* message, FileDescriptor* descriptor) {
  // One more, so that a message that is too long has another size.
  message->resize(max_bytes + 1);
  iovec part = {message->data(), message->size()};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  // Room for a few: what is not taken is closed by the kernel.
  constexpr size_t kMostDescriptors = 4;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t received = 0;
  do {
    received = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (received < 0 && errno == EINTR);
  if (received < 0) return Failed();
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr;
       rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(rights) + i * sizeof(int), sizeof(int));
      FileDescriptor owned(number);
      if (!descriptor->valid()) *descriptor = std::move(owned);
    }
  }
  if (received == 0) return LifelineResult::kGone;
  message->resize(static_cast<size_t>(received));
  return LifelineResult::kDone;
}

}  // namespace pto::host
