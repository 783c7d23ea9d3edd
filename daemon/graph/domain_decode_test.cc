// Domains that tasks name, in all forms of a graph.

#include <string>
#include <vector>

#include "daemon/graph/open_decoder.h"
#include "daemon/graph/packed_decoder.h"
#include "daemon/graph/spec_decoder.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/domain_scalar.h"
#include "kernels/registry.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/domain_scalars.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;

int32_t Nothing(const pto_context*) { return 0; }

// A kernel `ranked` that takes a number and a domain.
class DomainDecodeTest : public ::testing::Test {
 protected:
  DomainDecodeTest() {
    static constexpr pto_scalar_info kScalars[] = {{"count", PTO_INTEGER},
                                                   {"domain", kDomainScalar}};
    pto_kernel_info info = {};
    info.struct_size = sizeof info;
    info.name = "ranked";
    info.description = "For tests.";
    info.function = &Nothing;
    info.default_core = PTO_AIV;
    info.scalars = kScalars;
    info.scalar_count = 2;
    EXPECT_THAT(kernels_.Add(info), IsOk());
    target_.kernels = &kernels_;
    target_.chip_clusters = {2, 2};
  }

  template <typename Message>
  static Message Parse(const std::string& text) {
    Message message;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
    return message;
  }
  absl::StatusOr<DecodedGraph> Decode(const std::string& text) {
    return DecodeGraphSpec(Parse<v1::GraphSpec>(text), "s1", target_);
  }
  absl::StatusOr<DecodedGraph> DecodePacked(const std::string& domains, int domain) {
    PackedDecoder decoder(target_, 100);
    (void)decoder.Add(Parse<v1::PackedGraphPart>(
        "header { parent: 'sessions/s1' kernels: 'ranked' chips: 'chips/1' " + domains + " }"));
    (void)decoder.Add(Parse<v1::PackedGraphPart>(
        "tasks { kernel: 0 scalar: 7 scalar: " + std::to_string(domain) + " }"));
    (void)decoder.Add(Parse<v1::PackedGraphPart>("commit { task_count: 1 }"));
    return decoder.Finish();
  }
  absl::StatusOr<absl::optional<engine::GraphSegment>> DecodeOpen(const std::string& lists,
                                                                  int domain) {
    OpenDecoder::Options options;
    options.session = "s1";
    options.max_block_tasks = 100;
    OpenDecoder decoder(target_, options);
    return decoder.Add(Parse<v1::StreamRunBlock>(
        "kernels: 'ranked' chips: 'chips/1' " + lists +
        " tasks { kernel: 0 scalar: 7 scalar: " + std::to_string(domain) + " }"));
  }
  // The domains of the image, and the chips of each.
  static std::vector<std::string> Users(const engine::GraphImage& image) {
    std::vector<std::string> users;
    for (const engine::DomainUser& user : engine::FindDomainUsers(image)) {
      users.push_back(std::string(image.text(image.scalar_names()[user.scalar].name)) + " " +
                      std::to_string(user.chip));
    }
    return users;
  }

  static constexpr char kTask[] = "tasks { kernel: 'ranked' chip: 'chips/1' scalars { i64: 7 } ";

  KernelRegistry kernels_;
  engine::GraphTarget target_;
};

TEST_F(DomainDecodeTest, ATaskNamesADomainByIdOrName) {
  const std::string task = kTask;
  const auto graph =
      Decode(task + "scalars { domain: 'd' } }" + task +
             "scalars { domain: 'sessions/s1/domains/d' } }" + task + "scalars { domain: 'e' } }");
  ASSERT_THAT(graph, IsOk());
  EXPECT_THAT(Users(*graph->image), ElementsAre("domains/d 1", "domains/e 1"));
}

TEST_F(DomainDecodeTest, WhatIsNoDomainOfTheSessionIsRefused) {
  const auto refused = [&](const std::string& scalar) {
    return Decode(std::string(kTask) + "scalars { " + scalar + " } }").status();
  };
  const absl::Status other = refused("domain: 'sessions/s2/domains/d'");
  EXPECT_THAT(other, HasReason(reason::kSessionMismatch));
  EXPECT_EQ(GetErrorDetail(other)->field, "graph.tasks[0].scalars[1].domain");
  EXPECT_THAT(refused("domain: 'D'"), HasReason(reason::kIdInvalid));
  EXPECT_THAT(refused("domain: 'sessions/s1/buffers/d'"), HasReason(reason::kNameInvalid));
  EXPECT_THAT(refused("i64: 1"), HasReason(reason::kScalarInvalid));
  EXPECT_THAT(refused("ref: 'n'"), HasReason(reason::kScalarUnknown));
  // A domain is no number, neither for a task nor by name.
  EXPECT_THAT(Decode("tasks { kernel: 'ranked' chip: 'chips/1' scalars { domain: 'd' } "
                     "scalars { domain: 'd' } }"),
              HasReason(reason::kScalarInvalid));
  EXPECT_THAT(Decode("scalars { name: 'n' value { domain: 'd' } } tasks { }"),
              HasReason(reason::kScalarInvalid));
}

TEST_F(DomainDecodeTest, PackedTasksNameADomainByItsIndex) {
  const auto graph = DecodePacked("domains: 'c' domains: 'd' domains: 'sessions/s1/domains/c'", 1);
  ASSERT_THAT(graph, IsOk());
  EXPECT_THAT(Users(*graph->image), ElementsAre("domains/d 1"));
  EXPECT_THAT(Users(*DecodePacked("domains: 'c' domains: 'd' domains: 'c'", 2)->image),
              ElementsAre("domains/c 1"));
  const absl::Status beyond = DecodePacked("domains: 'c'", 1).status();
  EXPECT_THAT(beyond, HasReason(reason::kBlockInvalid));
  EXPECT_EQ(GetErrorDetail(beyond)->field, "tasks[block 0].scalar[1]");
  EXPECT_THAT(DecodePacked("domains: 'sessions/s2/domains/c'", 0),
              HasReason(reason::kSessionMismatch));
}

TEST_F(DomainDecodeTest, SegmentsListTheirDomains) {
  const auto segment = DecodeOpen("domains: 'c' domains: 'd'", 1);
  ASSERT_THAT(segment, IsOk());
  EXPECT_THAT(Users(*(*segment)->image), ElementsAre("domains/d 1"));
  EXPECT_THAT(DecodeOpen("", 0), HasReason(reason::kBlockInvalid));
  const absl::Status other = DecodeOpen("domains: 'sessions/s2/domains/c'", 0).status();
  EXPECT_THAT(other, HasReason(reason::kSessionMismatch));
  EXPECT_EQ(GetErrorDetail(other)->field, "blocks[0].domains[0]");
}

}  // namespace
}  // namespace pto::daemon
