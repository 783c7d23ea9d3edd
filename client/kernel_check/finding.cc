#include "client/kernel_check/finding.h"

namespace pto::kernel_check {

const char* ProblemName(Problem problem) {
  switch (problem) {
    case Problem::kCrash:
      return "crash";
    case Problem::kEnded:
      return "ended-process";
    case Problem::kOutside:
      return "outside-view";
    case Problem::kGapWritten:
      return "gap-written";
    case Problem::kGapRead:
      return "gap-read";
    case Problem::kInputWritten:
      return "input-written";
    case Problem::kUnwritten:
      return "unwritten";
    case Problem::kOldContents:
      return "old-contents";
    case Problem::kUnstable:
      return "unstable";
    case Problem::kBlockOrder:
      return "block-order";
    case Problem::kBlockCount:
      return "block-count";
    case Problem::kSameView:
      return "same-view";
    case Problem::kCancelIgnored:
      return "cancel-ignored";
    case Problem::kEndless:
      return "endless";
    case Problem::kBadCode:
      return "bad-code";
    case Problem::kCallRefused:
      return "call-refused";
    case Problem::kNeverSatisfied:
      return "never-satisfied";
    case Problem::kEverythingRefused:
      return "always-fails";
  }
  return "?";
}

}  // namespace pto::kernel_check
