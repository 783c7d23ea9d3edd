// What the files of the fake runtime share, and what its HCCL uses of it.
#pragma once

#include "device.h"
#include "world.h"

namespace fake {

int32_t CurrentIndex();
bool IsInitialised();
// The rules that hold for nearly every function: initialised, a device, the right thread, no fault
// before. Returns a code.
int Enter(Call& call, const char* name);
// The rule that holds for all functions: one thread issues everything of a device.
void CheckThread(const char* name);
// nullptr, if it is none of the current device.
Stream* CheckStream(void* stream);
Event* CheckEvent(void* event);

}  // namespace fake
