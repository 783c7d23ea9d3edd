#include "daemon/services/kernel_upload.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/kernels/kernel_store.h"
#include "daemon/kernels/session_kernels.h"
#include "daemon/names/names.h"
#include "daemon/session/session_hold.h"
#include "daemon/wire/convert.h"
#include "runtime/base/error.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

// Within which all of a file must come.
constexpr absl::Duration kUploadTime = absl::Seconds(30);
constexpr size_t kMaxText = 255;
constexpr size_t kMaxSignature = 4096;

absl::Status CheckText(absl::string_view text, size_t limit, absl::string_view field) {
  const size_t zero = text.find('\0');
  if (text.size() <= limit && zero == absl::string_view::npos) return absl::OkStatus();
  return Error(reason::kFieldInvalid,
               absl::StrCat("the text is longer than ", limit, " bytes, or contains a zero"))
      .At(field)
      .With("have", text.size())
      .With("want", limit);
}

// The bytes come on the polling thread. Then a thread of KernelHosts loads the kernel, and answers.
class KernelUpload final : public rpc::ClientStreamReactor<v1::RegisterKernelRequest, v1::Kernel>,
                           public std::enable_shared_from_this<KernelUpload> {
 public:
  static KernelUpload* Make(Node& node, Gate gate, StopList& streams) {
    std::shared_ptr<KernelUpload> stream(new KernelUpload(node, gate, streams));
    stream->self_ = stream;
    return stream.get();
  }

  void OnStart() override {
    const absl::StatusOr<auth::Caller> caller = gate_.Admit(*this);
    if (!caller.ok()) {
      MutexLock lock(mutex_);
      finished_ = true;
      return FinishWithError(caller.status());
    }
    caller_ = *caller;
    stay_ = gate_.Stay(*this, caller_);
    const std::weak_ptr<KernelUpload> weak = weak_from_this();
    timer_ = node_.timers().Schedule(
        node_.clock().NowNanos() + absl::ToInt64Nanoseconds(kUploadTime), [weak] {
          if (const std::shared_ptr<KernelUpload> stream = weak.lock()) stream->OnLate();
        });
    stop_id_ = streams_.Add([weak] {
      if (const std::shared_ptr<KernelUpload> stream = weak.lock()) {
        stream->Answer(Error(reason::kNodeDraining, "the daemon stops"));
      }
    });
    MutexLock lock(mutex_);
    if (!finished_) StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return OnAllRead();
    {
      MutexLock lock(mutex_);
      if (finished_) return;
    }
    const absl::Status taken = Take();
    if (!taken.ok()) return Answer(taken);
    MutexLock lock(mutex_);
    if (!finished_) StartRead(&request_);
  }

  void OnCancel() override { Answer(Error(reason::kClientGone, "the client has gone")); }

  void OnDone() override {
    stay_.reset();
    node_.timers().Cancel(timer_);
    streams_.Remove(stop_id_);
    const std::shared_ptr<KernelUpload> last = std::move(self_);
  }

 private:
  KernelUpload(Node& node, Gate gate, StopList& streams)
      : node_(node), gate_(gate), streams_(streams) {}

  absl::Status Take() {
    if (upload_ == nullptr) PTO_RETURN_IF_ERROR(Begin());
    const uint64_t limit = node_.limits().max_chunk_bytes;
    if (request_.data().size() > limit) {
      return Error(reason::kChunkTooLarge, absl::StrCat("a message carries at most ", limit,
                                                        " bytes, not ", request_.data().size()))
          .At("data")
          .Limit("max_chunk_bytes", limit, 0, request_.data().size());
    }
    return upload_->Append(request_.data());
  }

  // The first message.
  absl::Status Begin() {
    {
      MutexLock lock(mutex_);
      first_ = request_;
      first_.clear_data();
      has_first_ = true;
    }
    PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request_.parent(), "parent"));
    PTO_RETURN_IF_ERROR(node_.CheckAccepting());
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<Session> session, node_.sessions().Use(*caller_, id));
    PTO_RETURN_IF_ERROR(node_.CheckKernelUpload(*caller_));
    PTO_RETURN_IF_ERROR(node_.kernel_hosts().CheckAvailable());
    if (!request_.kernel_id().empty()) {
      PTO_RETURN_IF_ERROR(names::CheckKernelId(request_.kernel_id(), "kernel_id"));
    }
    PTO_RETURN_IF_ERROR(CheckText(request_.file_name(), kMaxText, "file_name"));
    if (request_.file_name().find('/') != std::string::npos) {
      return Error(reason::kFieldInvalid, "the name of a file has no folder").At("file_name");
    }
    PTO_RETURN_IF_ERROR(CheckText(request_.entry(), kMaxText, "entry"));
    PTO_RETURN_IF_ERROR(CheckText(request_.signature(), kMaxSignature, "signature"));
    if (!request_.signature().empty() && request_.kernel_id().empty()) {
      return Error(reason::kFieldInvalid, "a kernel of the PTO ABI does not say what it is called")
          .At("kernel_id")
          .Hint("choose an id, which tasks then use");
    }
    hold_ = SessionHold(std::move(session));
    PTO_ASSIGN_OR_RETURN(upload_, hold_->WithRoom([&] {
      return node_.kernel_hosts().store().Begin(hold_->owner(), hold_->memory(),
                                                request_.file_bytes(), request_.sha256());
    }));
    return absl::OkStatus();
  }

  void OnAllRead() {
    {
      MutexLock lock(mutex_);
      if (finished_) return;
    }
    if (malformed()) return Answer(rpc::MalformedError());
    if (upload_ == nullptr) {
      return Answer(Error(reason::kStreamEmpty, "the stream ended before its first message"));
    }
    absl::StatusOr<std::shared_ptr<const KernelFile>> file = upload_->Finish();
    upload_.reset();
    if (!file.ok()) return Answer(file.status());
    node_.timers().Cancel(timer_);
    SessionKernels::Upload upload;
    upload.id = first_.kernel_id();
    upload.file_name = first_.file_name();
    if (upload.file_name.empty()) {
      upload.file_name = absl::StrCat(upload.id.empty() ? "kernel" : upload.id, ".so");
    }
    upload.entry = first_.entry();
    upload.signature = first_.signature();
    upload.file = *std::move(file);
    upload.gone = [stream = weak_from_this()] {
      const std::shared_ptr<KernelUpload> waits = stream.lock();
      return waits == nullptr || waits->finished();
    };
    const std::shared_ptr<Session> session = hold_.session();
    const absl::Status queued = node_.kernel_hosts().Load(
        session.get(), session->owner(),
        [session, upload = std::move(upload), stream = weak_from_this()] {
          if (upload.gone()) return;
          const absl::StatusOr<std::shared_ptr<const SessionKernel>> kernel =
              session->kernels().Register(upload);
          const std::shared_ptr<KernelUpload> waits = stream.lock();
          if (waits == nullptr) return;
          if (!kernel.ok()) return waits->Answer(kernel.status());
          v1::Kernel response;
          ToProto(session->id(), **kernel, &response);
          waits->Answer(absl::OkStatus(), &response);
        });
    if (!queued.ok()) Answer(queued);
  }

  void OnLate() {
    Answer(Error(reason::kUploadDeadline,
                 absl::StrCat("the file did not come within ", absl::FormatDuration(kUploadTime))));
  }

  bool finished() const {
    MutexLock lock(mutex_);
    return finished_;
  }

  // Only the first answer counts.
  void Answer(const absl::Status& status, const v1::Kernel* response = nullptr) {
    MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
    gate_.Note(*this, caller_, has_first_ ? &first_ : nullptr, status);
    if (status.ok()) {
      Finish(status, *response);
    } else {
      FinishWithError(status);
    }
  }

  Node& node_;
  const Gate gate_;
  StopList& streams_;
  auth::Caller caller_;
  std::shared_ptr<KernelUpload> self_;           // until OnDone
  std::unique_ptr<auth::OpenCalls::Stay> stay_;  // until OnDone
  TimerQueue::Id timer_ = 0;
  StopList::Id stop_id_ = 0;

  // Of the reading side.
  v1::RegisterKernelRequest request_;
  v1::RegisterKernelRequest first_;  // without data; written once, with the lock
  bool has_first_ = false;
  SessionHold hold_;
  std::unique_ptr<KernelStore::Upload> upload_;

  mutable Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

rpc::ClientStreamReactor<v1::RegisterKernelRequest, v1::Kernel>* NewKernelUpload(
    Node& node, Gate gate, StopList& streams) {
  return KernelUpload::Make(node, gate, streams);
}

}  // namespace pto::daemon
