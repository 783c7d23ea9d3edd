#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "grpcpp/channel.h"

namespace pto::testing {

// Another user of this machine, for the daemon: the kernel tells it who connected.

// Whether this process can become the user. It cannot without privileges, nor where the test's user
// namespace has only one user.
bool CanBecome(uid_t user);

// Runs `work` in a thread that is the user; other threads stay who they are. The group stays, so
// that sockets of the test's own group can be used.
void RunAs(uid_t user, const std::function<void()>& work);

// A connection of the user to the unix socket of a daemon, which does not reconnect. All
// directories above the socket must let the user in: see OpenTo.
std::shared_ptr<grpc::Channel> ChannelAs(uid_t user, const std::string& socket_path);

// Lets all users connect to the sockets in the directory.
void OpenTo(const std::string& directory);

}  // namespace pto::testing
