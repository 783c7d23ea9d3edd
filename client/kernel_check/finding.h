#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pto::kernel_check {

// What can be wrong with a kernel.
enum class Problem : uint32_t {
  kCrash,              // a signal
  kEnded,              // it ended the process
  kOutside,            // it left its views: a guard page was hit
  kGapWritten,         // it wrote between or next to the elements of a view
  kGapRead,            // its results depend on what is between or next to the elements
  kInputWritten,       // it wrote to a tensor that it only reads
  kUnwritten,          // it left elements of an output as they were
  kOldContents,        // its results depend on what an output held before
  kUnstable,           // its results differ between runs with the same inputs
  kBlockOrder,         // its results depend on the order of the blocks
  kBlockCount,         // its results depend on the number of blocks
  kSameView,           // its results differ if an output is the same view as an input
  kCancelIgnored,      // it goes on after its cancel flag was set
  kEndless,            // it does not end
  kBadCode,            // what it returns does not fit what happened
  kCallRefused,        // it made a call of the API that it must not make
  kNeverSatisfied,     // it waits for something that does not come
  kEverythingRefused,  // it fails on all inputs
};

// In one or two words, for tables and scripts.
const char* ProblemName(Problem problem);

struct Finding {
  Problem problem = Problem::kCrash;
  std::string subject;  // the tensor, if it is about one
  std::string text;
  std::string place;  // in the code, if it is known: function, file and line
  uint32_t case_index = 0;
  std::string input;   // of that case, in words
  uint32_t cases = 1;  // how many cases showed it
};

// What a check has found.
struct Report {
  std::string kernel;
  std::string abi;
  uint64_t seed = 0;
  uint32_t cases = 0;
  uint32_t refused = 0;  // cases that the kernel failed with an error of its own
  uint64_t calls = 0;    // of blocks
  std::string refusal;   // the first of these errors
  std::vector<Finding> findings;
};

}  // namespace pto::kernel_check
