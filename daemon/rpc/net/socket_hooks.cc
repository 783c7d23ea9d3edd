// gRPC reads, writes and closes sockets by these functions of the C library. Defined here, they are
// found before the library's: in a program that links gRPC statically because they are linked
// first, otherwise because the program comes first in the order of symbol lookup. They do what the
// library's do, and show the bytes of connections in the ConnectionTable to their guards.
//
// A guard sees bytes before gRPC does, and can end a connection before gRPC works on them. gRPC has
// no other place for that: its limits apply to whole messages, and neither an endpoint nor a
// transport of our own can be given to it.

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "daemon/rpc/net/connection.h"

using pto::daemon::rpc::Connection;
using pto::daemon::rpc::ConnectionTable;

#define PTO_EXPORTED __attribute__((visibility("default")))

extern "C" {

PTO_EXPORTED ssize_t recvmsg(int file, msghdr* message, int flags) {
  const ssize_t size = syscall(SYS_recvmsg, file, message, flags);
  if (size <= 0 || (flags & (MSG_ERRQUEUE | MSG_PEEK)) != 0) return size;
  Connection* const connection = ConnectionTable::Find(file);
  if (connection == nullptr || connection->Received(*message, static_cast<size_t>(size))) {
    return size;
  }
  errno = ECONNRESET;
  return -1;
}

PTO_EXPORTED ssize_t sendmsg(int file, const msghdr* message, int flags) {
  const ssize_t size = syscall(SYS_sendmsg, file, message, flags);
  if (size <= 0) return size;
  Connection* const connection = ConnectionTable::Find(file);
  if (connection == nullptr || connection->Sent(*message, static_cast<size_t>(size))) return size;
  errno = EPIPE;
  return -1;
}

PTO_EXPORTED int close(int file) {
  // Before the number can be used again.
  if (const std::shared_ptr<Connection> connection = ConnectionTable::Take(file)) {
    connection->Closing();
  }
  return static_cast<int>(syscall(SYS_close, file));
}

}  // extern "C"
