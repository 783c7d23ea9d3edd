// Every scenario against a real daemon, on as many chips as it can use.

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/examples/scenarios/scenario.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {
namespace {

using scenarios::AllScenarios;
using scenarios::Options;
using scenarios::Scenario;

constexpr int kRepeat = kAddressSanitizer ? 50 : 1000;

// The scenarios that can run here: a kernel host must not be a process of a sanitizer, which needs
// more memory than a host may have.
std::vector<Scenario> Scenarios() {
  std::vector<Scenario> scenarios;
  for (const Scenario& scenario : AllScenarios()) {
    if (kAddressSanitizer && std::string(scenario.name) == "own_kernel_ffn") continue;
    scenarios.push_back(scenario);
  }
  return scenarios;
}

Options OnChips(uint32_t count, int repeat = 1) {
  Options options;
  options.chips.resize(count);
  std::iota(options.chips.begin(), options.chips.end(), 0);
  options.repeat = repeat;
  return options;
}

class ScenariosTest : public ::testing::Test {
 protected:
  DaemonProcess daemon_{{"--sim-chips=16"}};
  Client client_ = *Client::Connect(daemon_.address());
};

TEST_F(ScenariosTest, AllPassOnTwoToSixteenChips) {
  for (const Scenario& scenario : Scenarios()) {
    std::vector<uint32_t> counts;
    for (const uint32_t count : {2u, 4u, 8u, 16u}) {
      const uint32_t used = std::clamp(count, scenario.min_chips, scenario.max_chips);
      if (counts.empty() || counts.back() != used) counts.push_back(used);
    }
    for (const uint32_t count : counts) {
      EXPECT_THAT(scenario.run(client_, OnChips(count)), IsOk())
          << scenario.name << " on " << count << " chips";
    }
  }
}

// Leftovers of one use must not end a wait of the next. ptoctl_scenarios_test repeats the
// collectives.
TEST_F(ScenariosTest, RepeatedInOneDomainTheyStayRight) {
  for (const Scenario& scenario : Scenarios()) {
    if (scenario.takes_size) continue;
    // Scenarios that move megabytes, or have a costly setup, are repeated less often.
    const std::string name = scenario.name;
    const bool heavy =
        name == "moe_ep" || name == "message_stream" || name == "multi_chip_dispatch";
    const uint32_t count = std::clamp(4u, scenario.min_chips, scenario.max_chips);
    EXPECT_THAT(scenario.run(client_, OnChips(count, heavy ? kRepeat / 50 : kRepeat)), IsOk())
        << scenario.name;
  }
}

TEST_F(ScenariosTest, SizesThatDivideByNothingWork) {
  for (const Scenario& scenario : AllScenarios()) {
    if (!scenario.takes_size) continue;
    for (const int64_t size : {1, 7, 1'009}) {
      Options options = OnChips(5);
      options.size = size;
      EXPECT_THAT(scenario.run(client_, options), IsOk()) << scenario.name << ", size " << size;
    }
  }
}

}  // namespace
}  // namespace pto::testing
