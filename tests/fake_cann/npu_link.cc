#include "npu_link.h"

#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "world.h"

extern char** environ;

namespace fake {
namespace {

// The program is beside the folder of the libraries: ../../fake_npu.
std::string ProgramPath() {
  if (const char* const given = getenv("FAKE_CANN_NPU")) return given;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&ProgramPath), &info) == 0) return "fake_npu";
  std::string path = info.dli_fname;
  for (int i = 0; i < 3; ++i)
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  return path + (path.empty() ? "fake_npu" : "/fake_npu");
}

}  // namespace

NpuLink::NpuLink(int32_t device) : device_(device) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) abort();
  socket_ = pair[0];
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, pair[1], 3);
  posix_spawn_file_actions_addclosefrom_np(&files, 4);
  std::string program = ProgramPath();
  const std::string index = std::to_string(device);
  char* const argv[] = {program.data(), const_cast<char*>(index.c_str()), nullptr};
  if (posix_spawn(&pid_, program.c_str(), &files, nullptr, argv, environ) != 0) {
    fprintf(stderr, "fake CANN: cannot start %s\n", program.c_str());
    dead_ = true;
  }
  posix_spawn_file_actions_destroy(&files);
  close(pair[1]);
  reader_ = std::thread([this] { Read(); });
  NpuRequest memory;
  memory.kind = NpuRequest::kMemory;
  memory.bytes = GetSettings().hbm_bytes;
  snprintf(memory.path, sizeof memory.path, "%s", GetSettings().folder.c_str());
  Send(memory);
}

NpuLink::~NpuLink() {
  Kill();
  reader_.join();
  close(socket_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void NpuLink::Kill() {
  if (pid_ > 0) kill(pid_, SIGKILL);
  shutdown(socket_, SHUT_RDWR);
}

bool NpuLink::dead() {
  std::lock_guard<std::mutex> lock(mutex_);
  return dead_;
}

void NpuLink::Read() {
  NpuReply reply;
  while (recv(socket_, &reply, sizeof reply, 0) == sizeof reply) {
    std::lock_guard<std::mutex> lock(mutex_);
    replies_[reply.id] = reply.result;
    changed_.notify_all();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  dead_ = true;
  changed_.notify_all();
}

void NpuLink::Send(const NpuRequest& request) {
  (void)!send(socket_, &request, sizeof request, MSG_NOSIGNAL);
}

void NpuLink::Map(uint64_t address, uint64_t bytes, int32_t owner, uint64_t offset) {
  NpuRequest request;
  request.kind = NpuRequest::kMap;
  request.address = address;
  request.bytes = bytes;
  request.device = owner;
  request.offset = offset;
  Ask(request, 0, nullptr);
}

void NpuLink::Unmap(uint64_t address, uint64_t bytes) {
  NpuRequest request;
  request.kind = NpuRequest::kUnmap;
  request.address = address;
  request.bytes = bytes;
  Ask(request, 0, nullptr);
}

int NpuLink::Resolve(const std::string& path, const std::string& symbol) {
  NpuRequest request;
  request.kind = NpuRequest::kResolve;
  snprintf(request.path, sizeof request.path, "%s", path.c_str());
  snprintf(request.symbol, sizeof request.symbol, "%s", symbol.c_str());
  return Ask(request, 0, nullptr);
}

int NpuLink::Launch(const std::string& path, const std::string& symbol, uint32_t blocks,
                    const void* arguments, uint32_t bytes, int64_t timeout_ns,
                    const std::function<bool()>& aborted) {
  NpuRequest request;
  request.kind = NpuRequest::kLaunch;
  request.blocks = blocks;
  request.argument_bytes = bytes;
  memcpy(request.arguments, arguments, bytes);
  snprintf(request.path, sizeof request.path, "%s", path.c_str());
  snprintf(request.symbol, sizeof request.symbol, "%s", symbol.c_str());
  return Ask(request, timeout_ns, aborted);
}

int NpuLink::Ask(NpuRequest& request, int64_t timeout_ns, const std::function<bool()>& aborted) {
  std::unique_lock<std::mutex> lock(mutex_);
  request.id = ++last_id_;
  lock.unlock();
  Send(request);
  lock.lock();
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const auto found = replies_.find(request.id);
    if (found != replies_.end()) {
      const int result = found->second;
      replies_.erase(found);
      return result;
    }
    if (dead_) return kGone;
    if (aborted && aborted()) {
      lock.unlock();
      request.kind = NpuRequest::kAbort;
      Send(request);
      return kAborted;
    }
    if (timeout_ns > 0 &&
        std::chrono::steady_clock::now() - start > std::chrono::nanoseconds(timeout_ns)) {
      return kTimeout;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
}

}  // namespace fake
