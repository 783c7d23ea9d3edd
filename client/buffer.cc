#include "client/buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/internal/buffer_share.h"
#include "client/internal/core.h"
#include "client/internal/reader_call.h"
#include "client/internal/writer_call.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {
namespace {

// Larger pieces are not faster and delay other transfers on the connection.
constexpr uint64_t kChunkBytes = 1 << 20;
constexpr uint64_t kBytesPerSecond = 256 << 20;

absl::Duration TransferTime(uint64_t bytes) {
  return absl::Seconds(static_cast<double>(bytes) / kBytesPerSecond);
}

uint64_t ChunkBytes(const internal::Core& core) {
  const uint64_t limit = core.node().limits().max_chunk_bytes();
  return limit == 0 ? kChunkBytes : std::min(limit, kChunkBytes);
}

}  // namespace

Buffer::Buffer(std::shared_ptr<internal::Core> core,
               std::shared_ptr<internal::SessionState> session, std::string name, uint32_t chip,
               uint64_t bytes)
    : core_(std::move(core)),
      session_(std::move(session)),
      name_(std::move(name)),
      chip_(chip),
      bytes_(bytes) {
  // Buffers of a domain are part of a window, which its ranks already share.
  if (session_->broker() != nullptr && bytes_ > 0 && name_.find("/domains/") == name_.npos) {
    share_ = std::make_shared<internal::BufferShare>(session_->broker(), std::string(id()), bytes_);
  }
}

absl::string_view Buffer::id() const {
  const absl::string_view name = name_;
  const size_t domains = name.find("/domains/");
  return name.substr(domains != absl::string_view::npos ? domains + 1 : name.rfind('/') + 1);
}

absl::Status Buffer::CheckRange(uint64_t offset, uint64_t count, uint64_t element_bytes) const {
  if (offset <= bytes_ && count <= (bytes_ - offset) / element_bytes) return absl::OkStatus();
  return Error(reason::kRangeOutOfBounds,
               absl::StrCat(count, " elements of ", element_bytes, " bytes at ", offset,
                            " do not fit the ", bytes_, " bytes of ", name_))
      .With("buffer", name_)
      .With("offset", offset)
      .With("count", count)
      .With("bytes", bytes_);
}

absl::Status Buffer::Write(Bytes data, uint64_t offset, absl::Duration timeout) const {
  PTO_RETURN_IF_ERROR(session_->status());
  PTO_RETURN_IF_ERROR(CheckRange(offset, data.size(), 1));
  if (data.empty()) return absl::OkStatus();
  const internal::Deadline deadline = core_->DeadlineOf(timeout, TransferTime(data.size()));
  if (share_ != nullptr && share_->Write(data, offset, deadline)) return absl::OkStatus();
  const auto& wire = core_->transport().bulk_buffer;
  if (!wire.connection.AwaitClear(deadline)) return core_->Timeout("WriteBuffer", deadline);
  auto call =
      std::make_unique<internal::WriterCall<v1::WriteBufferRequest, v1::WriteBufferResponse>>(
          *wire.stub, &v1::BufferService::Stub::PrepareAsyncWriteBuffer, deadline);
  // Reuse one message for all pieces, so that its string keeps its allocation.
  v1::WriteBufferRequest request;
  request.set_name(name_);
  const uint64_t chunk = ChunkBytes(*core_);
  for (uint64_t done = 0; done < data.size(); done += chunk) {
    const Bytes part = data.subspan(done, std::min<uint64_t>(chunk, data.size() - done));
    request.set_offset(offset + done);
    request.mutable_data()->assign(reinterpret_cast<const char*>(part.data()), part.size());
    if (!call->Write(request)) break;
    request.clear_name();
  }
  if (!call->Finish()) {
    wire.connection.Release(std::move(call));
    return core_->Timeout("WriteBuffer", deadline);
  }
  const absl::Status status =
      internal::RpcError(call->status(), "WriteBuffer", core_->address(), deadline.timeout());
  if (!status.ok()) return core_->Examine(*session_, status, deadline);
  if (call->response().written_bytes() != data.size()) {
    return Error(reason::kInternal,
                 absl::StrCat("the daemon wrote ", call->response().written_bytes(), " of ",
                              data.size(), " bytes to ", name_));
  }
  return absl::OkStatus();
}

absl::Status Buffer::Read(WritableBytes data, uint64_t offset, absl::Duration timeout) const {
  PTO_RETURN_IF_ERROR(session_->status());
  PTO_RETURN_IF_ERROR(CheckRange(offset, data.size(), 1));
  // In the API a limit of zero means the whole buffer.
  if (data.empty()) return absl::OkStatus();
  const internal::Deadline deadline = core_->DeadlineOf(timeout, TransferTime(data.size()));
  if (share_ != nullptr && share_->Read(data, offset, deadline)) return absl::OkStatus();
  const auto& wire = core_->transport().bulk_buffer;
  if (!wire.connection.AwaitClear(deadline)) return core_->Timeout("ReadBuffer", deadline);
  v1::ReadBufferRequest request;
  request.set_name(name_);
  request.set_offset(offset);
  request.set_limit(data.size());
  using Call = internal::ReaderCall<v1::ReadBufferResponse>;
  auto call = std::make_unique<Call>(*wire.stub, &v1::BufferService::Stub::PrepareAsyncReadBuffer,
                                     request, deadline);
  v1::ReadBufferResponse response;
  uint64_t done = 0;
  Call::Result next;
  while ((next = call->Next(deadline, response)) == Call::Result::kMessage) {
    const std::string& part = response.data();
    if (response.offset() != offset + done || part.size() > data.size() - done) {
      wire.connection.Release(std::move(call));
      return Error(reason::kInternal,
                   absl::StrCat("the daemon sent ", part.size(), " bytes at ", response.offset(),
                                " of ", name_, " where ", offset + done, " was due"));
    }
    std::memcpy(data.data() + done, part.data(), part.size());
    done += part.size();
  }
  if (next == Call::Result::kTimeout) {
    wire.connection.Release(std::move(call));
    return core_->Timeout("ReadBuffer", deadline);
  }
  const absl::Status status =
      internal::RpcError(call->status(), "ReadBuffer", core_->address(), deadline.timeout());
  if (!status.ok()) return core_->Examine(*session_, status, deadline);
  if (done != data.size()) {
    return Error(reason::kInternal,
                 absl::StrCat("the daemon sent ", done, " of ", data.size(), " bytes of ", name_));
  }
  return absl::OkStatus();
}

absl::StatusOr<MappedBuffer> Buffer::Map(absl::Duration timeout) const {
  PTO_RETURN_IF_ERROR(session_->status());
  const internal::Deadline deadline = core_->DeadlineOf(timeout, TransferTime(bytes_));
  internal::MapRefusal why = internal::MapRefusal::kNever;
  if (share_ != nullptr) {
    if (std::shared_ptr<internal::Mapping> mapping = share_->Map(deadline, &why)) {
      const std::span<std::byte> bytes = mapping->bytes();
      return MappedBuffer(std::move(mapping), bytes);
    }
  }
  // The API call returns a more precise error.
  v1::GetBufferRequest request;
  request.set_name(name_);
  PTO_ASSIGN_OR_RETURN(const v1::Buffer found,
                       core_->CallOn(*session_, "GetBuffer", core_->transport().buffer,
                                     &v1::BufferService::Stub::PrepareAsyncGetBuffer, request,
                                     deadline, internal::Retry::kOnce));
  if (share_ != nullptr && found.in_use() > 0) {
    return Error(reason::kBufferInUse, absl::StrCat(found.in_use(), " runs use ", name_))
        .With("buffer", name_)
        .With("runs", found.in_use());
  }
  if (why == internal::MapRefusal::kLimit) {
    return Error(reason::kChipMemoryExhausted,
                 absl::StrCat("cannot map ", bytes_, " bytes of ", name_,
                              ": the daemon's limit for shared memory is reached"))
        .With("buffer", name_)
        .With("limit", "half of the machine's memory, a quarter of the daemon's file descriptors")
        .With("requested", bytes_)
        .Hint(
            "use Write and Read, or delete mapped buffers and try again; a mapped buffer counts "
            "until it is deleted");
  }
  return Error(reason::kNotAvailable, absl::StrCat(name_, " cannot be mapped by this client"))
      .With("buffer", name_)
      .Hint(
          "use Write and Read; mapping requires a session that this client created, a daemon on "
          "this machine and an enabled broker");
}

absl::Status Buffer::Delete(absl::Duration timeout) const {
  v1::DeleteBuffersRequest request;
  request.add_names(name_);
  const absl::Status deleted =
      core_
          ->CallOn(*session_, "DeleteBuffers", core_->transport().buffer,
                   &v1::BufferService::Stub::PrepareAsyncDeleteBuffers, request,
                   core_->DeadlineOf(timeout), internal::Retry::kNever)
          .status();
  if (deleted.ok()) Forget();
  return deleted;
}

void Buffer::Forget() const {
  if (share_ != nullptr) share_->Drop();
}

}  // namespace pto
