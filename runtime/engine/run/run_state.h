#pragma once

namespace pto::engine {

enum class RunState { kQueued = 1, kRunning, kCancelling, kSucceeded, kFailed, kCancelled };
inline bool IsFinal(RunState state) { return state >= RunState::kSucceeded; }

}  // namespace pto::engine
