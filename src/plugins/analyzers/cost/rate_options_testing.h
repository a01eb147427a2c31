// A configuration of the options of rates, as the loader would make it.
#pragma once

#include <map>
#include <string>

#include "plugins/analyzers/cost/cost_options.h"

namespace gpulens::cost {

inline Config RateConfig(const std::map<std::string, std::string>& texts,
                         const std::map<std::string, std::string>& price_by_model = {}) {
  Config config;
  for (const OptionSpec& option : kRateOptions) {
    const auto given = texts.find(std::string(option.key));
    const std::string text = given != texts.end() ? given->second : std::string(option.fallback);
    if (option.type == OptionType::kBool) config.Set(option.key, text == "true", {});
    else if (option.type == OptionType::kTextMap) config.Set(option.key, price_by_model, {});
    else config.Set(option.key, text, {});
  }
  return config;
}

}  // namespace gpulens::cost
