// Options of prices, electricity and carbon of `analyzers.cost`, and the rates that follow from them, from
// their files as these are now, and from the machine that the resource names.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/files.h"
#include "core/attribute_set.h"
#include "ledger/rates.h"
#include "plugins/config.h"

namespace gpulens::cost {

// Texts, not numbers: decimals are read exactly.
inline constexpr std::array kRateOptions = {
    TextOption("price_per_gpu_hour", {}, "Price of an hour of any GPU in USD, such as 6.88."),
    OptionSpec{.key = "price_by_model",
               .type = OptionType::kTextMap,
               .help = "Price of an hour in USD by words of the GPU's name: {\"H100 80GB\": 6.88}; they "
                       "precede price_per_gpu_hour."},
    TextOption("price_file", {},
               "A file of prices, TSV or CSV with the columns usd_per_hour, instance_type or gpu_product, "
               "and perhaps gpu_count, provider, region, date; read again when it changes."),
    BoolOption("list_prices", true, "Use the built-in list of prices of instances on demand."),
    TextOption("instance_type", {},
               "Type of this instance, for prices; otherwise host.type, which the enricher `cloud` finds."),
    TextOption("provider", {}, "Cloud of this instance: aws, gcp, azure, …; otherwise cloud.provider."),
    TextOption("region", {}, "Region of this instance, for prices; otherwise cloud.region."),
    TextOption("electricity_per_kwh", {}, "Price of a kilowatt-hour of electricity in USD."),
    TextOption("pue", "1",
               "Power usage effectiveness: energy of the data centre for each unit of its computers, at "
               "least 1; for carbon and the price of electricity, never for joules."),
    TextOption("co2_grams_per_kwh", {}, "Carbon intensity of the electricity in grams of CO2 equivalents."),
    TextOption("carbon_zone", {},
               "Zone whose yearly mean is the carbon intensity: WORLD, DE, SE3, aws/eu-central-1."),
    TextOption("carbon_file", {},
               "A CSV file of the carbon intensity by hour with the columns time and g_per_kwh; an hour that "
               "it lacks is unknown; read again when it changes."),
};

// Checks the texts and that at most one option gives the carbon intensity.
void CheckRateOptions(const Config& config, ConfigFaults& faults);

// Not thread-safe.
class LiveRates {
 public:
  // kInvalidArgument for wrong options or a wrong file, kUnavailable for one that cannot be read.
  static Result<LiveRates> Make(const Config& config);

  // Call with each tick. Reads a file again when its time, size or inode changed, at most every ten seconds;
  // a file that is wrong or gone is logged and the former one stays. Returns whether the rates changed.
  bool Update(Instant now, const AttributeSet& resource);

  // Does not allocate.
  ledger::Rates At(std::string_view model, int64_t unix_ns) const noexcept {
    return table_->At(model, unix_ns);
  }
  const ledger::RateTable& table() const noexcept { return *table_; }
  // Whether the configuration names a price, a file of prices or an instance.
  bool wants_price() const noexcept {
    return options_.pico_per_gpu_hour || !options_.pico_by_model.empty() || !prices_.path.empty() ||
           !instance_type_.empty();
  }
  // Another number after each change.
  uint64_t version() const noexcept { return version_; }

 private:
  struct WatchedFile {
    std::string path;
    FileMark mark;
    std::string text;
    bool refused = false;  // as `mark` has it
  };

  LiveRates() = default;
  Status Read(WatchedFile& file) const;
  Result<ledger::RateTable> MakeTable(const std::string& prices, const std::string& carbon) const;
  bool ReadAgain(WatchedFile& file);

  ledger::RateOptions options_;                    // without the texts of files
  std::string instance_type_, provider_, region_;  // as configured
  WatchedFile prices_, carbon_;
  std::optional<ledger::RateTable> table_;
  AttributeSet resource_;
  int64_t looked_ns_ = 0;
  uint64_t version_ = 1;
};

}  // namespace gpulens::cost
