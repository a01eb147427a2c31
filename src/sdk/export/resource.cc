#include "sdk/export/resource.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/version.h"
#include "instruments/cells.h"

namespace gpulens::sdk {
namespace {

constexpr const char* kServiceName = "OTEL_SERVICE_NAME";

// RFC 9562, version 4.
std::string RandomUuid() {
  uint8_t bytes[16];
  CHECK(::getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < sizeof bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += kDigits[bytes[i] >> 4];
    out += kDigits[bytes[i] & 15];
  }
  return out;
}

// The file name that the program was started by.
std::string ProgramName() {
  Result<std::string> line = ReadFile("/proc/self/cmdline");
  if (!line) return {};
  std::string_view words = *line;
  std::string_view first = words.substr(0, words.find('\0'));
  return std::string(first.substr(first.rfind('/') + 1));
}

constexpr size_t kMost = 128;

Status Wrong(std::string_view element, std::string_view why) {
  std::string detail = "\"";
  AppendPrintable(detail, element.substr(0, 80));
  detail += "\" ";
  detail += why;
  return {Code::kInvalidArgument, std::move(detail)};
}

Result<std::string> Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char byte = text[i];
    if (byte == '%') {
      const auto code = ParseInt<uint8_t>(text.substr(i + 1, 2), 16);
      if (text.size() < i + 3 || !code) return Wrong(text, "has a % without two digits after it");
      byte = static_cast<char>(*code);
      i += 2;
    }
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7f) return Wrong(text, "has a control byte");
    out += byte;
  }
  return out;
}

}  // namespace

std::string ProcessEnvironment(const char* name) {
  const char* value = ::getenv(name);
  return value ? value : "";
}

AttributeSet ResourceOf(const Environment& environment, std::string_view program, int64_t pid,
                        std::string_view instance_id) {
  std::map<std::string, std::string, std::less<>> stated;
  if (auto listed = ParseKeyValues(environment("OTEL_RESOURCE_ATTRIBUTES"))) {
    for (auto& [key, value] : *listed) stated[key] = std::move(value);
  } else {
    Log(LogLevel::kWarn, "sdk", "resource_attributes",
        "OTEL_RESOURCE_ATTRIBUTES is left out: " + listed.error().detail);
  }
  const std::string name = environment(kServiceName);
  if (!name.empty()) stated["service.name"] = name;
  else if (!stated.contains("service.name"))
    stated["service.name"] = program.empty() ? "unknown_service" : program;
  const std::string_view version = Version();
  std::vector<AttributeSet::Attribute> all = {{"service.instance.id", instance_id}};
  for (const auto& [key, value] : stated) all.push_back({key, std::string_view(value)});
  // The last of equal keys wins.
  all.push_back({"process.pid", pid});
  all.push_back({"telemetry.sdk.name", std::string_view("gpulens")});
  all.push_back({"telemetry.sdk.language", std::string_view("cpp")});
  all.push_back({"telemetry.sdk.version", version});
  return AttributeSet(std::span<const AttributeSet::Attribute>(all));
}

AttributeSet ProcessResource(std::string_view service_name) {
  const auto environment = [service_name](const char* name) {
    const bool queried = !service_name.empty() && std::string_view(name) == kServiceName;
    return queried ? std::string(service_name) : ProcessEnvironment(name);
  };
  return ResourceOf(environment, ProgramName(), ::getpid(), InstanceId());
}

std::string InstanceId() {
  static std::mutex* const mutex = new std::mutex;
  static std::string* const id = new std::string;
  static uint32_t of_fork = 0;
  const uint32_t forks = instruments::CellStore::Instance().forks();
  std::lock_guard lock(*mutex);
  if (id->empty() || of_fork != forks) {
    *id = RandomUuid();
    of_fork = forks;
  }
  return *id;
}

Result<KeyValues> ParseKeyValues(std::string_view text) {
  KeyValues out;
  text = Trim(text);
  while (!text.empty()) {
    const std::string_view element = Trim(TakeUntil(text, ','));
    if (element.empty()) continue;
    const size_t equals = element.find('=');
    if (equals == element.npos) return Wrong(element, "has no '='");
    ASSIGN_OR_RETURN(std::string key, Decode(Trim(element.substr(0, equals))));
    ASSIGN_OR_RETURN(std::string value, Decode(Trim(element.substr(equals + 1))));
    if (key.empty()) return Wrong(element, "has no key");
    if (out.size() == kMost) return Wrong(element, "is one too many: at most 128");
    out.emplace_back(std::move(key), std::move(value));
  }
  return out;
}

}  // namespace gpulens::sdk
