#pragma once

#include <gtest/gtest.h>

#include "comm/conformance/ranks.h"

namespace pto::comm {

// A test that every backend must pass.
class Conformance : public testing::TestWithParam<Backend> {
 protected:
  void Run(uint32_t size, const std::function<void(Rank&)>& body) {
    RunRanks(GetParam(), size, body);
  }
};

inline std::string LabelOf(const testing::TestParamInfo<Backend>& info) {
  return info.param.label();
}

// Use once in each test file, for its class derived from Conformance.
#define PTO_FOR_ALL_BACKENDS(suite) \
  INSTANTIATE_TEST_SUITE_P(Comm, suite, testing::ValuesIn(Backends()), LabelOf)

}  // namespace pto::comm
