#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pto::host {

// Makes the symbols of an object private to it, in a copy of its file.
//
// g++ marks inline variables and static variables of inline functions as unique: the process has
// one instance of each, whichever objects define it. Two kernels that were built against different
// versions of a header would share a variable whose type has changed, and crash. As weak symbols,
// they belong to each object alone, because kernels are loaded with RTLD_LOCAL.
//
// Variables that protect memory shared by all kernels must stay one for the process, whichever
// compiler made them: they are marked as unique.
struct PrivateCopyReport {
  std::vector<std::string> made_private;
  std::vector<std::string> made_unique;
};

// Changes the bytes. FIELD_INVALID, without changes, if they are no shared object.
absl::Status MakeSymbolsPrivate(std::string& bytes, PrivateCopyReport* report = nullptr);

// Whether the process must have one instance of the symbol.
bool IsSharedByKernels(absl::string_view symbol);

}  // namespace pto::host
