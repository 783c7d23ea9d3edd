#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/host/object/libraries.h"

namespace pto::host {

// How a kernel is called.
enum class KernelAbi {
  kUnknown,
  kOwn,  // kernels/pto_kernel.h: the object exports a pto_kernel_info
  kPto,  // the object exports the function kernel_entry
};

// The symbols by which objects export a kernel, unless the registration names another.
inline constexpr char kOwnEntry[] = "pto_kernel_info";
inline constexpr char kPtoEntry[] = "kernel_entry";

struct InspectOptions {
  std::string entry = {};              // empty: the usual one of either ABI
  LibrarySource* libraries = nullptr;  // nullptr: those of this machine
};

// What is known of an object before it is loaded.
struct ObjectReport {
  // Why it cannot be loaded here, each with what to do. Empty: it can.
  std::vector<absl::Status> errors;

  KernelAbi abi = KernelAbi::kUnknown;
  std::string entry;         // the symbol that describes or is the kernel
  uint64_t entry_bytes = 0;  // its size
  std::string machine;       // for example "x86-64"
  std::string build_id;
  std::vector<std::string> libraries;
  bool initialisers = false;  // loading it runs code of it

  // Whether it waits in code that the engine does not control, because it imports functions that
  // wait. A loop without any call is not noticed. A kernel of our own ABI says itself what it does.
  bool blocks = false;
  std::vector<std::string> waits;  // those functions
  // A wait of a PTO kernel gives up after a while and returns as if it were satisfied, unless the
  // host forbids it in the environment. False: this object waits, and does not read that variable.
  bool waits_obey_host = true;

  // Symbols that the process would share among all objects that define them; see private_copy.h.
  std::vector<std::string> unique_symbols;

  // OK, or the first error.
  absl::Status status() const { return errors.empty() ? absl::OkStatus() : errors.front(); }
};

// Looks at a shared object without loading it. The bytes are untrusted.
ObjectReport Inspect(absl::string_view bytes, const InspectOptions& options = {});

// The environment variable that says after how many looks a wait of a PTO kernel gives up; 0:
// never.
inline constexpr char kWaitLooksVariable[] = "PTO_CPU_SIM_TWAIT_MAX_SPINS";

}  // namespace pto::host
