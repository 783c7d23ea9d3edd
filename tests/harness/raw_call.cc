#include "tests/harness/raw_call.h"

#include "absl/time/clock.h"
#include "grpcpp/generic/generic_stub.h"

namespace pto::testing {

grpc::Status RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::vector<std::string>& messages, absl::Duration timeout) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  grpc::CompletionQueue queue;
  // One operation at a time, so the queue returns the one begun last.
  const auto done = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  bool open = done();
  for (size_t i = 0; i < messages.size() && open; ++i) {
    const grpc::Slice slice(messages[i]);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    open = done();
  }
  if (open) {
    call->WritesDone(nullptr);
    done();
  }
  grpc::ByteBuffer answer;
  do {
    call->Read(&answer, nullptr);
  } while (done());
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  return status;
}

}  // namespace pto::testing
