// Any bytes as the file, and, after a line "---env", as the value of variables. What loads without an
// error must print to a text that loads to the same.
// Fuzz inputs: 10'000 (each reads a whole configuration with all plugins)
#include <cstdlib>

#include "base/check.h"
#include "config/print.h"
#include "config/schema_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<gpulens::EnvironmentVariable> environment;
  if (size_t cut = text.find("---env\n"); cut != std::string::npos) {
    std::string value = text.substr(cut + 7);
    for (const char* name : {"GPULENS_HTTP_LISTEN", "GPULENS_INTERVAL", "GPULENS_RESOURCE_ATTRIBUTES",
                             "GPULENS_SINKS_OTLP_ENDPOINT", "GPULENS_LOG", "ZERNEL_WS_PORT", "ZERNEL_LOG"}) {
      environment.push_back({name, value});
    }
    environment.push_back({"GPULENS_" + value, "x"});
    text.resize(cut);
  }
  gpulens::LoadOutcome outcome = gpulens::testing::LoadText(std::move(text), std::move(environment));
  CHECK(outcome.errors.size() <= 20 && outcome.Report().size() < 200'000);
  if (!outcome.ok()) return 0;
  const gpulens::Schema& schema = gpulens::testing::TestSchema();
  std::string printed = gpulens::PrintConfig(schema, outcome.config, {.origins = true, .show_secrets = true});
  if (printed.size() > (1 << 20)) return 0;
  gpulens::LoadOutcome again = gpulens::testing::LoadText(std::move(printed));
  CHECK(again.ok());
  CHECK(again.config == outcome.config);
  return 0;
}
