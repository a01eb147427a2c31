#include "wire/llm/llm_usage.h"

namespace gpulens {

std::string_view LlmClassName(LlmClass of) noexcept {
  static constexpr std::array<std::string_view, kLlmClasses> kNames = {"input",
                                                                       "input_cached",
                                                                       "input_write_5m",
                                                                       "input_write_long",
                                                                       "input_audio",
                                                                       "input_audio_cached",
                                                                       "input_image",
                                                                       "input_video",
                                                                       "input_tool",
                                                                       "output",
                                                                       "output_reasoning",
                                                                       "output_audio",
                                                                       "output_image",
                                                                       "web_searches",
                                                                       "web_fetches",
                                                                       "pages",
                                                                       "milliseconds",
                                                                       "characters",
                                                                       "images",
                                                                       "queries",
                                                                       "requests"};
  return kNames[static_cast<size_t>(of)];
}

}  // namespace gpulens
