// GPULENS_EXPORT: starts exporters without a line of code.
#include <gpulens/export.h>

#include <atomic>
#include <vector>

#include "base/log.h"
#include "base/parse.h"
#include "base/ref.h"
#include "base/text.h"
#include "sdk/export/exporter_seat.h"
#include "sdk/export/otlp_plan.h"

namespace gpulens {
namespace {

using namespace sdk;

constexpr const char* kVariable = "GPULENS_EXPORT";

// Uses the variables of OpenTelemetry's Prometheus exporter.
ExposeOptions ExposeOptionsFromEnvironment() {
  const std::string host = ProcessEnvironment("OTEL_EXPORTER_PROMETHEUS_HOST");
  const std::string port = ProcessEnvironment("OTEL_EXPORTER_PROMETHEUS_PORT");
  ExposeOptions options;
  options.listen = (host.empty() ? "127.0.0.1" : host) + ":" + (port.empty() ? "9464" : port);
  return options;
}

void Start(std::string_view word, std::vector<Exporter>& kept) {
  Result<Exporter> made = Status{Code::kInvalidArgument, "must be agent, otlp or expose"};
  if (word == "agent") made = ExportToAgent();
  else if (word == "otlp") made = StartOtlp({}, Registry::Process());
  else if (word == "expose") made = Expose(ExposeOptionsFromEnvironment());
  if (made) return kept.push_back(*std::move(made));
  std::string message = std::string(kVariable) + ": \"";
  AppendPrintable(message, word.substr(0, 80));
  Log(LogLevel::kWarn, "sdk", "export_environment", message + "\": " + made.error().detail, word);
}

void StartFromEnvironment() noexcept {
  static std::atomic<bool> heeded{false};
  const std::string stated = ProcessEnvironment(kVariable);
  if (stated.empty() || heeded.exchange(true)) return;
  // Never destroyed: the end of the process finishes them.
  static Immortal<std::vector<Exporter>> kept;
  std::string_view words = stated;
  while (!words.empty()) {
    if (std::string_view word = Trim(TakeUntil(words, ',')); !word.empty()) Start(word, *kept);
  }
}

struct AtStart {
  AtStart() {
    if (!ProcessEnvironment(kVariable).empty()) AtFirstUse(&StartFromEnvironment);
  }
};
const AtStart kAtStart;

}  // namespace

void ExportAsEnvironmentSays() noexcept { StartFromEnvironment(); }

}  // namespace gpulens

// A symbol that the linker keeps by option (cmake/Sdk.cmake), so that this file is linked without a caller.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): C has no namespaces.
extern const char gpulens_heeds_environment;
const char gpulens_heeds_environment = 1;
// NOLINTEND(readability-identifier-naming)
}
