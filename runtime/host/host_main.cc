#include "runtime/host/host_main.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/engine/exec/blocking_pool.h"
#include "runtime/host/block_caller.h"
#include "runtime/host/control_block.h"
#include "runtime/host/crash_handler.h"
#include "runtime/host/lifeline.h"
#include "runtime/host/message.h"
#include "runtime/host/object/pto_hooks.h"
#include "runtime/host/post_source.h"
#include "runtime/host/report_sink.h"
#include "runtime/host/sandbox.h"

namespace pto::host {
namespace {

constexpr uint32_t kMostRunners = 64;

// What was wrong with the start; the daemon logs it.
int Fail(const std::string& what) {
  const std::string line = absl::StrCat("kernel host: ", what, "\n");
  (void)!write(STDERR_FILENO, line.data(), line.size());
  return 2;
}

ControlBlock* MapControl() {
  struct stat file = {};
  if (fstat(kControlDescriptor, &file) != 0 ||
      static_cast<uint64_t>(file.st_size) != sizeof(ControlBlock)) {
    return nullptr;
  }
  void* const data = mmap(nullptr, sizeof(ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED,
                          kControlDescriptor, 0);
  if (data == MAP_FAILED) return nullptr;
  auto* const control = static_cast<ControlBlock*>(data);
  return control->GuardsHold() ? control : nullptr;
}

// There may be a thread for each core of all chips, and the memory for all stacks counts as used.
void LimitStacks() {
  constexpr size_t kStackBytes = size_t{2} << 20;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, kStackBytes) == 0) {
    pthread_setattr_default_np(&attributes);
  }
  pthread_attr_destroy(&attributes);
}

class Host {
 public:
  Host(ControlBlock& control, const KernelLoader& loader)
      : loader_(loader),
        posts_(control.to_host_ring()),
        reports_(control.to_daemon_ring(), kDoorbellDescriptor),
        caller_(control, tables_, reports_) {}

  int Run() {
    Order order;
    FileDescriptor descriptor;
    if (!Receive(&order, &descriptor)) return 0;
    const OrderMessage start = order.head;
    if (start.kind != OrderMessage::kStart) return Fail("the first order is not the start");
    AnswerMessage ready;
    ready.kind = AnswerMessage::kReady;
    ready.sandbox = ApplySandbox(start.sandbox);
    const CrashStack stack;
    LimitStacks();
    // They never end: the process does.
    for (uint32_t i = 0; i < std::clamp(start.runners, 1u, kMostRunners); ++i) {
      std::thread([this] { RunPosts(); }).detach();
    }
    Answer(ready);
    tables_.FinishOrder(start.number);
    while (Receive(&order, &descriptor)) {
      Do(order, descriptor.get());
      descriptor = FileDescriptor();
      tables_.FinishOrder(order.head.number);
    }
    return 0;
  }

 private:
  // Returns false when the daemon is gone.
  static bool Receive(Order* order, FileDescriptor* descriptor) {
    std::vector<std::byte> bytes;
    const LifelineResult received = ReceiveMessage(kLifelineDescriptor, Order::kMaxBytes,
                                                   /*wait=*/true, &bytes, descriptor);
    if (received != LifelineResult::kDone) return false;
    absl::StatusOr<Order> parsed = ParseOrder(bytes);
    if (!parsed.ok()) CrashHandler::GiveUp(std::string(parsed.status().message()).c_str());
    *order = *std::move(parsed);
    return true;
  }

  static void Answer(const AnswerMessage& answer) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&answer);
    // The daemon reads all answers, so this waits only for a moment.
    while (SendMessage(kLifelineDescriptor, absl::MakeConstSpan(bytes, sizeof answer), -1) ==
           LifelineResult::kLater) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  static void Refuse(uint32_t id, const absl::Status& why) {
    AnswerMessage answer;
    answer.kind = AnswerMessage::kRefused;
    answer.id = id;
    SetText(absl::MakeSpan(answer.text), why.message());
    Answer(answer);
  }

  void Do(const Order& whole, int descriptor) {
    const OrderMessage& order = whole.head;
    switch (order.kind) {
      case OrderMessage::kStart:
        break;
      case OrderMessage::kLoad:
        return Load(whole, descriptor);
      case OrderMessage::kUnload:
        return tables_.RemoveKernel(order.id);
      case OrderMessage::kMap:
        if (absl::Status mapped = tables_.Map(order.id, descriptor, order.bytes); !mapped.ok()) {
          Refuse(order.id, mapped);
        }
        return;
      case OrderMessage::kUnmap:
        return tables_.Unmap(order.id);
      case OrderMessage::kDomain:
        // A window that could not be mapped was reported. Tasks that use the domain fail.
        (void)tables_.AddDomain(order.subject, whole.ranks);
        return;
      case OrderMessage::kForgetDomain:
        return tables_.RemoveDomain(order.subject);
      case OrderMessage::kEndRun:
        return EndPtoRun(order.subject);
    }
  }

  void Load(const Order& whole, int descriptor) {
    const OrderMessage& order = whole.head;
    KernelObject object;
    object.descriptor = descriptor;
    object.abi = order.abi;
    object.entry = order.entry;
    object.file_name = order.file_name;
    object.name = order.name;
    object.signature = whole.signature;
    absl::StatusOr<KernelCode> code = loader_(object);
    if (!code.ok()) return Refuse(order.id, code.status());
    absl::StatusOr<KernelDescription> description = Describe(*code->info);
    if (!description.ok()) return Refuse(order.id, description.status());
    AnswerMessage answer;
    answer.kind = AnswerMessage::kLoaded;
    answer.id = order.id;
    answer.description = *description;
    answer.description.abi = order.abi;
    tables_.AddKernel(order.id, *std::move(code));
    Answer(answer);
  }

  [[noreturn]] void RunPosts() {
    const CrashStack stack;
    std::vector<std::byte> message;
    // Its memory is used again and again.
    PostView post;
    while (true) {
      posts_.Take(&message);
      if (absl::Status parsed = ParsePost(message, &post); !parsed.ok()) {
        CrashHandler::GiveUp(std::string(parsed.message()).c_str());
      }
      std::shared_ptr<const KernelCode> kernel = caller_.Find(post);
      if (!BlockCaller::Blocks(kernel.get())) {
        caller_.Call(post, kernel.get());
        continue;
      }
      blocking_.Run([this, post, kernel = std::move(kernel)] {
        // One for each thread of the pool.
        thread_local const CrashStack own_stack;
        caller_.Call(post, kernel.get());
      });
    }
  }

  const KernelLoader& loader_;
  HostTables tables_;
  PostSource posts_;
  ReportSink reports_;
  BlockCaller caller_;
  engine::BlockingPool blocking_;
};

}  // namespace

int RunHost(const KernelLoader& loader) {
  // If the daemon has ended before this call, the lifeline says so.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return Fail("PR_SET_PDEATHSIG");
  ControlBlock* const control = MapControl();
  if (control == nullptr) return Fail("it was not started by a daemon of this build");
  // Kernels have no use for the descriptor. Its number stays taken.
  const FileDescriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.valid() || dup2(null.get(), kControlDescriptor) < 0) return Fail("/dev/null");
  CrashHandler::Install(&control->crash);
  SetPtoEnvironment();
  // Lines of kernels, whole and at once.
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  // Not destroyed: its threads use it until the process ends.
  const int code = (new Host(*control, loader))->Run();
  // Without destructors, which would wait for kernels.
  _exit(code);
}

}  // namespace pto::host
