// The part of a session that has to do with kernels that it uploads.

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/core.h"
#include "client/internal/rpc_error.h"
#include "client/internal/sha256.h"
#include "client/internal/writer_call.h"
#include "client/session.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {
namespace {

using internal::Retry;

constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
// Sending is expected to be at least this fast.
constexpr double kBytesPerSecond = 10e6;
// How long the daemon may take to start the session's host, and to load the kernel.
constexpr absl::Duration kLoadTime = absl::Seconds(10);

absl::StatusOr<std::string> ReadObject(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in.is_open() && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (in.is_open() && !in.bad()) return std::move(text).str();
  return Error(reason::kFieldInvalid,
               absl::StrCat("cannot read '", path,
                            errno == 0 ? "'" : "': " + std::generic_category().message(errno)))
      .At("path")
      .With("path", path);
}

}  // namespace

absl::StatusOr<v1::Kernel> Session::RegisterKernel(const std::string& path,
                                                   const KernelOptions& options,
                                                   absl::Duration timeout) {
  PTO_ASSIGN_OR_RETURN(const std::string object, ReadObject(path));
  KernelOptions named = options;
  if (named.file_name.empty()) named.file_name = path.substr(path.rfind('/') + 1);
  return RegisterKernelObject(object, named, timeout);
}

absl::StatusOr<v1::Kernel> Session::RegisterKernelObject(absl::string_view object,
                                                         const KernelOptions& options,
                                                         absl::Duration timeout) {
  PTO_RETURN_IF_ERROR(state_->status());
  const absl::Duration transfer =
      absl::Seconds(static_cast<double>(object.size()) / kBytesPerSecond);
  const internal::Deadline deadline = core_->DeadlineOf(timeout, kLoadTime + transfer);
  const auto& wire = core_->transport().bulk_kernel;
  if (!wire.connection.AwaitClear(deadline)) return core_->Timeout("RegisterKernel", deadline);
  auto call = std::make_unique<internal::WriterCall<v1::RegisterKernelRequest, v1::Kernel>>(
      *wire.stub, &v1::KernelService::Stub::PrepareAsyncRegisterKernel, deadline);
  v1::RegisterKernelRequest request;
  request.set_parent(name());
  request.set_kernel_id(options.id);
  request.set_file_bytes(object.size());
  request.set_sha256(internal::Sha256(object));
  request.set_file_name(options.file_name);
  request.set_entry(options.entry);
  request.set_signature(options.signature);
  const uint64_t limit = core_->node().limits().max_chunk_bytes();
  const uint64_t chunk = limit == 0 ? kChunkBytes : std::min(limit, kChunkBytes);
  const uint64_t total = object.size();
  do {
    const absl::string_view part = object.substr(0, chunk);
    request.set_data(part.data(), part.size());
    if (!call->Write(request)) break;
    object.remove_prefix(part.size());
    if (options.progress) options.progress(total - object.size(), total);
    request.Clear();
  } while (!object.empty());
  if (!call->Finish()) {
    wire.connection.Release(std::move(call));
    return core_->Timeout("RegisterKernel", deadline);
  }
  const absl::Status status =
      internal::RpcError(call->status(), "RegisterKernel", core_->address(), deadline.timeout());
  if (!status.ok()) return core_->Examine(*state_, status, deadline);
  return call->response();
}

absl::StatusOr<std::vector<v1::Kernel>> Session::ListKernels(absl::Duration timeout) {
  constexpr int kPageSize = 1000;
  const internal::Deadline deadline = core_->DeadlineOf(timeout);
  std::vector<v1::Kernel> all;
  v1::ListKernelsRequest request;
  request.set_parent(name());
  request.set_page_size(kPageSize);
  do {
    PTO_ASSIGN_OR_RETURN(v1::ListKernelsResponse page,
                         core_->CallOn(*state_, "ListKernels", core_->transport().kernel,
                                       &v1::KernelService::Stub::PrepareAsyncListKernels, request,
                                       deadline, Retry::kOnce));
    for (v1::Kernel& kernel : *page.mutable_kernels()) all.push_back(std::move(kernel));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

absl::Status Session::DeleteKernel(absl::string_view id, absl::Duration timeout) {
  v1::DeleteKernelRequest request;
  request.set_name(Child("kernels", id));
  return core_
      ->CallOn(*state_, "DeleteKernel", core_->transport().kernel,
               &v1::KernelService::Stub::PrepareAsyncDeleteKernel, request,
               core_->DeadlineOf(timeout), Retry::kNever)
      .status();
}

}  // namespace pto
