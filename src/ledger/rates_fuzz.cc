// Price and carbon files are written by hand and by other programs. What is accepted gives no negative price
// or intensity, and each price names its origin.

#include <cstdlib>

#include "ledger/rates.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::ledger;
  const RateFile file{.name = "f", .text = std::string(reinterpret_cast<const char*>(data), size)};
  constexpr int64_t kTimes[] = {0, 1'772'323'200'000'000'000, 1'900'000'000'000'000'000};
  for (const char* instance : {"", "box-8", "p5.48xlarge"}) {
    RateOptions options;
    options.instance_type = instance;
    options.price_file = file;
    if (auto table = RateTable::Make(options)) {
      for (const char* model : {"", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"}) {
        for (int64_t at : kTimes) {
          const Rates rates = table->At(model, at);
          if (rates.pico_per_gpu_hour.value_or(0) < 0 || table->PriceOrigin(model, at).empty()) std::abort();
        }
      }
    }
  }
  RateOptions options;
  options.carbon_file = file;
  if (auto table = RateTable::Make(options)) {
    for (int64_t at : kTimes) {
      if (table->At("", at).mg_per_kwh.value_or(0) < 0) std::abort();
    }
  }
  const auto parsed = ParseDecimal(file.text, kPicoDecimals);
  if (parsed && ParseDecimal(DecimalText(*parsed, kPicoDecimals), kPicoDecimals) != parsed) std::abort();
  return 0;
}
