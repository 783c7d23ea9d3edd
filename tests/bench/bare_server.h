#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace pto::bench {

// Size of the memory that Bare.Upload writes and Bare.Download reads.
inline constexpr uint64_t kBareMemoryBytes = uint64_t{256} << 20;

// Serves pto.bench.Bare on `address` until the process ends; returns only if it cannot listen.
// `tls_directory`: where TlsFiles are, for TLS; empty for none.
//
// This is the baseline, so it is as fast as a gRPC server can be: the asynchronous API, one thread
// that polls one completion queue, no layer of our own, and handlers that only copy bytes.
absl::Status ServeBare(const std::string& address, const std::string& tls_directory = "");

}  // namespace pto::bench
