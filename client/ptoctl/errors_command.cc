#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/job/nearest.h"
#include "client/ptoctl/commands.h"
#include "client/ptoctl/error_pages.h"
#include "client/ptoctl/table.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::ptoctl {
namespace {

google::protobuf::Struct ToStruct(const Reason& reason) {
  google::protobuf::Struct object;
  auto& fields = *object.mutable_fields();
  const auto set = [&fields](const char* key, absl::string_view value) {
    fields[key].set_string_value(std::string(value));
  };
  set("reason", reason.name);
  set("code", absl::StatusCodeToString(reason.code));
  set("scope", ScopeName(reason.scope));
  set("mechanism", reason.mechanism);
  set("hint", reason.hint);
  set("help", HelpAnchor(reason));
  if (const ErrorSection* section = FindErrorSection(reason.name)) set("text", section->text);
  return object;
}

void PrintJson(const std::vector<const Reason*>& reasons, std::ostream& out) {
  google::protobuf::ListValue list;
  for (const Reason* reason : reasons)
    *list.add_values()->mutable_struct_value() = ToStruct(*reason);
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(list, &json, options).ok()) json = "null\n";
  out << json;
}

void PrintNames(const std::vector<const Reason*>& reasons, std::ostream& out) {
  for (const Reason* reason : reasons) out << reason->name << '\n';
}

absl::Status List(const Context& context) {
  const std::vector<const Reason*> reasons(AllReasons().begin(), AllReasons().end());
  if (context.quiet) {
    PrintNames(reasons, context.out);
  } else if (context.output == "json") {
    PrintJson(reasons, context.out);
  } else {
    Table table({"REASON", "CODE", "SCOPE", "MECHANISM", "HINT"});
    for (const Reason* reason : reasons) {
      table.Add({std::string(reason->name), absl::StatusCodeToString(reason->code),
                 std::string(ScopeName(reason->scope)), std::string(reason->mechanism),
                 std::string(reason->hint)});
    }
    context.out << table.Format();
  }
  return absl::OkStatus();
}

absl::StatusOr<const Reason*> Resolve(const std::string& given) {
  const std::string name = absl::AsciiStrToUpper(given);
  if (const Reason* reason = FindReason(name)) return reason;
  std::vector<std::string> names;
  for (const Reason* reason : AllReasons()) names.emplace_back(reason->name);
  const std::string nearest = job::Nearest(name, names);
  return Error(reason::kUsage, absl::StrCat("there is no reason '", given, "'"))
      .Hint(nearest.empty() ? "list them with `ptoctl errors ls`"
                            : absl::StrCat("did you mean '", nearest, "'?"));
}

absl::Status Show(const Context& context, const std::vector<std::string>& given) {
  std::vector<const Reason*> reasons;
  for (const std::string& name : given) {
    PTO_ASSIGN_OR_RETURN(const Reason* reason, Resolve(name));
    reasons.push_back(reason);
  }
  if (context.quiet) {
    PrintNames(reasons, context.out);
    return absl::OkStatus();
  }
  if (context.output == "json") {
    PrintJson(reasons, context.out);
    return absl::OkStatus();
  }
  for (const Reason* reason : reasons) {
    if (reason != reasons.front()) context.out << '\n';
    const ErrorSection* section = FindErrorSection(reason->name);
    context.out << reason->name << "\n\n" << (section == nullptr ? "" : section->text) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

void AddErrorsCommand(Command& root, Context& context) {
  Command& errors = root.AddCommand("errors", "Explain error reasons (works without a daemon)");
  Command& ls = errors.AddCommand("ls", "List all error reasons");
  ls.Footer("Examples:\n  ptoctl errors ls\n  ptoctl errors ls -o json");
  ls.Action([&context] { return List(context); });

  Command& show = errors.AddCommand("show", "Show what an error reason means and how to fix it");
  auto reasons = std::make_shared<std::vector<std::string>>();
  show.AddOption("REASON", reasons.get(),
                 "Reason shown in parentheses after an error message, for example KERNEL_UNKNOWN")
      .Required();
  show.Footer("Examples:\n  ptoctl errors show KERNEL_UNKNOWN\n  ptoctl errors show wait_timeout");
  show.Action([&context, reasons] { return Show(context, *reasons); });
}

}  // namespace pto::ptoctl
