#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace pto::testing {

// The body of what an HTTP server on a unix socket answers. Fails the test unless that is a 200.
inline std::string HttpGet(const std::string& socket_path, const std::string& path) {
  sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  std::memcpy(place.sun_path, socket_path.data(), socket_path.size());
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(send(connection, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char bytes[4096];
  for (ssize_t got = 0; (got = recv(connection, bytes, sizeof bytes, 0)) > 0;) {
    answer.append(bytes, static_cast<size_t>(got));
  }
  close(connection);
  EXPECT_EQ(answer.rfind("HTTP/1.1 200 OK", 0), 0u) << answer;
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

}  // namespace pto::testing
