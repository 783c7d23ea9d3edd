#include "tests/bench/servers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/tls_files.h"

namespace pto::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);
constexpr absl::string_view kDaemonSocket = "/ptod.sock";
constexpr absl::string_view kBareSocket = "/bare.sock";

std::string Address(const TemporaryDirectory& directory, absl::string_view socket) {
  return absl::StrCat("unix:", directory.path(), socket);
}

// A port of this machine that nobody uses now.
absl::StatusOr<int> FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(fd);
  if (!found) return absl::UnavailableError("there is no free port");
  return ntohs(address.sin_port);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const std::string& tls_directory) {
  grpc::ChannelArguments args;
  // A separate connection for each channel.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  args.SetMaxReceiveMessageSize(-1);
  if (tls_directory.empty()) {
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
  }
  args.SetSslTargetNameOverride("localhost");
  return grpc::CreateCustomChannel(address, ClientCredentials(tls_directory), args);
}

// Waits until the server listens: retries while the socket does not exist.
absl::Status WaitUntilServed(const std::string& address, const std::string& tls_directory) {
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoSeconds(kStartTimeout);
  if (Connect(address, tls_directory)->WaitForConnected(deadline)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("nothing listens on ", address));
}

bool IsProgram(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

}  // namespace

std::string FindProgram(const std::string& self, absl::string_view program) {
  const std::string in_runfiles = absl::StrCat("/pto/", program);
  std::vector<std::string> places;
  if (const char* runfiles = std::getenv("RUNFILES_DIR"); runfiles != nullptr) {
    places.push_back(absl::StrCat(runfiles, in_runfiles));
  }
  places.push_back(absl::StrCat(self, ".runfiles", in_runfiles));
  places.push_back(absl::StrCat(self.substr(0, self.rfind('/')), "/../../", program));
  places.emplace_back(program);
  places.push_back(absl::StrCat("bazel-bin/", program));
  for (const std::string& place : places) {
    if (IsProgram(place)) return place;
  }
  return "";
}

absl::Status CallError(absl::string_view what, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(what, ": ", status.error_message()));
}

absl::StatusOr<std::string> RegisterOneTask(Session& session) {
  GraphBuilder graph;
  graph.Task("noop", 0, {});
  PTO_ASSIGN_OR_RETURN(const v1::Graph registered, session.Register("one-task", graph));
  return registered.name();
}

absl::StatusOr<std::unique_ptr<Servers>> Servers::Start(const std::string& ptod,
                                                        const std::string& self,
                                                        Transport transport) {
  PTO_ASSIGN_OR_RETURN(TemporaryDirectory directory, TemporaryDirectory::Make());
  Addresses addresses = {Address(directory, kDaemonSocket), Address(directory, kBareSocket), ""};
  std::vector<std::string> daemon_command = {ptod, "--sim-chips=1", "--log-level=warning",
                                             "--drain-grace=1s"};
  std::vector<std::string> bare_command = {self};
  if (transport == Transport::kTls) {
    addresses.tls_directory = directory.path();
    PTO_RETURN_IF_ERROR(MakeTlsFiles(directory.path()));
    for (std::string* address : {&addresses.daemon, &addresses.bare}) {
      PTO_ASSIGN_OR_RETURN(const int port, FreePort());
      *address = absl::StrCat("127.0.0.1:", port);
    }
    for (const std::string& flag : DaemonFlags(directory.path())) daemon_command.push_back(flag);
    bare_command.push_back(absl::StrCat(kBareTlsFlag, directory.path()));
  }
  daemon_command.push_back(absl::StrCat("--listen=", addresses.daemon));
  bare_command.push_back(absl::StrCat(kBareServerFlag, addresses.bare));
  PTO_ASSIGN_OR_RETURN(ChildProcess daemon, ChildProcess::Start(daemon_command));
  PTO_ASSIGN_OR_RETURN(ChildProcess bare, ChildProcess::Start(bare_command));
  PTO_RETURN_IF_ERROR(WaitUntilServed(addresses.daemon, addresses.tls_directory));
  PTO_RETURN_IF_ERROR(WaitUntilServed(addresses.bare, addresses.tls_directory));
  // Transfers are compared with gRPC's own; the broker is measured separately.
  ClientOptions options;
  options.broker = ClientOptions::Broker::kOff;
  if (transport == Transport::kTls) {
    options.tls = {.ca_file = AuthorityFile(directory.path()),
                   .cert_file = ClientCertificateFile(directory.path()),
                   .key_file = ClientKeyFile(directory.path()),
                   .server_name = "localhost"};
  }
  PTO_ASSIGN_OR_RETURN(Client client, Client::Connect(addresses.daemon, options));
  PTO_ASSIGN_OR_RETURN(Session session, client.CreateSession({.id = "bench"}));
  PTO_ASSIGN_OR_RETURN(std::string one_task_graph, RegisterOneTask(session));
  return std::unique_ptr<Servers>(new Servers(std::move(directory), std::move(addresses),
                                              std::move(daemon), std::move(bare), std::move(client),
                                              std::move(session), std::move(one_task_graph)));
}

Servers::Servers(TemporaryDirectory directory, Addresses addresses, ChildProcess daemon,
                 ChildProcess bare, Client client, Session session, std::string one_task_graph)
    : directory_(std::move(directory)),
      addresses_(std::move(addresses)),
      daemon_process_(std::move(daemon)),
      bare_process_(std::move(bare)),
      client_(std::move(client)),
      session_(std::move(session)),
      one_task_graph_(std::move(one_task_graph)),
      run_(v1::RunService::NewStub(ToDaemon())),
      bare_(Bare::NewStub(ToBare())) {}

std::shared_ptr<grpc::Channel> Servers::ToDaemon() const {
  return Connect(addresses_.daemon, addresses_.tls_directory);
}

std::shared_ptr<grpc::Channel> Servers::ToBare() const {
  return Connect(addresses_.bare, addresses_.tls_directory);
}

}  // namespace pto::bench
