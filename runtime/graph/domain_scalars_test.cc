#include "runtime/graph/domain_scalars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/domain_scalar.h"
#include "kernels/registry.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/open_graph.h"

namespace pto::engine {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

int32_t Nothing(const pto_context*) { return 0; }

constexpr pto_scalar_info kScalars[] = {{"domain", kDomainScalar}, {"count", PTO_INTEGER}};

pto_kernel_info Info(const char* name, uint32_t scalars) {
  pto_kernel_info info = {};
  info.struct_size = sizeof info;
  info.name = name;
  info.description = "For tests.";
  info.function = &Nothing;
  info.default_core = PTO_AIV;
  info.scalars = kScalars;
  info.scalar_count = scalars;
  return info;
}

// Kernel 0 takes a domain and a number, kernel 1 nothing.
class DomainScalarsTest : public ::testing::Test {
 protected:
  DomainScalarsTest() {
    EXPECT_THAT(kernels_.Add(Info("ranked", 2)), IsOk());
    EXPECT_THAT(kernels_.Add(Info("plain", 0)), IsOk());
    target_.kernels = &kernels_;
    target_.chip_clusters = {2, 2, 2};
  }

  static ScalarInput Named(uint32_t index) {
    ScalarInput scalar;
    scalar.kind = ScalarInput::Kind::kNamed;
    scalar.named = index;
    return scalar;
  }
  static ScalarInput Number(int64_t value) {
    ScalarInput scalar;
    scalar.kind = ScalarInput::Kind::kInteger;
    scalar.i64 = value;
    return scalar;
  }
  template <typename Builder>
  static absl::Status Add(Builder& builder, uint32_t kernel, std::vector<ScalarInput> scalars,
                          uint32_t chip, std::vector<uint32_t> members = {}) {
    TaskInput task;
    task.kernel = kernel;
    task.chip = chip;
    task.scalars = scalars;
    std::vector<TaskInput::Member> list;
    for (const uint32_t member : members) list.push_back({member, {}});
    task.members = list;
    return builder.AddTask(task).status();
  }

  KernelRegistry kernels_;
  GraphTarget target_;
};

MATCHER_P3(User, scalar, chip, task, "") {
  return arg.scalar == scalar && arg.chip == chip && arg.task == task;
}

TEST_F(DomainScalarsTest, FindsTheChipsOfEachDomain) {
  GraphBuilder builder(target_);
  builder.AddKernel("ranked").value();
  builder.AddKernel("plain").value();
  const uint32_t number = builder.AddScalar("domains/a", Number(5));
  const uint32_t a = builder.AddDomain("domains/a");
  const uint32_t b = builder.AddDomain("domains/b");
  EXPECT_THAT(Add(builder, 1, {}, 2), IsOk());
  EXPECT_THAT(Add(builder, 0, {Named(a), Named(number)}, 1), IsOk());
  EXPECT_THAT(Add(builder, 0, {Named(a), Number(1)}, 1), IsOk());
  EXPECT_THAT(Add(builder, 0, {Named(b), Number(1)}, 0, {2, 1}), IsOk());
  const std::shared_ptr<const GraphImage> image = builder.Build().value();
  EXPECT_THAT(FindDomainUsers(*image),
              ElementsAre(User(a, 1u, 1u), User(b, 2u, 3u), User(b, 1u, 3u)));
  // The client's scalar of the same name is the one that a launch binds.
  EXPECT_EQ(image->FindScalar("domains/a"), number);
  EXPECT_EQ(image->FindScalar("domains/b"), absl::nullopt);
}

TEST_F(DomainScalarsTest, ANumberIsNoDomain) {
  const auto refused = [&](bool reversed) {
    GraphBuilder builder(target_);
    builder.AddKernel("ranked").value();
    const uint32_t number = builder.AddScalar("n", Number(5));
    const uint32_t domain = builder.AddDomain("d");
    return reversed ? Add(builder, 0, {Named(domain), Named(domain)}, 0)
                    : Add(builder, 0, {Named(number), Number(1)}, 0);
  };
  EXPECT_THAT(refused(false), HasReason(reason::kScalarInvalid));
  EXPECT_THAT(refused(true), HasReason(reason::kScalarInvalid));
  GraphBuilder builder(target_);
  builder.AddKernel("ranked").value();
  EXPECT_THAT(Add(builder, 0, {Number(0), Number(1)}, 0), HasReason(reason::kScalarInvalid));
}

TEST_F(DomainScalarsTest, SegmentsHaveTheDomainsThatTheyUse) {
  OpenGraph graph(target_);
  graph.AddKernel("ranked").value();
  graph.AddKernel("plain").value();
  graph.AddDomain("domains/a");
  const uint32_t b = graph.AddDomain("domains/b");
  EXPECT_THAT(Add(graph, 0, {Named(b), Number(1)}, 2), IsOk());
  for (int i = 0; i < 2; ++i) {
    const GraphSegment segment = graph.Cut().value();
    EXPECT_THAT(FindDomainUsers(*segment.image), ElementsAre(User(0u, 2u, 0u)));
    EXPECT_EQ(segment.image->text(segment.image->scalar_names()[0].name), "domains/b");
    EXPECT_THAT(Add(graph, 0, {Named(b), Number(1)}, 2), IsOk());
  }
  graph.Cut().value();
  EXPECT_THAT(Add(graph, 1, {}, 0), IsOk());
  EXPECT_THAT(FindDomainUsers(*graph.Cut()->image), IsEmpty());
  EXPECT_THAT(Add(graph, 0, {Named(2), Number(1)}, 2), HasReason(reason::kScalarUnknown));
}

}  // namespace
}  // namespace pto::engine
