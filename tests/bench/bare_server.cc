#include "tests/bench/bare_server.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "tests/bench/bare.grpc.pb.h"
#include "tests/bench/tls_files.h"

namespace pto::bench {
namespace {

// Pending calls of each method.
constexpr int kArmedCalls = 64;

// The state that all calls share. Only the polling thread uses it.
struct State {
  Bare::AsyncService service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  // The batches that Replay sends.
  std::vector<v1::EventBatch> batches;
  // The memory that Upload writes and Download reads.
  std::unique_ptr<char[]> memory;
};

class Tag {
 public:
  virtual void Proceed(bool ok) = 0;

 protected:
  ~Tag() = default;
};

// One operation of a call.
template <typename Call>
class Operation final : public Tag {
 public:
  Operation(Call* call, void (Call::*done)(bool)) : call_(call), done_(done) {}
  void Proceed(bool ok) override { (call_->*done_)(ok); }
  // The tag for the completion queue.
  void* tag() { return static_cast<Tag*>(this); }

 private:
  Call* const call_;
  void (Call::* const done_)(bool);
};

// After each answer, a call creates the next call of its method and deletes itself.

void Answer(const Ping& ping, Pong* pong) {
  std::string* const out = pong->mutable_payload();
  out->resize(ping.reply_bytes());
  std::memcpy(out->data(), ping.payload().data(), std::min(out->size(), ping.payload().size()));
}

class EchoCall {
 public:
  explicit EchoCall(State& state) : state_(state), writer_(&context_) {
    state_.service.RequestEcho(&context_, &request_, &writer_, state_.queue.get(),
                               state_.queue.get(), start_.tag());
  }

 private:
  void OnStart(bool ok) {
    if (!ok) return delete this;
    Answer(request_, &response_);
    writer_.Finish(response_, grpc::Status::OK, finish_.tag());
    new EchoCall(state_);
  }
  void OnFinish(bool /*ok*/) { delete this; }

  State& state_;
  grpc::ServerContext context_;
  grpc::ServerAsyncResponseWriter<Pong> writer_;
  Ping request_;
  Pong response_;
  Operation<EchoCall> start_{this, &EchoCall::OnStart};
  Operation<EchoCall> finish_{this, &EchoCall::OnFinish};
};

class PingPongCall {
 public:
  explicit PingPongCall(State& state) : state_(state), stream_(&context_) {
    state_.service.RequestPingPong(&context_, &stream_, state_.queue.get(), state_.queue.get(),
                                   start_.tag());
  }

 private:
  void OnStart(bool ok) {
    if (!ok) return delete this;
    stream_.Read(&request_, read_.tag());
    new PingPongCall(state_);
  }
  void OnRead(bool ok) {
    (ok ? unanswered_ : reads_done_) = true;
    Advance();
  }
  void OnWrite(bool /*ok*/) {
    writing_ = false;
    Advance();
  }
  void OnFinish(bool /*ok*/) { delete this; }

  void Advance() {
    if (writing_) return;
    if (unanswered_) {
      unanswered_ = false;
      Answer(request_, &response_);
      writing_ = true;
      stream_.Write(response_, write_.tag());
      stream_.Read(&request_, read_.tag());
    } else if (reads_done_) {
      stream_.Finish(grpc::Status::OK, finish_.tag());
    }
  }

  State& state_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<Pong, Ping> stream_;
  Ping request_;
  Pong response_;
  bool unanswered_ = false;
  bool reads_done_ = false;
  bool writing_ = false;
  Operation<PingPongCall> start_{this, &PingPongCall::OnStart};
  Operation<PingPongCall> read_{this, &PingPongCall::OnRead};
  Operation<PingPongCall> write_{this, &PingPongCall::OnWrite};
  Operation<PingPongCall> finish_{this, &PingPongCall::OnFinish};
};

class KeepCall {
 public:
  explicit KeepCall(State& state) : state_(state), reader_(&context_) {
    state_.service.RequestKeep(&context_, &reader_, state_.queue.get(), state_.queue.get(),
                               start_.tag());
  }

 private:
  void OnStart(bool ok) {
    if (!ok) return delete this;
    state_.batches.clear();
    reader_.Read(&request_, read_.tag());
    new KeepCall(state_);
  }
  void OnRead(bool ok) {
    if (ok) {
      state_.batches.push_back(std::move(request_));
      reader_.Read(&request_, read_.tag());
    } else {
      KeepResponse response;
      response.set_batches(state_.batches.size());
      reader_.Finish(response, grpc::Status::OK, finish_.tag());
    }
  }
  void OnFinish(bool /*ok*/) { delete this; }

  State& state_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReader<KeepResponse, v1::EventBatch> reader_;
  v1::EventBatch request_;
  Operation<KeepCall> start_{this, &KeepCall::OnStart};
  Operation<KeepCall> read_{this, &KeepCall::OnRead};
  Operation<KeepCall> finish_{this, &KeepCall::OnFinish};
};

class ReplayCall {
 public:
  explicit ReplayCall(State& state) : state_(state), writer_(&context_) {
    state_.service.RequestReplay(&context_, &request_, &writer_, state_.queue.get(),
                                 state_.queue.get(), start_.tag());
  }

 private:
  void OnStart(bool ok) {
    if (!ok) return delete this;
    WriteNext();
    new ReplayCall(state_);
  }
  void OnWrite(bool ok) {
    if (!ok) next_ = state_.batches.size();
    WriteNext();
  }
  void OnFinish(bool /*ok*/) { delete this; }

  void WriteNext() {
    if (next_ < state_.batches.size()) {
      writer_.Write(state_.batches[next_++], write_.tag());
    } else {
      writer_.Finish(grpc::Status::OK, finish_.tag());
    }
  }

  State& state_;
  grpc::ServerContext context_;
  grpc::ServerAsyncWriter<v1::EventBatch> writer_;
  ReplayRequest request_;
  size_t next_ = 0;
  Operation<ReplayCall> start_{this, &ReplayCall::OnStart};
  Operation<ReplayCall> write_{this, &ReplayCall::OnWrite};
  Operation<ReplayCall> finish_{this, &ReplayCall::OnFinish};
};

class UploadCall {
 public:
  explicit UploadCall(State& state) : state_(state), reader_(&context_) {
    state_.service.RequestUpload(&context_, &reader_, state_.queue.get(), state_.queue.get(),
                                 start_.tag());
  }

 private:
  void OnStart(bool ok) {
    if (!ok) return delete this;
    reader_.Read(&request_, read_.tag());
    new UploadCall(state_);
  }
  void OnRead(bool ok) {
    const std::string& data = request_.data();
    if (ok && data.size() <= kBareMemoryBytes &&
        request_.offset() <= kBareMemoryBytes - data.size()) {
      std::memcpy(state_.memory.get() + request_.offset(), data.data(), data.size());
      written_ += data.size();
      reader_.Read(&request_, read_.tag());
      return;
    }
    v1::WriteBufferResponse response;
    response.set_written_bytes(written_);
    reader_.Finish(response, grpc::Status::OK, finish_.tag());
  }
  void OnFinish(bool /*ok*/) { delete this; }

  State& state_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReader<v1::WriteBufferResponse, v1::WriteBufferRequest> reader_;
  v1::WriteBufferRequest request_;
  uint64_t written_ = 0;
  Operation<UploadCall> start_{this, &UploadCall::OnStart};
  Operation<UploadCall> read_{this, &UploadCall::OnRead};
  Operation<UploadCall> finish_{this, &UploadCall::OnFinish};
};

class DownloadCall {
 public:
  explicit DownloadCall(State& state) : state_(state), writer_(&context_) {
    state_.service.RequestDownload(&context_, &request_, &writer_, state_.queue.get(),
                                   state_.queue.get(), start_.tag());
  }

 private:
  void OnStart(bool ok) {
    if (!ok) return delete this;
    end_ = std::min(request_.bytes(), kBareMemoryBytes);
    WriteNext();
    new DownloadCall(state_);
  }
  void OnWrite(bool ok) {
    if (!ok) end_ = next_;
    WriteNext();
  }
  void OnFinish(bool /*ok*/) { delete this; }

  void WriteNext() {
    const uint64_t bytes = std::min(end_ - next_, request_.chunk_bytes());
    if (bytes == 0) {
      writer_.Finish(grpc::Status::OK, finish_.tag());
      return;
    }
    response_.set_offset(next_);
    response_.mutable_data()->assign(state_.memory.get() + next_, bytes);
    next_ += bytes;
    grpc::WriteOptions options;
    if (next_ < end_) options.set_buffer_hint();
    writer_.Write(response_, options, write_.tag());
  }

  State& state_;
  grpc::ServerContext context_;
  grpc::ServerAsyncWriter<v1::ReadBufferResponse> writer_;
  DownloadRequest request_;
  v1::ReadBufferResponse response_;
  uint64_t next_ = 0;
  uint64_t end_ = 0;
  Operation<DownloadCall> start_{this, &DownloadCall::OnStart};
  Operation<DownloadCall> write_{this, &DownloadCall::OnWrite};
  Operation<DownloadCall> finish_{this, &DownloadCall::OnFinish};
};

}  // namespace

absl::Status ServeBare(const std::string& address, const std::string& tls_directory) {
  // As in the daemon, so that both allocate in the same way.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TOP_PAD, 1 << 20);
  // Debian's Abseil checks for deadlocks at every lock, also in gRPC, unless this is turned off.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  State state;
  state.memory = std::make_unique_for_overwrite<char[]>(kBareMemoryBytes);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.AddListeningPort(address, tls_directory.empty() ? grpc::InsecureServerCredentials()
                                                          : ServerCredentials(tls_directory));
  builder.RegisterService(&state.service);
  state.queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::UnavailableError(absl::StrCat("cannot listen on ", address));
  for (int i = 0; i < kArmedCalls; ++i) new EchoCall(state);
  new PingPongCall(state);
  new KeepCall(state);
  new ReplayCall(state);
  new UploadCall(state);
  new DownloadCall(state);
  void* tag = nullptr;
  bool ok = false;
  while (state.queue->Next(&tag, &ok)) static_cast<Tag*>(tag)->Proceed(ok);
  return absl::OkStatus();
}

}  // namespace pto::bench
