#include "comm/pto_comm.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "comm/check.h"
#include "comm/handle.h"
#include "comm/status.h"
#include "comm/waiting.h"
#include "runtime/base/status_macros.h"

namespace pto::comm {
namespace {

std::string& ThreadError() {
  thread_local std::string text;
  return text;
}

absl::Status Init(const pto_comm_options* options, pto_comm** comm) {
  PTO_ASSIGN_OR_RETURN(JoinSpec spec, CheckJoin(options));
  const JoinFunction join = FindBackend(options->backend);
  if (join == nullptr) {
    return NotSupported(absl::StrCat("there is no backend '", options->backend, "'"));
  }
  PTO_ASSIGN_OR_RETURN(auto communicator, join(spec));
  auto handle = std::make_unique<pto_comm>();
  handle->rank = spec.rank;
  handle->size = spec.size;
  handle->communicator = std::move(communicator);
  *comm = handle.release();
  return absl::OkStatus();
}

absl::Status CreateWindow(pto_comm* comm, const pto_comm_window_options* options, int64_t deadline,
                          pto_comm_window** window) {
  PTO_ASSIGN_OR_RETURN(WindowSpec spec, CheckWindow(options, comm->rank, comm->size));
  {
    MutexLock lock(comm->mutex);
    if (!comm->used_ids.insert(spec.id).second) {
      return Invalid(absl::StrCat("rank ", comm->rank, " has used window id ", spec.id, " before"));
    }
  }
  auto handle = std::make_unique<pto_comm_window>();
  handle->comm = comm;
  PTO_ASSIGN_OR_RETURN(handle->window, comm->communicator->CreateWindow(spec, deadline));
  handle->spec = std::move(spec);
  MutexLock lock(comm->mutex);
  *window = handle.get();
  comm->windows.emplace(handle.get(), std::move(handle));
  return absl::OkStatus();
}

}  // namespace

int Report(pto_comm* comm, const absl::Status& status) {
  if (status.ok()) return PTO_COMM_OK;
  const int number = StatusNumber(status);
  std::string& text = ThreadError();
  text = absl::StrCat(StatusName(number), ": ", status.message());
  if (comm != nullptr) {
    MutexLock lock(comm->mutex);
    comm->error = text;
  }
  return number;
}

}  // namespace pto::comm

using pto::MutexLock;
using pto::comm::Report;

int64_t pto_comm_deadline_after(int64_t nanos) {
  const int64_t now = pto::comm::NowNanos();
  return nanos > std::numeric_limits<int64_t>::max() - now ? std::numeric_limits<int64_t>::max()
                                                           : now + nanos;
}

const char* pto_comm_status_name(int status) { return pto::comm::StatusName(status); }

int pto_comm_init(const pto_comm_options* options, pto_comm** comm) {
  if (comm == nullptr) return Report(nullptr, pto::comm::Invalid("comm is null"));
  *comm = nullptr;
  return Report(nullptr, pto::comm::Init(options, comm));
}

int pto_comm_destroy(pto_comm* comm) {
  if (comm == nullptr) return Report(nullptr, pto::comm::Invalid("comm is null"));
  {
    MutexLock lock(comm->mutex);
    comm->windows.clear();
  }
  delete comm;
  return PTO_COMM_OK;
}

int pto_comm_abort(pto_comm* comm, const char* why) {
  comm->communicator->Abort(why == nullptr ? "" : why);
  return PTO_COMM_OK;
}

uint32_t pto_comm_rank(const pto_comm* comm) { return comm->rank; }
uint32_t pto_comm_size(const pto_comm* comm) { return comm->size; }

size_t pto_comm_error(const pto_comm* comm, char* buffer, size_t size) {
  std::string text;
  if (comm == nullptr) {
    text = pto::comm::ThreadError();
  } else {
    MutexLock lock(comm->mutex);
    text = comm->error;
  }
  if (buffer != nullptr && size > 0) {
    const size_t length = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  }
  return text.size();
}

int pto_comm_barrier(pto_comm* comm, int64_t deadline_ns) {
  return Report(comm, comm->communicator->Barrier(deadline_ns));
}

int pto_comm_window_create(pto_comm* comm, const pto_comm_window_options* options,
                           int64_t deadline_ns, pto_comm_window** window) {
  if (window == nullptr) return Report(comm, pto::comm::Invalid("window is null"));
  *window = nullptr;
  return Report(comm, pto::comm::CreateWindow(comm, options, deadline_ns, window));
}

int pto_comm_window_destroy(pto_comm_window* window) {
  if (window == nullptr) return Report(nullptr, pto::comm::Invalid("window is null"));
  pto_comm* comm = window->comm;
  MutexLock lock(comm->mutex);
  comm->windows.erase(window);
  return PTO_COMM_OK;
}

uint32_t pto_comm_window_rank(const pto_comm_window* window) { return window->spec.index; }
uint32_t pto_comm_window_size(const pto_comm_window* window) {
  return static_cast<uint32_t>(window->spec.ranks.size());
}
uint64_t pto_comm_window_bytes(const pto_comm_window* window) { return window->spec.bytes; }

int pto_comm_window_local(const pto_comm_window* window, void** base) {
  *base = window->window->local();
  return PTO_COMM_OK;
}

int pto_comm_window_remote(const pto_comm_window* window, uint32_t peer, uint64_t offset,
                           void** address) {
  absl::Status status = pto::comm::CheckRange(window->spec, peer, offset, 0);
  if (status.ok()) {
    absl::StatusOr<void*> base = window->window->Remote(peer);
    status = base.status();
    if (base.ok()) *address = static_cast<char*>(*base) + offset;
  }
  return Report(window->comm, status);
}

int pto_comm_put(pto_comm_window* window, uint32_t peer, uint64_t offset, const void* from,
                 uint64_t bytes) {
  absl::Status status = pto::comm::CheckRange(window->spec, peer, offset, bytes);
  if (status.ok() && bytes > 0) status = window->window->Put(peer, offset, from, bytes);
  return Report(window->comm, status);
}

int pto_comm_get(pto_comm_window* window, uint32_t peer, uint64_t offset, void* to,
                 uint64_t bytes) {
  absl::Status status = pto::comm::CheckRange(window->spec, peer, offset, bytes);
  if (status.ok() && bytes > 0) status = window->window->Get(peer, offset, to, bytes);
  return Report(window->comm, status);
}

int pto_comm_notify(pto_comm_window* window, uint32_t peer, uint32_t signal, pto_notify_op op,
                    int64_t value) {
  absl::Status status = pto::comm::CheckSignal(window->spec, peer, signal);
  if (status.ok() && op != PTO_SET && op != PTO_ADD) {
    status = pto::comm::Invalid(absl::StrCat(int{op}, " is not a notify operation"));
  }
  if (status.ok()) status = window->window->Notify(peer, signal, op, value);
  return Report(window->comm, status);
}

int pto_comm_wait(pto_comm_window* window, uint32_t signal, pto_compare compare, int64_t value,
                  int64_t deadline_ns, int64_t* seen) {
  int64_t word = 0;
  absl::Status status = pto::comm::CheckSignal(window->spec, window->spec.index, signal);
  if (status.ok() && (compare < PTO_EQ || compare > PTO_LE)) {
    status = pto::comm::Invalid(absl::StrCat(int{compare}, " is not a comparison"));
  }
  if (status.ok()) status = window->window->Wait(signal, compare, value, deadline_ns, &word);
  if (seen != nullptr) *seen = word;
  return Report(window->comm, status);
}

int pto_comm_read_signal(const pto_comm_window* window, uint32_t signal, int64_t* value) {
  absl::Status status = pto::comm::CheckSignal(window->spec, window->spec.index, signal);
  if (status.ok()) *value = window->window->ReadSignal(signal);
  return Report(window->comm, status);
}

int pto_comm_window_barrier(pto_comm_window* window, int64_t deadline_ns) {
  return Report(window->comm, window->window->Barrier(deadline_ns));
}
