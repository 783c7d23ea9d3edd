#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/client.h"
#include "tests/harness/daemon_process.h"

// Kernels of users, for tests of a real daemon.
namespace pto::testing {

// A client of the daemon. Aborts the test's process if it cannot connect.
Client ConnectTo(const DaemonProcess& daemon);

// The path of an object of //tests/kernels, such as `own_add_gcc`.
std::string Object(absl::string_view name);
// That of the object with good and bad kernels of //runtime/host/testing/kernels.
std::string TestKernels(absl::string_view name = "test_kernels");
// Uploads one of them under its name.
absl::StatusOr<v1::Kernel> RegisterTestKernel(Session& session, const std::string& entry);

// Adds two tensors with the kernel, in several blocks, and checks the sum.
absl::Status AddWith(Session& session, const std::string& kernel, uint32_t chip = 0);

// Submits the graph and waits for its end. The first error of the run.
absl::Status RunToEnd(Session& session, const GraphBuilder& graph, const RunOptions& options = {});

// Whether the process still is there.
bool ProcessExists(int64_t pid);

}  // namespace pto::testing
