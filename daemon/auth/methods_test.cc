#include "daemon/auth/methods.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "pto/v1/buffer.pb.h"
#include "pto/v1/domain.pb.h"
#include "pto/v1/event.pb.h"
#include "pto/v1/kernel.pb.h"
#include "pto/v1/node.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"

namespace pto::daemon::auth {
namespace {

using google::protobuf::FileDescriptor;

// A method that is added to the API must be added to the table, with what it needs.
TEST(MethodsTest, TheTableHasEveryMethodOfTheApi) {
  absl::flat_hash_set<std::string> api;
  for (const FileDescriptor* file :
       {v1::GetNodeRequest::descriptor()->file(), v1::CreateSessionRequest::descriptor()->file(),
        v1::CreateBuffersRequest::descriptor()->file(), v1::Kernel::descriptor()->file(),
        v1::Domain::descriptor()->file(), v1::SubmitRunRequest::descriptor()->file(),
        v1::WatchEventsRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int k = 0; k < file->service(i)->method_count(); ++k) {
        api.insert(
            absl::StrCat(file->service(i)->full_name(), "/", file->service(i)->method(k)->name()));
      }
    }
  }
  absl::flat_hash_set<std::string> table;
  for (const Method& method : AllMethods()) {
    EXPECT_TRUE(table.insert(std::string(method.name)).second) << method.name;
  }
  EXPECT_EQ(table, api);
}

TEST(MethodsTest, OnlyOperatorsChangeTheNode) {
  EXPECT_EQ(FindMethod("pto.v1.NodeService/DrainNode").need, Need::kOperator);
  EXPECT_EQ(FindMethod("pto.v1.NodeService/ResetChip").need, Need::kOperator);
  EXPECT_EQ(FindMethod("pto.v1.NodeService/DrainNode").short_name(), "DrainNode");
}

}  // namespace
}  // namespace pto::daemon::auth
