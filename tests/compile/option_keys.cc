// Compiles as it is, and not with -DMISSPELT or -DWRONG_TYPE: keys of options are checked by the compiler.
#include "plugins/config.h"

namespace gpulens {
namespace {

constexpr OptionSpec kOptions[] = {{.key = "speed", .type = OptionType::kInt}};

}  // namespace

int64_t Speed(const Config& config) {
#if defined(MISSPELT)
  return OptionsOf<kOptions>(config).Int("spede");
#elif defined(WRONG_TYPE)
  return OptionsOf<kOptions>(config).Bool("speed");
#else
  return OptionsOf<kOptions>(config).Int("speed");
#endif
}

}  // namespace gpulens
