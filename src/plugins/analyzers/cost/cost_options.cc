#include "plugins/analyzers/cost/cost_options.h"

#include <utility>
#include <variant>

#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "energy/carbon_zones.h"

namespace gpulens::cost {
namespace {

using ledger::kMilliDecimals;
using ledger::kPicoDecimals;
using ledger::ParseDecimal;
using Options = OptionsOf<kRateOptions>;

constexpr int64_t kLookEveryNs = 10'000'000'000;
// 10 kg per kilowatt-hour is ten times what the dirtiest grid has.
constexpr int64_t kMostCarbonMg = 10'000'000;

constexpr std::string_view kPriceHint = "a decimal number of USD with a point, such as 6.88";

std::string Quoted(const std::string& text) { return "\"" + Printable(text) + "\""; }

std::string_view TextAttribute(const AttributeSet& attributes, std::string_view key) {
  const AttributeSet::Value value = attributes.Find(key, std::string_view());
  const auto* text = std::get_if<std::string_view>(&value);
  return text ? *text : std::string_view();
}

}  // namespace

void CheckRateOptions(const Config& config, ConfigFaults& faults) {
  const Options options(config);
  const auto check_price = [&](const std::string& text, Options::Key key, const std::string& name) {
    if (!text.empty() && !ParseDecimal(text, kPicoDecimals))
      options.Refuse(key, faults, name + " is no price: " + Quoted(text), std::string(kPriceHint));
  };
  check_price(options.Text("price_per_gpu_hour"), Options::Key("price_per_gpu_hour"), "price_per_gpu_hour");
  check_price(options.Text("electricity_per_kwh"), Options::Key("electricity_per_kwh"),
              "electricity_per_kwh");
  for (const auto& [model, price] : options.TextMap("price_by_model")) {
    check_price(price.empty() ? "-" : price, Options::Key("price_by_model"),
                "price_by_model of " + Quoted(model));
  }
  const auto pue = ParseDecimal(options.Text("pue"), kMilliDecimals);
  if (!pue || *pue < 1000 || *pue > 10'000) {
    options.Refuse("pue", faults, "pue is not between 1 and 10: " + Quoted(options.Text("pue")),
                   "the energy of the data centre for each unit of its computers, such as 1.2, with at most "
                   "three decimals");
  }
  const std::string& grams = options.Text("co2_grams_per_kwh");
  if (!grams.empty()) {
    const auto mg = ParseDecimal(grams, kMilliDecimals);
    if (!mg || *mg > kMostCarbonMg) {
      options.Refuse("co2_grams_per_kwh", faults, "co2_grams_per_kwh is no intensity: " + Quoted(grams),
                     "grams for each kilowatt-hour, at most 10000, with at most three decimals");
    }
  }
  const std::string& zone = options.Text("carbon_zone");
  if (!zone.empty() && !CarbonOfZone(zone)) {
    options.Refuse("carbon_zone", faults, "no carbon intensity is known for the zone " + Quoted(zone),
                   "WORLD, a country of two or three letters (DE), a bidding zone (SE3) or a cloud's region "
                   "(aws/eu-central-1); or set co2_grams_per_kwh");
  }
  if (!grams.empty() && !zone.empty())
    options.Refuse("carbon_zone", faults, "carbon_zone and co2_grams_per_kwh contradict each other");
  if (!options.Text("carbon_file").empty() && (!grams.empty() || !zone.empty())) {
    options.Refuse("carbon_file", faults,
                   "carbon_file and " + std::string(zone.empty() ? "co2_grams_per_kwh" : "carbon_zone") +
                       " contradict each other",
                   "an hour that the file lacks is unknown, so that nothing replaces it");
  }
}

Result<LiveRates> LiveRates::Make(const Config& config) {
  RETURN_IF_ERROR(RefuseFaults(&CheckRateOptions, config));
  const Options options(config);
  LiveRates rates;
  for (const auto& [model, price] : options.TextMap("price_by_model"))
    rates.options_.pico_by_model.emplace_back(model, *ParseDecimal(price, kPicoDecimals));
  if (const std::string& price = options.Text("price_per_gpu_hour"); !price.empty())
    rates.options_.pico_per_gpu_hour = ParseDecimal(price, kPicoDecimals);
  if (const std::string& price = options.Text("electricity_per_kwh"); !price.empty())
    rates.options_.pico_per_kwh = ParseDecimal(price, kPicoDecimals);
  rates.options_.built_in_prices = options.Bool("list_prices");
  rates.options_.pue_milli = *ParseDecimal(options.Text("pue"), kMilliDecimals);
  if (const std::string& grams = options.Text("co2_grams_per_kwh"); !grams.empty())
    rates.options_.mg_per_kwh = ParseDecimal(grams, kMilliDecimals);
  if (const std::string& zone = options.Text("carbon_zone"); !zone.empty())
    rates.options_.mg_per_kwh = CarbonOfZone(zone);
  rates.instance_type_ = options.Text("instance_type");
  rates.provider_ = options.Text("provider");
  rates.region_ = options.Text("region");
  rates.options_.instance_type = rates.instance_type_;
  rates.options_.provider = rates.provider_;
  rates.options_.region = rates.region_;
  rates.prices_.path = options.Text("price_file");
  rates.carbon_.path = options.Text("carbon_file");
  for (WatchedFile* file : {&rates.prices_, &rates.carbon_}) {
    if (!file->path.empty()) RETURN_IF_ERROR(rates.Read(*file));
  }
  ASSIGN_OR_RETURN(rates.table_, rates.MakeTable(rates.prices_.text, rates.carbon_.text));
  return rates;
}

Status LiveRates::Read(WatchedFile& file) const {
  file.mark = MarkOf(file.path);
  Result<std::string> text = ReadFile(file.path, ledger::kMostFileBytes);
  if (!text) return text.error();
  file.text = std::move(*text);
  return Ok();
}

Result<ledger::RateTable> LiveRates::MakeTable(const std::string& prices, const std::string& carbon) const {
  ledger::RateOptions options = options_;
  if (!prices_.path.empty()) options.price_file = ledger::RateFile{.name = prices_.path, .text = prices};
  if (!carbon_.path.empty()) options.carbon_file = ledger::RateFile{.name = carbon_.path, .text = carbon};
  return ledger::RateTable::Make(std::move(options));
}

bool LiveRates::ReadAgain(WatchedFile& file) {
  if (file.path.empty() || MarkOf(file.path) == file.mark) return false;
  WatchedFile read = file;
  Status status = Read(read);
  file.mark = read.mark;
  if (status) {
    auto table =
        MakeTable(&file == &prices_ ? read.text : prices_.text, &file == &carbon_ ? read.text : carbon_.text);
    if (table) {
      file.text = std::move(read.text);
      table_ = std::move(*table);
      Log(LogLevel::kInfo, "cost", "rates", file.path + " was read again", file.path);
      return true;
    }
    status = table.error();
  }
  Log(LogLevel::kWarn, "cost", "rates", status.detail + "; what was read before stays in force", file.path);
  return false;
}

bool LiveRates::Update(Instant now, const AttributeSet& resource) {
  bool changed = false;
  if (!(resource == resource_)) {
    resource_ = resource;
    const auto merge = [&](std::string& out, const std::string& configured, std::string_view key) {
      const std::string_view found = configured.empty() ? TextAttribute(resource, key) : configured;
      changed = changed || out != found;
      out = found;
    };
    merge(options_.instance_type, instance_type_, "host.type");
    // Another machine than this one was named: its provider and region are not this one's.
    if (instance_type_.empty()) {
      merge(options_.provider, provider_, "cloud.provider");
      merge(options_.region, region_, "cloud.region");
    }
    if (changed) {
      if (auto table = MakeTable(prices_.text, carbon_.text)) table_ = std::move(*table);
    }
  }
  if (looked_ns_ == 0) looked_ns_ = now.boot_ns;
  if (now.boot_ns - looked_ns_ >= kLookEveryNs) {
    looked_ns_ = now.boot_ns;
    changed = ReadAgain(prices_) || changed;
    changed = ReadAgain(carbon_) || changed;
  }
  if (changed) ++version_;
  return changed;
}

}  // namespace gpulens::cost
