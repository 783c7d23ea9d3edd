// A kernel host as a program of its own, for tests. The daemon's own program can be one, too.

#include "runtime/host/host_main.h"
#include "runtime/host/object_loader.h"

int main() { return pto::host::RunHost(&pto::host::LoadObject); }
