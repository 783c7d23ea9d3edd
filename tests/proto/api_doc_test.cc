// Fails if something in the API is not documented. See doc_check.h for the requirements.

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/compiler/importer.h"
#include "gtest/gtest.h"
#include "tests/proto/doc_check.h"

namespace pto::testing {
namespace {

namespace pb = ::google::protobuf;
using ::testing::Contains;
using ::testing::IsEmpty;

class Complain final : public pb::compiler::MultiFileErrorCollector {
 public:
  void AddError(const std::string& file, int line, int /*column*/,
                const std::string& message) override {
    ADD_FAILURE() << file << ":" << line + 1 << ": " << message;
  }
};

// Import paths of the API's files, which Bazel lays out below proto/.
std::vector<std::string> ApiFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("proto")) {
    if (entry.path().extension() == ".proto") {
      files.push_back(entry.path().lexically_relative("proto").string());
    }
  }
  return files;
}

TEST(ApiDocTest, EverythingIsDocumented) {
  const std::vector<std::string> files = ApiFiles();
  ASSERT_THAT(files, Contains("pto/v1/run.proto"));
  ASSERT_THAT(files, Contains("grpc/health/v1/health.proto"));

  pb::compiler::DiskSourceTree tree;
  tree.MapPath("", "proto");
  tree.MapPath("", "/usr/include");  // google/protobuf/*.proto
  Complain complain;
  pb::compiler::Importer importer(&tree, &complain);
  for (const std::string& name : files) {
    const pb::FileDescriptor* file = importer.Import(name);
    ASSERT_NE(file, nullptr) << name;
    for (const std::string& hole : CheckDocumentation(*file)) ADD_FAILURE() << "proto/" << hole;
  }
}

}  // namespace
}  // namespace pto::testing
