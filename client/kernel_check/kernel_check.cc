#include "client/kernel_check/kernel_check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/kernel_check/case_runner.h"
#include "client/kernel_check/check_case.h"
#include "client/kernel_check/checked_kernel.h"
#include "client/kernel_check/code_place.h"
#include "client/kernel_check/shared_state.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"
#include "runtime/host/object/pto_signature.h"

namespace pto::kernel_check {
namespace {

// How often the parent looks after the process that runs a case.
constexpr absl::Duration kLook = absl::Microseconds(500);
// How long that may take to obey its cancel flag.
constexpr absl::Duration kObeyTime = absl::Seconds(2);
constexpr uint32_t kMostFindings = 64;
// What a kernel may allocate.
constexpr rlim_t kMaxBytes = rlim_t{4} << 30;

// Memory that a child shares with its parent.
struct Unmap {
  void operator()(SharedState* state) const { munmap(state, sizeof *state); }
};
using StatePointer = std::unique_ptr<SharedState, Unmap>;

StatePointer MapState() {
  void* const memory =
      mmap(nullptr, sizeof(SharedState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return StatePointer(memory == MAP_FAILED ? nullptr : static_cast<SharedState*>(memory));
}

// ---- the process of one case

void FailCase(SharedState& state, const absl::Status& status) {
  state.failed = 1;
  state.failed_by_usage = ReasonOf(status) == reason::kUsage.name ? 1 : 0;
  state.failure = std::string(status.message());
}

// An endless allocation must fail before it harms the machine.
void LimitMemory() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  const uint64_t now = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // Sanitizers reserve terabytes, and could not work with a limit.
  if (!statm || now > uint64_t{1} << 40) return;
  const rlimit memory = {now + kMaxBytes, now + kMaxBytes};
  setrlimit(RLIMIT_AS, &memory);
}

void RunInChild(const Options& options, uint32_t index, SharedState& state) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  LimitMemory();
  const int null = open("/dev/null", O_RDWR);
  if (null >= 0) {
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
  }
  const CrashStack stack;
  RecordCrashes(&state.crash);
  const absl::StatusOr<CheckedKernel> kernel = CheckedKernel::Load(options);
  if (!kernel.ok()) return FailCase(state, kernel.status());
  state.kernel = kernel->info().name;
  // The PTO ABI has no tensors without elements.
  const absl::StatusOr<Case> chosen = MakeCase(kernel->info(), options, index, !kernel->is_pto());
  if (!chosen.ok()) return FailCase(state, chosen.status());
  state.input = chosen->Describe(kernel->info());
  ++state.steps;
  // What a kernel throws does not come here.
  try {
    CaseRunner(*kernel, options, *chosen, state).Run();
  } catch (const std::bad_alloc&) {
    FailCase(state, Error(reason::kUsage, absl::StrCat("there is no memory to check it with ",
                                                       chosen->Describe(kernel->info()),
                                                       "; choose smaller ones with --shape")));
  }
}

// ---- its parent

std::string SignalName(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

class Checker {
 public:
  Checker(const Options& options, const host::ObjectReport& object) : options_(options) {
    report_.seed = options.seed;
    is_pto_ = object.abi == host::KernelAbi::kPto;
    report_.abi = is_pto_ ? "PTO" : "own";
  }

  absl::StatusOr<Report> Run(const std::function<void(uint32_t, uint32_t)>& progress) {
    const uint32_t first = options_.only.value_or(0);
    const uint32_t end = options_.only.has_value() ? first + 1 : options_.runs;
    for (uint32_t index = first; index < end && !too_slow_; ++index) {
      PTO_RETURN_IF_ERROR(RunCase(index));
      if (progress) progress(index + 1 - first, end - first);
    }
    if (report_.refused == report_.cases && report_.findings.empty()) {
      Add({Problem::kEverythingRefused, "",
           absl::StrCat("it failed on all ", report_.cases, " inputs, first with: ",
                        report_.refusal, "; tell with --shape and --values which inputs it takes"),
           "", first, "", report_.cases});
    }
    std::vector<Finding> sorted;  // by problem, and as they were found
    for (Finding& finding : report_.findings) {
      const auto place = std::upper_bound(
          sorted.begin(), sorted.end(), finding,
          [](const Finding& a, const Finding& b) { return a.problem < b.problem; });
      sorted.insert(place, std::move(finding));
    }
    report_.findings = std::move(sorted);
    return std::move(report_);
  }

 private:
  absl::Status RunCase(uint32_t index) {
    const StatePointer state = MapState();
    if (state == nullptr) return System("mmap");
    fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) return System("fork");
    if (child == 0) {
      RunInChild(options_, index, *state);
      state->finished = 1;
      // Nothing of the parent is to be cleaned up here.
      _exit(0);
    }
    index_ = index;
    const int status = Await(child, *state);
    if (state->failed != 0) {
      const std::string text = Text(state->failure);
      return state->failed_by_usage != 0 ? absl::Status(Error(reason::kUsage, text))
                                         : absl::Status(Error(reason::kFieldInvalid, text));
    }
    ++report_.cases;
    report_.calls += state->calls;
    if (report_.kernel.empty()) report_.kernel = Text(state->kernel);
    if (state->refused != 0 && report_.refused++ == 0) report_.refusal = Text(state->refusal);
    const uint32_t count = std::min(state->finding_count, SharedState::kMaxFindings);
    for (uint32_t i = 0; i < count; ++i) {
      const auto& found = state->findings[i];
      Add({found.problem, Text(found.subject), Text(found.text), "", index, Text(state->input), 1});
    }
    if (state->finished == 0 && !too_slow_) AddEnd(status, *state);
    return absl::OkStatus();
  }

  static absl::Status System(const char* call) {
    return Error(reason::kNotAvailable,
                 absl::StrCat(call, ": ", std::generic_category().message(errno)));
  }

  template <size_t kBytes>
  static std::string Text(const SharedText<kBytes>& text) {
    return std::string(text.text, strnlen(text.text, kBytes));
  }

  // Waits for the end of the process, and ends it if a step takes too long.
  int Await(pid_t child, SharedState& state) {
    uint32_t step = state.steps;
    absl::Time begin = absl::Now();
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      absl::SleepFor(kLook);
      if (state.steps != step) {
        step = state.steps;
        begin = absl::Now();
      }
      const bool cancelling = state.cancel_step == 1;
      const absl::Duration limit =
          cancelling ? std::max(kObeyTime, options_.timeout / 4) : options_.timeout;
      // A crash that could not be recorded to its end hangs too.
      if (absl::Now() - begin < limit) continue;
      if (state.crash.crashed == 0) ReportSlow(child, state, step, cancelling);
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
    return status;
  }

  void ReportSlow(pid_t child, SharedState& state, uint32_t step, bool cancelling) {
    too_slow_ = true;
    bool obeys = false;
    if (!cancelling) {
      state.cancelled = 1;
      const absl::Time end = absl::Now() + kObeyTime;
      while (!obeys && absl::Now() < end) {
        absl::SleepFor(kLook);
        siginfo_t info = {};
        obeys = state.steps != step ||
                (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                 info.si_pid == child);
      }
      Add({Problem::kEndless, "",
           absl::StrCat(step == 0 ? "loading it" : "it", " did not end within ",
                        absl::FormatDuration(options_.timeout)),
           "", index_, Text(state.input), 1});
    }
    if (!obeys && !is_pto_ && step != 0) {
      Add({Problem::kCancelIgnored, "",
           "it went on after its cancel flag was set: long loops must look at cancelled()", "",
           index_, Text(state.input), 1});
    }
  }

  // The process has ended before the case did.
  void AddEnd(int status, const SharedState& state) {
    Finding finding = {Problem::kCrash, "", "", "", index_, Text(state.input), 1};
    const CrashRecord& crash = state.crash;
    if (WIFEXITED(status)) {
      finding.problem = Problem::kEnded;
      finding.text = absl::StrCat("it ended its process with code ", WEXITSTATUS(status));
      return Add(std::move(finding));
    }
    if (crash.crashed == 0) {
      finding.text = absl::StrCat("its process ended with ", SignalName(WTERMSIG(status)));
      return Add(std::move(finding));
    }
    finding.place = PlaceOfCrash(options_.file, crash);
    const std::string block = absl::StrCat(" in block ", crash.block);
    finding.text =
        absl::StrCat(SignalName(crash.signal), " at address 0x", absl::Hex(crash.address), block);
    if (crash.signal == SIGABRT) {
      finding.text = absl::StrCat("SIGABRT", block,
                                  ": an assertion failed, an exception was not "
                                  "caught, or the heap is corrupt");
    } else if (crash.signal != SIGSEGV && crash.signal != SIGBUS) {
      finding.text = absl::StrCat(SignalName(crash.signal), block);
    } else {
      Locate(crash, &finding);
    }
    if (state.steps == 0) finding.text += " while it was loaded";
    Add(std::move(finding));
  }

  // Makes more of a crash at an address of a tensor.
  static void Locate(const CrashRecord& crash, Finding* finding) {
    const uint32_t places =
        std::min<uint32_t>(crash.place_count, static_cast<uint32_t>(CrashRecord::kMaxPlaces));
    for (uint32_t i = 0; i < places; ++i) {
      GuardedPlace place = crash.places[i];
      place.name[sizeof place.name - 1] = '\0';
      if (!place.Contains(crash.address)) continue;
      const std::string outside = place.Outside(crash.address);
      finding->subject = place.name;
      if (!outside.empty()) {
        finding->problem = Problem::kOutside;
        finding->text = absl::StrCat(crash.is_write != 0 ? "wrote " : "read ", outside,
                                     " in block ", crash.block);
      } else if (place.read_only != 0) {
        finding->problem = Problem::kInputWritten;
        finding->text = absl::StrCat("wrote to byte ", crash.address - place.view_begin, " of ",
                                     place.name, ", which it only reads, in block ", crash.block);
      }
    }
  }

  void Add(Finding finding) {
    for (Finding& known : report_.findings) {
      if (known.problem == finding.problem && known.subject == finding.subject &&
          known.place == finding.place) {
        ++known.cases;
        return;
      }
    }
    if (report_.findings.size() < kMostFindings) report_.findings.push_back(std::move(finding));
  }

  const Options& options_;
  bool is_pto_ = false;
  uint32_t index_ = 0;
  bool too_slow_ = false;
  Report report_;
};

}  // namespace

absl::StatusOr<Report> CheckKernel(
    const Options& options, const std::function<void(uint32_t done, uint32_t total)>& progress) {
  // Nothing of the object runs in this process.
  PTO_ASSIGN_OR_RETURN(const host::ObjectReport object, InspectFile(options));
  PTO_RETURN_IF_ERROR(object.status());
  if (object.abi == host::KernelAbi::kPto) {
    if (options.signature.empty()) {
      return Error(reason::kUsage, "a kernel of the PTO ABI needs a signature")
          .Hint(
              "pass --signature or --signature-file; deploy/docs/kernels.md defines the language");
    }
    PTO_RETURN_IF_ERROR(host::PtoSignature::Parse(options.signature).status());
  } else if (!options.signature.empty()) {
    return Error(reason::kUsage, "this kernel describes itself; it takes no signature");
  }
  return Checker(options, object).Run(progress);
}

}  // namespace pto::kernel_check
