#include "tests/bench/transfer_rate.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "runtime/base/status_macros.h"
#include "tests/bench/bare_server.h"
#include "tests/bench/launches.h"
#include "tests/bench/samples.h"

namespace pto::bench {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

double MiBPerSecond(uint64_t bytes, double seconds) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB) / seconds;
}

// Sends `bytes` in chunks that are created once: only the transfer is measured.
template <typename Writer>
absl::Status Send(Writer& writer, const std::string& buffer, uint64_t bytes, uint64_t chunk) {
  v1::WriteBufferRequest request;
  request.set_name(buffer);
  request.set_data(std::string(chunk, 'x'));
  for (uint64_t offset = 0; offset < bytes; offset += chunk) {
    request.set_offset(offset);
    if (!writer.Write(request)) break;
  }
  writer.WritesDone();
  return CallError("upload", writer.Finish());
}

// Reads to the end of the stream into one message.
template <typename Reader>
absl::Status Receive(Reader& reader, uint64_t bytes) {
  v1::ReadBufferResponse response;
  uint64_t got = 0;
  while (reader.Read(&response)) got += response.data().size();
  PTO_RETURN_IF_ERROR(CallError("download", reader.Finish()));
  if (got == bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(got, " bytes came, not ", bytes));
}

class TransferBench {
 public:
  TransferBench(Servers& servers, uint64_t bytes)
      : bytes_(bytes),
        stub_(v1::BufferService::NewStub(servers.ToDaemon())),
        bare_(Bare::NewStub(servers.ToBare())),
        source_(bytes, 1),
        target_(bytes, 2) {}

  absl::Status Prepare(Session& session) {
    PTO_ASSIGN_OR_RETURN(Buffer buffer, session.CreateBuffer("bulk", 0, bytes_));
    buffer_ = std::make_unique<Buffer>(std::move(buffer));
    return absl::OkStatus();
  }
  absl::Status Clean() { return buffer_->Delete(); }

  // Each returns MiB per second.

  absl::StatusOr<double> Upload(uint64_t chunk) {
    const double start = Seconds();
    grpc::ClientContext context;
    v1::WriteBufferResponse response;
    const auto writer = stub_->WriteBuffer(&context, &response);
    PTO_RETURN_IF_ERROR(Send(*writer, buffer_->name(), bytes_, chunk));
    return Rate(start, response.written_bytes());
  }
  absl::StatusOr<double> BareUpload(uint64_t chunk) {
    const double start = Seconds();
    grpc::ClientContext context;
    v1::WriteBufferResponse response;
    const auto writer = bare_->Upload(&context, &response);
    PTO_RETURN_IF_ERROR(Send(*writer, buffer_->name(), bytes_, chunk));
    return Rate(start, response.written_bytes());
  }
  absl::StatusOr<double> ClientUpload() {
    const double start = Seconds();
    PTO_RETURN_IF_ERROR(buffer_->Write(source_));
    return Rate(start, bytes_);
  }

  absl::StatusOr<double> Download() {
    const double start = Seconds();
    grpc::ClientContext context;
    v1::ReadBufferRequest request;
    request.set_name(buffer_->name());
    const auto reader = stub_->ReadBuffer(&context, request);
    PTO_RETURN_IF_ERROR(Receive(*reader, bytes_));
    return Rate(start, bytes_);
  }
  absl::StatusOr<double> BareDownload(uint64_t chunk) {
    const double start = Seconds();
    grpc::ClientContext context;
    DownloadRequest request;
    request.set_bytes(bytes_);
    request.set_chunk_bytes(chunk);
    const auto reader = bare_->Download(&context, request);
    PTO_RETURN_IF_ERROR(Receive(*reader, bytes_));
    return Rate(start, bytes_);
  }
  absl::StatusOr<double> ClientDownload() {
    const double start = Seconds();
    PTO_RETURN_IF_ERROR(buffer_->Read(std::span<char>(target_)));
    return Rate(start, bytes_);
  }

  double Memcpy() {
    const double start = Seconds();
    std::memcpy(target_.data(), source_.data(), bytes_);
    // Prevents the compiler from dropping the copy.
    asm volatile("" : : "r"(target_.data()) : "memory");
    return MiBPerSecond(bytes_, Seconds() - start);
  }

 private:
  absl::StatusOr<double> Rate(double start, uint64_t moved) const {
    if (moved == bytes_) return MiBPerSecond(bytes_, Seconds() - start);
    return absl::DataLossError(absl::StrCat(moved, " bytes were moved, not ", bytes_));
  }

  const uint64_t bytes_;
  const std::unique_ptr<v1::BufferService::Stub> stub_;
  const std::unique_ptr<Bare::Stub> bare_;
  std::vector<char> source_;
  std::vector<char> target_;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace

absl::Status MeasureTransferRate(Servers& servers, const Effort& effort, Report& report) {
  static_assert(Effort().transfer_bytes <= kBareMemoryBytes);
  TransferBench bench(servers, effort.transfer_bytes);
  PTO_RETURN_IF_ERROR(bench.Prepare(servers.session()));
  // The maximum that the daemon accepts and sends.
  const uint64_t max_chunk = servers.limits().max_chunk_bytes();
  Rounds upload_1, bare_upload_1, upload_2, bare_upload_2, client_upload;
  Rounds download, bare_download, client_download, memcpy_rate;
  // The first round warms up.
  for (int round = -1; round < effort.long_rounds; ++round) {
    const auto add = [round](Rounds& rounds, absl::StatusOr<double> rate) {
      if (rate.ok() && round >= 0) rounds.Add(*rate);
      return rate.status();
    };
    PTO_RETURN_IF_ERROR(add(upload_1, bench.Upload(kMiB)));
    PTO_RETURN_IF_ERROR(add(bare_upload_1, bench.BareUpload(kMiB)));
    PTO_RETURN_IF_ERROR(add(upload_2, bench.Upload(2 * kMiB)));
    PTO_RETURN_IF_ERROR(add(bare_upload_2, bench.BareUpload(2 * kMiB)));
    PTO_RETURN_IF_ERROR(add(client_upload, bench.ClientUpload()));
    PTO_RETURN_IF_ERROR(add(download, bench.Download()));
    PTO_RETURN_IF_ERROR(add(bare_download, bench.BareDownload(max_chunk)));
    PTO_RETURN_IF_ERROR(add(client_download, bench.ClientDownload()));
    PTO_RETURN_IF_ERROR(add(memcpy_rate, bench.Memcpy()));
  }
  PTO_RETURN_IF_ERROR(bench.Clean());

  const auto line = [&report](const char* name, const Rounds& rounds, const char* against,
                              const Rounds& peer, absl::optional<Target> target) {
    report.Add({.name = name,
                .value = rounds.median(),
                .unit = "MiB/s",
                .against = against,
                .against_value = peer.median(),
                .target = target});
  };
  line("upload_1mib_chunks", upload_1, "bare_upload_1mib_chunks", bare_upload_1,
       Target::AtLeast(0.8));
  line("upload_2mib_chunks", upload_2, "bare_upload_2mib_chunks", bare_upload_2,
       Target::AtLeast(0.8));
  line("upload_beside_memcpy", upload_2, "memcpy", memcpy_rate, {});
  line("client_upload", client_upload, "memcpy", memcpy_rate, {});
  line("download", download, "bare_download", bare_download, {});
  line("download_beside_memcpy", download, "memcpy", memcpy_rate, {});
  line("client_download", client_download, "memcpy", memcpy_rate, {});
  return absl::OkStatus();
}

}  // namespace pto::bench
