#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::ptoctl {

// One file of a new kernel.
struct KernelFile {
  std::string name;  // in the kernel's folder
  std::string text;
};

// Whether kernels can have this name: 1 to 63 of `a-z 0-9 _`, starting with a letter.
bool IsKernelId(absl::string_view name);

// The source of a new kernel, with a test, a job and build files. `pto`: of the PTO ABI.
std::vector<KernelFile> MakeKernelFiles(absl::string_view name, bool pto);

// Writes the files into a folder, and creates it. USAGE, and nothing is written, if one of them
// exists.
absl::Status WriteKernelFiles(const std::vector<KernelFile>& files, const std::string& folder);

}  // namespace pto::ptoctl
