// The configuration and its schema as text: `gpulens config print`, `schema` and the line of `check`.
// Pure, thread-safe.
#pragma once

#include <string>

#include "config/loader.h"
#include "config/schema.h"
#include "plugins/config.h"

namespace gpulens {

struct PrintOptions {
  bool origins = true;        // "interval: 1s  # default"
  bool show_secrets = false;  // else "…", which Load refuses to take for the secret
};
// YAML with every value. Loaded again it is an equal Config, when it shows secrets or has none.
std::string PrintConfig(const Schema& schema, const Config& config, PrintOptions options = {});

// Every key with its type, default and help, as YAML that is the default configuration.
std::string PrintSchema(const Schema& schema);
// The same as Markdown, for docs/configuration.md: options that several plugins of a section share come once.
std::string PrintMarkdownSchema(const Schema& schema);
// The same as JSON Schema, draft 2020-12, for editors.
std::string PrintJsonSchema(const Schema& schema);

// "gpulens.yaml: good. 3 collectors, 2 sinks, 1 from the environment (GPULENS_HTTP_LISTEN)". Of a
// configuration without errors; an empty `file_name`: no file.
std::string CheckSummary(const Schema& schema, const Config& config, const std::string& file_name);

}  // namespace gpulens
