#include "client/run_state.h"

#include "absl/strings/str_cat.h"
#include "proto/status/status_proto.h"

namespace pto {
namespace {

absl::Status Outcome(v1::Run::State state, const v1::Status& error, const std::string& name) {
  // A rejected launch has an error and no state.
  if (error.code() != 0) return StatusFromProto(error);
  if (state == v1::Run::SUCCEEDED) return absl::OkStatus();
  if (!IsFinal(state)) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " has not ended: it is ", v1::Run::State_Name(state)));
  }
  return absl::UnknownError(
      absl::StrCat(name, " ended as ", v1::Run::State_Name(state), " without an error"));
}

}  // namespace

bool IsFinal(v1::Run::State state) {
  return state == v1::Run::SUCCEEDED || state == v1::Run::FAILED || state == v1::Run::CANCELLED;
}

absl::Status StatusOf(const v1::Run& run) {
  if (!IsFinal(run.state())) return Outcome(run.state(), {}, run.name());
  return Outcome(run.state(), run.error(), run.name());
}

absl::Status StatusOf(const v1::LaunchCompletion& completion) {
  return Outcome(completion.state(), completion.error(), completion.run());
}

}  // namespace pto
