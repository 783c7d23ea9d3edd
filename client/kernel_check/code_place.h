#pragma once

#include <cstdint>
#include <string>

#include "client/kernel_check/crash_record.h"

namespace pto::kernel_check {

// Where in the source of the object `file` a recorded crash happened: the innermost function of it,
// with file and line if it was compiled with -g and addr2line is installed. Empty if the crash was
// not in it.
std::string PlaceOfCrash(const std::string& file, const CrashRecord& record);

}  // namespace pto::kernel_check
