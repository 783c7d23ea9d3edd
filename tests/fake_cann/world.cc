#include "world.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>

namespace fake {
namespace {

struct Rule {
  std::string symbol;
  int32_t device = -1;  // -1: all
  int64_t first = 1;
  int64_t last = 1;
  Fault fault;
  int64_t seen = 0;
};

struct World {
  Settings settings;
  int trace = -1;
  std::mutex mutex;
  std::vector<Rule> rules;
  bool planned = false;
};

const char* Variable(const char* name, const char* otherwise) {
  const char* const value = getenv(name);
  return value == nullptr || *value == 0 ? otherwise : value;
}

Fault ParseAction(const std::string& text) {
  const size_t comma = text.find(',');
  const std::string word = text.substr(0, comma);
  const int64_t value = comma == std::string::npos ? 0 : atoll(text.c_str() + comma + 1);
  if (word == "poison") return {Fault::kPoison, value};
  if (word == "delay") return {Fault::kDelay, value};
  if (word == "hang") return {Fault::kHang, 0};
  if (word == "kill") return {Fault::kKill, 0};
  if (word == "abort") return {Fault::kAbort, 0};
  if (word == "corrupt") return {Fault::kCorrupt, 0};
  return {Fault::kCode, atoll(word.c_str())};
}

std::vector<Rule> ParsePlan(const std::string& plan) {
  std::vector<Rule> rules;
  std::stringstream lines(plan);
  std::string line;
  while (std::getline(lines, line, ';')) {
    const size_t equal = line.find('=');
    if (equal == std::string::npos) continue;
    std::string left = line.substr(0, equal);
    Rule rule;
    rule.fault = ParseAction(line.substr(equal + 1));
    const size_t colon = left.rfind(':');
    const std::string nth = left.substr(colon + 1);
    left = left.substr(0, colon);
    const size_t at = left.find('@');
    if (at != std::string::npos) rule.device = atoi(left.c_str() + at + 1);
    rule.symbol = left.substr(0, at);
    if (nth == "*") {
      rule.last = INT64_MAX;
    } else {
      rule.first = atoll(nth.c_str());
      rule.last = nth.back() == '+' ? INT64_MAX : rule.first;
    }
    rules.push_back(rule);
  }
  return rules;
}

World* MakeWorld() {
  auto* const world = new World;
  Settings& settings = world->settings;
  settings.folder = Variable("FAKE_CANN_DIR", "/tmp/fake_cann");
  settings.devices = atoi(Variable("FAKE_CANN_DEVICES", "2"));
  settings.hbm_bytes = strtoull(Variable("FAKE_CANN_HBM_MIB", "256"), nullptr, 10) << 20;
  settings.time_scale = atof(Variable("FAKE_CANN_TIME_SCALE", "0.001"));
  settings.launch_us = atoll(Variable("FAKE_CANN_LAUNCH_US", "0"));
  settings.jitter_us = atoll(Variable("FAKE_CANN_JITTER_US", "0"));
  settings.fabric = atoi(Variable("FAKE_CANN_FABRIC", "0")) != 0;
  settings.version = atoi(Variable("FAKE_CANN_VERSION", "90000000"));
  mkdir(settings.folder.c_str(), 0700);
  const char* const trace = Variable("FAKE_CANN_TRACE", "");
  if (*trace != 0) world->trace = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  world->rules = ParsePlan(Variable("FAKE_CANN_PLAN", ""));
  return world;
}

World& TheWorld() {
  static World* const world = MakeWorld();
  return *world;
}

thread_local std::string last_text;
thread_local std::string told_text;

}  // namespace

void (*poison_device)(int32_t, int) = nullptr;

const Settings& GetSettings() { return TheWorld().settings; }

std::chrono::nanoseconds Scaled(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * GetSettings().time_scale * 1e9));
}

Fault NextFault(const std::string& symbol, int32_t device) {
  World& world = TheWorld();
  std::lock_guard<std::mutex> lock(world.mutex);
  Fault found;
  for (Rule& rule : world.rules) {
    if (rule.symbol != symbol || (rule.device >= 0 && rule.device != device)) continue;
    ++rule.seen;
    if (found.kind == Fault::kNone && rule.seen >= rule.first && rule.seen <= rule.last) {
      found = rule.fault;
    }
  }
  return found;
}

void SetErrorText(std::string text) { last_text = std::move(text); }

void Trace(int32_t device, const std::string& text) {
  World& world = TheWorld();
  if (world.trace < 0) return;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  char head[96];
  const int size =
      snprintf(head, sizeof head, "%ld.%09ld %d %ld dev%d ", static_cast<long>(now.tv_sec),
               now.tv_nsec, getpid(), syscall(SYS_gettid), device);
  const std::string line = std::string(head, static_cast<size_t>(size)) + text + "\n";
  (void)!write(world.trace, line.data(), line.size());
}

void Violation(int32_t device, const std::string& text) { Trace(device, "VIOLATION " + text); }

Call::Call(const char* name, int32_t device, std::string arguments)
    : name_(name), device_(device), arguments_(std::move(arguments)) {
  const Fault fault = NextFault(name, device);
  switch (fault.kind) {
    case Fault::kNone:
      break;
    case Fault::kCode:
      fault_ = static_cast<int>(fault.value);
      break;
    case Fault::kPoison:
      fault_ = static_cast<int>(fault.value);
      if (poison_device != nullptr) poison_device(device, fault_);
      break;
    case Fault::kDelay:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.value));
      break;
    case Fault::kHang:
      Trace(device, std::string(name) + " hangs");
      while (true) pause();
    case Fault::kKill:
      Trace(device, std::string(name) + " kills the process");
      kill(getpid(), SIGKILL);
      break;
    case Fault::kAbort:
      abort();
    case Fault::kCorrupt:
      corrupt_ = true;
      break;
  }
}

int Call::End(int code, const std::string& text) {
  if (code != 0) SetErrorText(text.empty() ? std::string("EE9999: ") + name_ + " failed" : text);
  if (TheWorld().trace >= 0) {
    Trace(device_, std::string(name_) + "(" + arguments_ + ") = " + std::to_string(code));
  }
  return code;
}

void WithFolderLock(const std::function<void()>& use) {
  static std::mutex* const in_process = new std::mutex;
  std::lock_guard<std::mutex> lock(*in_process);
  const int file =
      open((GetSettings().folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  flock(file, LOCK_EX);
  use();
  close(file);
}

}  // namespace fake

// Get and clear; the pointer is good until the next call.
FAKE_EXPORT const char* aclGetRecentErrMsg() {
  if (fake::NextFault("aclGetRecentErrMsg", -1).kind != fake::Fault::kNone) return nullptr;
  if (fake::last_text.empty()) return nullptr;
  fake::told_text = std::move(fake::last_text);
  fake::last_text.clear();
  return fake::told_text.c_str();
}

// For tests: replaces the plan, and begins to count anew.
FAKE_EXPORT void fake_cann_set_plan(const char* plan) {
  fake::World& world = fake::TheWorld();
  std::lock_guard<std::mutex> lock(world.mutex);
  world.rules = fake::ParsePlan(plan);
}
