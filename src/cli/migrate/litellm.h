// `gpulens migrate litellm`: the file of gpulens proxy for a configuration of LiteLLM's proxy. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

struct LiteLlmDraft {
  std::string yaml;  // with what does not map as comments; no secret of `text` is in it
  size_t providers = 0, routes = 0;
  size_t left = 0;  // lines of `text` that a comment names
};

// `name` is that of the file. Secrets that `text` has become variables of the environment, which the comments
// name. kInvalidArgument: no YAML, no model_list, or no model in it whose provider the proxy knows.
Result<LiteLlmDraft> ProxyFromLiteLlm(std::string_view text, const std::string& name);

}  // namespace gpulens
