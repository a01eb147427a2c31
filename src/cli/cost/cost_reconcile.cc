#include "cli/cost/cost_reconcile.h"

#include <algorithm>
#include <chrono>

#include "base/parse.h"
#include "base/result.h"
#include "cli/common/output.h"
#include "store/ledger/wide_text.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

using ledger::RoundedText;
using ledger::WideText;
using pricing::Int128;
using pricing::kUsageMeasures;
using pricing::UsageAmounts;
using pricing::UsageMeasure;

constexpr int64_t kReconcileDay = 86'400, kReconcileSecondNs = 1'000'000'000;
constexpr int kUsdDecimals = 12, kUsdShown = 6;

int64_t DayOf(int64_t unix_s, int64_t zone_s) noexcept {
  const int64_t local = unix_s + zone_s;
  return local / kReconcileDay - (local % kReconcileDay < 0 ? 1 : 0);
}

std::string DayText(int64_t day) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(day))};
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()),
                                 static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return {text, static_cast<size_t>(size)};
}

std::string ZoneText(int64_t zone_s) {
  if (zone_s == 0) return "UTC";
  char text[32];
  const int64_t size = zone_s < 0 ? -zone_s : zone_s;
  const int length = std::snprintf(text, sizeof text, "%c%02d:%02d", zone_s < 0 ? '-' : '+',
                                   static_cast<int>(size / 3600), static_cast<int>(size / 60 % 60));
  return {text, static_cast<size_t>(length)};
}

bool Has(uint8_t measures, UsageMeasure measure) noexcept {
  return (measures >> static_cast<unsigned>(measure) & 1) != 0;
}
constexpr uint8_t Bit(UsageMeasure measure) noexcept {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(measure));
}
template <class Visit>
void EachMeasure(uint8_t measures, Visit visit) {
  for (size_t i = 0; i < kUsageMeasures; ++i) {
    if (const auto measure = static_cast<UsageMeasure>(i); Has(measures, measure)) visit(measure);
  }
}

void AddAll(UsageAmounts& to, const UsageAmounts& from) {
  for (size_t i = 0; i < kUsageMeasures; ++i) to.amounts[i] += from.amounts[i];
  to.known = static_cast<uint8_t>(to.known | from.known);
}

// The name that the provider gives the model; where an answer had none, the requested one.
const std::string& ModelOf(const ChargeRecord& record) noexcept {
  return record.model_answered.empty() ? record.model_requested : record.model_answered;
}

Int128 SumOf(const LlmUsage& usage, std::initializer_list<LlmClass> classes) {
  Int128 sum = 0;
  for (const LlmClass of : classes) sum += usage[of];
  return sum;
}

bool UsedNothing(const LlmUsage& usage) noexcept {
  return std::all_of(usage.units.begin(), usage.units.end(), [](int64_t units) { return units == 0; });
}

std::string Requests(int64_t count, std::string_view one, std::string_view many) {
  return Plural(static_cast<size_t>(count), one, many);
}

std::string Usd(Int128 pico) { return WideText(pico, kUsdDecimals) + " USD"; }

// Sentences about a group that differs.
class CauseFinder {
 public:
  CauseFinder(const ReconcileSection& section, const ReconcileGroup& group)
      : section_(section), group_(group), charged_(group.charged) {}

  std::vector<std::string> Find() {
    if (!group_.here) {
      Add(NoModel()
              ? "Only there: it has no model in the export, so it cannot be found among the requests here."
              : "Only there: requests that did not pass the proxy, or that it has under another provider or "
                "model.");
      return std::move(causes_);
    }
    if (!group_.there)
      Add("Only here: not booked there yet, booked under another name, or on another account.");
    Bounds();
    Counts();
    Prices();
    if (causes_.empty())
      Add(Difference(UsageMeasure::kInput) < 0 || Difference(UsageMeasure::kRequests) < 0 ||
                  Difference(UsageMeasure::kOutput) < 0
              ? "More there: requests that did not pass the proxy."
              : "Nothing here explains it: requests may have been booked on another day or account.");
    return std::move(causes_);
  }

 private:
  void Add(std::string text) { causes_.push_back(std::move(text)); }
  bool NoModel() const { return section_.models && group_.key.model.empty(); }
  // Here less there; 0 where that is not compared.
  Int128 Difference(UsageMeasure measure) const {
    if (!Has(group_.different, measure)) return 0;
    return charged_.amounts[measure] - group_.billed[measure];
  }

  void Bounds() {
    if (charged_.unsettled > 0) {
      std::string text = Requests(charged_.unsettled, "request is", "requests are") +
                         " unsettled, since the proxy was ended: at most " + Usd(charged_.unsettled_pico);
      const Int128 missing = -Difference(UsageMeasure::kPico);
      if (missing > 0)
        text += missing <= charged_.unsettled_pico ? ", which covers the difference"
                                                   : ", less than the difference";
      Add(text + ".");
    }
    if (charged_.uncertain > 0)
      Add(Requests(charged_.uncertain, "attempt", "attempts") + " got no answer and may be billed: at most " +
          Usd(charged_.uncertain_pico) + ".");
  }

  void Counts() {
    if (charged_.cut > 0)
      Add(Requests(charged_.cut, "request was", "requests were") +
          " counted up to where the answer was cut; providers may bill all of it.");
    if (charged_.estimated > 0)
      Add(Requests(charged_.estimated, "request was", "requests were") + " counted by bytes or events.");
    if (charged_.failed > 0 && Has(group_.different, UsageMeasure::kRequests))
      Add(Requests(charged_.failed, "request", "requests") + " failed and used nothing: not counted here.");
    if (charged_.over_midnight > 0)
      Add(Requests(charged_.over_midnight, "request", "requests") +
          " began on one day and ended on the next: here they are of the day of their end.");
  }

  void Prices() {
    if (!Has(group_.different, UsageMeasure::kPico)) return;
    if (charged_.unpriced > 0)
      Add(Requests(charged_.unpriced, "request has", "requests have") + " no known price here.");
    const bool tokens =
        Has(section_.measures, UsageMeasure::kInput) || Has(section_.measures, UsageMeasure::kOutput);
    if (tokens && (group_.different & ~Bit(UsageMeasure::kPico)) != 0) return;
    std::string versions = Joined(charged_.price_versions, ", ");
    Add((tokens ? "Counts agree, so prices differ" : "Prices may differ") +
        (versions.empty() ? std::string() : " (price version " + versions + ")") +
        ": a discount, a credit, a tax, or a changed price.");
  }

  const ReconcileSection& section_;
  const ReconcileGroup& group_;
  const ChargedGroup& charged_;
  std::vector<std::string> causes_;
};

// Names of models that both sides have under other names: those that only one side has, by their stems.
class ModelNames {
 public:
  void AddHere(const std::string& name) { here_.insert(name); }
  void AddThere(const std::string& name) { there_.insert(name); }
  void Match() {
    std::set<std::string> stems_here, stems_there;
    for (const std::string& name : here_) {
      if (!there_.contains(name)) stems_here.insert(pricing::UsageModelStem(name));
    }
    for (const std::string& name : there_) {
      if (!here_.contains(name)) stems_there.insert(pricing::UsageModelStem(name));
    }
    std::ranges::set_intersection(stems_here, stems_there, std::inserter(common_, common_.end()));
  }
  std::string Of(const std::string& name) const {
    if (here_.contains(name) && there_.contains(name)) return name;
    std::string stem = pricing::UsageModelStem(name);
    return common_.contains(stem) ? stem : name;
  }

 private:
  std::set<std::string> here_, there_, common_;
};

// Files of one format against the charges.
class SectionMaker {
 public:
  SectionMaker(const std::vector<const UsageFile*>& files, const ReconcileTerms& terms,
               const std::vector<std::string>& providers)
      : files_(files), terms_(terms), providers_(providers) {}

  ReconcileSection Make(const ChargedUsage& charged) {
    section_.format = files_.front()->content.format;
    for (const UsageFile* file : files_) {
      section_.files.push_back(file->name);
      section_.rounded += file->content.rounded;
      section_.measures = static_cast<uint8_t>(section_.measures | file->content.known);
      const bool first = file == files_.front();
      section_.begin_s = first ? file->content.begin_s : std::min(section_.begin_s, file->content.begin_s);
      section_.end_s = first ? file->content.end_s : std::max(section_.end_s, file->content.end_s);
      for (const pricing::UsageRow& row : file->content.rows) {
        section_.models |= !row.model.empty();
        section_.tiers |= !row.tier.empty();
        column_ |= !row.provider.empty();
      }
    }
    section_.begin_s = std::max(section_.begin_s, terms_.since_s);
    section_.end_s = std::min(section_.end_s, terms_.until_s);
    Pair(charged);
    Finish();
    return std::move(section_);
  }

 private:
  bool Within(int64_t begin_s, int64_t end_s) const noexcept {
    return begin_s >= terms_.since_s && end_s <= terms_.until_s;
  }
  // Days of which the files of this section have a bucket, and no others.
  bool Covers(int64_t day) const {
    const int64_t begin = day * kReconcileDay - terms_.zone_s;
    return begin < section_.end_s && begin + kReconcileDay > section_.begin_s;
  }
  // A name for all of the providers where the export has none.
  std::string ProviderOf(const std::string& named) const {
    if (column_) return named;
    return Joined(providers_, "+");
  }

  void Pair(const ChargedUsage& charged) {
    ModelNames names;
    const auto counts = [&](const ReconcileKey& key) {
      return Covers(key.day) && std::ranges::find(providers_, key.provider) != providers_.end();
    };
    for (const auto& [key, group] : charged.groups()) {
      if (counts(key)) names.AddHere(key.model);
    }
    for (const UsageFile* file : files_) {
      for (const pricing::UsageRow& row : file->content.rows) {
        if (Within(row.begin_s, row.end_s)) names.AddThere(row.model);
      }
    }
    names.Match();
    const auto reduced = [&](int64_t day, const std::string& provider, const std::string& model,
                             const std::string& tier) {
      return ReconcileKey{day, ProviderOf(provider), section_.models ? names.Of(model) : "",
                          section_.tiers ? tier : ""};
    };
    for (const auto& [key, group] : charged.groups()) {
      if (!counts(key)) continue;
      ReconcileGroup& to = groups_[reduced(key.day, key.provider, key.model, key.tier)];
      to.charged.Add(group);
      to.here = true;
    }
    for (const UsageFile* file : files_) {
      for (const pricing::UsageRow& row : file->content.rows) {
        if (!Within(row.begin_s, row.end_s)) continue;
        ReconcileGroup& to =
            groups_[reduced(DayOf(row.begin_s, terms_.zone_s), row.provider, row.model, row.tier)];
        AddAll(to.billed, row.amounts);
        to.there = true;
      }
    }
  }

  void Finish() {
    for (auto& [key, group] : groups_) {
      EachMeasure(section_.measures, [&](UsageMeasure measure) {
        const Int128 here = group.charged.amounts[measure], there = group.billed[measure];
        if (!terms_.tolerance.Allows(here, there))
          group.different = static_cast<uint8_t>(group.different | Bit(measure));
      });
      AddAll(section_.charged, group.charged.amounts);
      AddAll(section_.billed, group.billed);
      // A day without a request has no line: neither side has an amount.
      const bool nothing =
          std::ranges::all_of(group.charged.amounts.amounts, [](Int128 a) { return a == 0; }) &&
          std::ranges::all_of(group.billed.amounts, [](Int128 a) { return a == 0; });
      if (nothing) continue;
      group.key = key;
      if (group.different != 0) {
        ++section_.different;
        group.causes = CauseFinder(section_, group).Find();
      }
      section_.groups.push_back(std::move(group));
    }
  }

  const std::vector<const UsageFile*>& files_;
  const ReconcileTerms& terms_;
  const std::vector<std::string>& providers_;
  bool column_ = false;
  ReconcileSection section_;
  std::map<ReconcileKey, ReconcileGroup> groups_;
};

std::string AmountText(UsageMeasure measure, Int128 amount) {
  if (measure != UsageMeasure::kPico) return RoundedText(amount, 0, 0, true);
  return RoundedText(amount, kUsdDecimals, kUsdShown, true);
}
std::string DifferenceText(UsageMeasure measure, Int128 difference) {
  std::string text = AmountText(measure, difference);
  // Less than what is shown is not nothing.
  if (difference != 0 && text.find_first_of("123456789") == std::string::npos)
    text = WideText(difference, kUsdDecimals);
  return (difference > 0 ? "+" : "") + text;
}

std::string HeadOf(const ReconcileSection& section, const ReconcileKey& key) {
  std::string out = DayText(key.day) + "  " + key.provider;
  if (section.models) out += "  " + (key.model.empty() ? "(no model)" : key.model);
  if (section.tiers) out += "  " + (key.tier.empty() ? "(no tier)" : key.tier);
  return out;
}

void AppendAmounts(std::string& out, uint8_t measures, const UsageAmounts& here, const UsageAmounts& there) {
  EachMeasure(measures, [&](UsageMeasure measure) {
    const Int128 a = here[measure], b = there[measure];
    out += "  " + Padded(measure == UsageMeasure::kPico ? "USD" : UsageMeasureName(measure), 18) +
           RightAligned(AmountText(measure, a), 18) + RightAligned(AmountText(measure, b), 20) +
           RightAligned(DifferenceText(measure, a - b), 20, 1) + "\n";
  });
}

std::string TimeOfDay(int64_t unix_s) {
  char text[32];
  const int64_t second = unix_s - DayOf(unix_s, 0) * kReconcileDay;
  const int size = std::snprintf(text, sizeof text, "T%02d:%02dZ", static_cast<int>(second / 3600),
                                 static_cast<int>(second / 60 % 60));
  return DayText(DayOf(unix_s, 0)) + std::string(text, static_cast<size_t>(size));
}

}  // namespace

bool Tolerance::Allows(__int128 a, __int128 b) const noexcept {
  const __int128 difference = a < b ? b - a : a - b;
  if (difference == 0 || part == 0) return difference == 0;
  const __int128 larger = std::max(a < 0 ? -a : a, b < 0 ? -b : b);
  return difference <= larger / kWhole * part + larger % kWhole * part / kWhole;
}

bool ParseTolerance(std::string_view text, Tolerance& out) noexcept {
  if (text == "0") return out.part = 0, true;
  if (!text.ends_with('%')) return false;
  text.remove_suffix(1);
  // A decimal of a percent has six digits: millionths of a percent are what `part` counts.
  std::string_view fraction = text;
  const std::string_view whole = TakeUntil(fraction, '.');
  const auto percent = ParseInt<int64_t>(whole);
  if (!percent || *percent < 0 || *percent > 100 || fraction.size() > 6) return false;
  if (text.ends_with('.') || whole.starts_with('-')) return false;
  int64_t parts = *percent * (Tolerance::kWhole / 100), unit = Tolerance::kWhole / 1000;
  for (const char c : fraction) {
    if (c < '0' || c > '9') return false;
    parts += (c - '0') * unit;
    unit /= 10;
  }
  if (parts > Tolerance::kWhole) return false;
  out.part = parts;
  return true;
}

void ChargedGroup::Add(const ChargeRecord& record, int64_t zone_s) {
  const LlmUsage& usage = record.usage;
  for (const ChargeAttempt& attempt : record.attempts) {
    if (attempt.uncertain_list_pico <= 0) continue;
    ++uncertain;
    uncertain_pico += attempt.uncertain_list_pico;
  }
  if (record.outcome == ChargeOutcome::kUpstreamFailed && UsedNothing(usage)) {
    ++failed;
    return;
  }
  Int128 input = 0, output = 0;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    const auto of = static_cast<LlmClass>(i);
    if (IsInput(of)) input += usage[of];
    if (IsOutput(of)) output += usage[of];
  }
  amounts.Add(UsageMeasure::kRequests, 1);
  amounts.Add(UsageMeasure::kInput, input);
  amounts.Add(UsageMeasure::kCached, SumOf(usage, {LlmClass::kInputCached, LlmClass::kInputAudioCached}));
  amounts.Add(UsageMeasure::kCacheWrite, usage[LlmClass::kInputWrite5m]);
  amounts.Add(UsageMeasure::kCacheWriteLong, usage[LlmClass::kInputWriteLong]);
  amounts.Add(UsageMeasure::kOutput, output);
  amounts.Add(UsageMeasure::kWebSearches, usage[LlmClass::kWebSearches]);
  amounts.Add(UsageMeasure::kPico, record.list_pico);
  charged_pico += record.charged_pico;
  if (record.counted_by == CountedBy::kUnsettled) {
    ++unsettled;
    unsettled_pico += record.reserved_pico;
  }
  if (record.counted_by == CountedBy::kPartial || record.counted_by == CountedBy::kRecovered) ++cut;
  if (record.counted_by == CountedBy::kCalibrated || record.counted_by == CountedBy::kEvents ||
      record.counted_by == CountedBy::kTokenized)
    ++estimated;
  if (record.price_row < 0 && !UsedNothing(usage)) ++unpriced;
  if (DayOf(record.dispatch_unix_ns / kReconcileSecondNs, zone_s) !=
      DayOf(record.settled_unix_ns / kReconcileSecondNs, zone_s))
    ++over_midnight;
  if (!record.price_version.empty() && price_versions.size() < kMostVersions)
    price_versions.insert(record.price_version);
}

void ChargedGroup::Add(const ChargedGroup& other) {
  AddAll(amounts, other.amounts);
  charged_pico += other.charged_pico;
  failed += other.failed;
  unsettled += other.unsettled;
  unsettled_pico += other.unsettled_pico;
  cut += other.cut;
  estimated += other.estimated;
  unpriced += other.unpriced;
  over_midnight += other.over_midnight;
  uncertain += other.uncertain;
  uncertain_pico += other.uncertain_pico;
  for (const std::string& version : other.price_versions) {
    if (price_versions.size() < kMostVersions) price_versions.insert(version);
  }
}

Status ChargedUsage::Add(const ChargeRecord& record) {
  if (record.outcome == ChargeOutcome::kRefused) return Ok();
  if (record.profile == "byok" || record.profile == "subscription") return ++own_keys_, Ok();
  if (!record.currency.empty() && !EqualsIgnoringCase(record.currency, "usd")) return ++other_currency_, Ok();
  const ReconcileKey key{DayOf(record.settled_unix_ns / kReconcileSecondNs, zone_s_), record.provider,
                         ModelOf(record), pricing::UsageTier(record.tier)};
  const auto found = groups_.find(key);
  if (found == groups_.end() && groups_.size() == kMostGroups)
    return {Code::kExhausted,
            "more than 200,000 groups of day, provider, model and tier; take a shorter time"};
  (found == groups_.end() ? groups_[key] : found->second).Add(record, zone_s_);
  return Ok();
}

Result<ReconcileSpan> SpanOf(const std::vector<UsageFile>& files, const ReconcileTerms& terms) {
  ReconcileSpan span;
  bool any = false;
  std::set<std::string> providers(terms.providers.begin(), terms.providers.end());
  std::map<std::string_view, bool> whole;  // by format
  for (const UsageFile& file : files) {
    const pricing::UsageExport& content = file.content;
    whole[content.format] |= content.whole;
    if (terms.providers.empty() && !content.provider.empty()) providers.emplace(content.provider);
    for (const pricing::UsageRow& row : content.rows) {
      if (row.begin_s < terms.since_s || row.end_s > terms.until_s) continue;
      if (terms.providers.empty() && !row.provider.empty()) providers.insert(row.provider);
      const int64_t last = row.end_s > row.begin_s ? row.end_s - 1 : row.begin_s;
      if (DayOf(row.begin_s, terms.zone_s) != DayOf(last, terms.zone_s))
        return Status{Code::kInvalidArgument,
                      file.name + ": the bucket from " + TimeOfDay(row.begin_s) + " to " +
                          TimeOfDay(row.end_s) + " is of two days of " + ZoneText(terms.zone_s) +
                          "; export buckets of a day or less, or give their zone: --zone -08:00"};
    }
    const int64_t begin = std::max(content.begin_s, terms.since_s),
                  end = std::min(content.end_s, terms.until_s);
    if (begin > end || (content.begin_s == 0 && content.end_s == 0)) continue;
    span.begin_s = any ? std::min(span.begin_s, begin) : begin;
    span.end_s = any ? std::max(span.end_s, end) : end;
    any = true;
  }
  for (const auto& [format, all] : whole) {
    if (!all)
      return Status{
          Code::kInvalidArgument,
          std::string(format) + ": the last page has has_more: fetch the other pages and name them, too"};
  }
  if (!any) return Status{Code::kInvalidArgument, "the files have no bucket of that time"};
  if (providers.empty())
    return Status{Code::kInvalidArgument,
                  "the table does not name a provider; name it as the proxy does: --provider"};
  span.providers.assign(providers.begin(), providers.end());
  // Whole days, since those of requests are compared.
  span.begin_s = DayOf(span.begin_s, terms.zone_s) * kReconcileDay - terms.zone_s;
  const int64_t last = DayOf(std::max(span.end_s - 1, span.begin_s), terms.zone_s);
  span.end_s = (last + 1) * kReconcileDay - terms.zone_s;
  return span;
}

bool Reconciliation::equal() const noexcept {
  return std::ranges::all_of(sections,
                             [](const ReconcileSection& section) { return section.different == 0; });
}

Result<Reconciliation> Reconcile(const std::vector<UsageFile>& files, const ChargedUsage& charged,
                                 const ReconcileTerms& terms) {
  ASSIGN_OR_RETURN(const ReconcileSpan span, SpanOf(files, terms));
  std::map<std::string_view, std::vector<const UsageFile*>> by_format;
  for (const UsageFile& file : files) by_format[file.content.format].push_back(&file);
  Reconciliation made;
  made.zone_s = terms.zone_s;
  for (const auto& [format, of] : by_format) {
    // The same bucket and names in two files would be added twice.
    using Bucket = std::tuple<int64_t, std::string_view, std::string_view>;
    std::map<Bucket, const UsageFile*> seen;
    for (const UsageFile* file : of) {
      for (const pricing::UsageRow& row : file->content.rows) {
        const auto [at, fresh] = seen.emplace(Bucket(row.begin_s, row.model, row.tier), file);
        if (!fresh && at->second != file)
          return Status{Code::kInvalidArgument, at->second->name + " and " + file->name +
                                                    " both have the bucket of " + TimeOfDay(row.begin_s) +
                                                    (row.model.empty() ? "" : " of " + row.model)};
      }
    }
    made.sections.push_back(SectionMaker(of, terms, span.providers).Make(charged));
  }
  if (std::ranges::all_of(made.sections,
                          [](const ReconcileSection& section) { return section.groups.empty(); }))
    return Status{Code::kInvalidArgument,
                  "neither side has anything of that time and of provider " + Joined(span.providers, ", ")};
  if (charged.own_keys() > 0)
    made.notes.push_back(Requests(charged.own_keys(), "request", "requests") +
                         " with clients' own keys (byok, subscription) left out: other accounts pay them.");
  if (charged.other_currency() > 0)
    made.notes.push_back(Requests(charged.other_currency(), "request", "requests") +
                         " with prices in another currency left out.");
  size_t rounded = 0;
  for (const ReconcileSection& section : made.sections) {
    rounded += section.rounded;
    if (section.end_s > terms.now_s)
      made.notes.push_back("The last bucket of " + section.format +
                           " is not over: both sides may still grow.");
    if ((section.begin_s + terms.zone_s) % kReconcileDay != 0 ||
        (section.end_s + terms.zone_s) % kReconcileDay != 0)
      made.notes.push_back(section.format + " covers its first or last day in part (" +
                           TimeOfDay(section.begin_s) + " to " + TimeOfDay(section.end_s) +
                           "); here the whole days are compared.");
  }
  if (rounded > 0)
    made.notes.push_back(Requests(static_cast<int64_t>(rounded), "amount has", "amounts have") +
                         " more than 12 decimals in the export: each was rounded to a picodollar.");
  return made;
}

std::string ReconcileText(const Reconciliation& made, bool all, size_t width) {
  std::string out;
  for (const ReconcileSection& section : made.sections) {
    AppendWrapped(out, section.format + ": " + Joined(section.files, ", "), 0, 2, width);
    AppendWrapped(out,
                  "Days of " + ZoneText(made.zone_s) + ", " + TimeOfDay(section.begin_s) + " to " +
                      TimeOfDay(section.end_s) + "; requests here are of the day on which they ended.",
                  0, 2, width);
    out += "\n" + std::string(20, ' ') + RightAligned("here", 18) + RightAligned("there", 20) +
           RightAligned("difference", 20) + "\n";
    for (const ReconcileGroup& group : section.groups) {
      if (group.different == 0 && !all) continue;
      out += Shortened(HeadOf(section, group.key), width) + "\n";
      AppendAmounts(out, all ? section.measures : group.different, group.charged.amounts, group.billed);
      for (const std::string& cause : group.causes) {
        out += "  ";
        AppendWrapped(out, cause, 2, 4, width);
      }
    }
    out += "All\n";
    AppendAmounts(out, section.measures, section.charged, section.billed);
    const size_t equal = section.groups.size() - section.different;
    out += "\n" + Plural(equal, "group is", "groups are") + " equal, " +
           Plural(section.different, "differs", "differ") + ".\n\n";
  }
  for (const std::string& note : made.notes) AppendWrapped(out, note, 0, 2, width);
  return out;
}

namespace {

void AppendAmountsJson(std::string& out, uint8_t measures, const UsageAmounts& amounts) {
  JsonObject object(out);
  EachMeasure(measures, [&](UsageMeasure measure) {
    if (measure == UsageMeasure::kPico) {
      object.Raw("list_pico", WideText(amounts[measure]));
      object.Text("list_usd", WideText(amounts[measure], kUsdDecimals));
    } else {
      object.Raw(UsageMeasureName(measure), WideText(amounts[measure]));
    }
  });
}

void AppendGroupJson(std::string& out, const ReconcileSection& section, const ReconcileGroup& group) {
  JsonObject object(out);
  object.Text("day", DayText(group.key.day));
  object.Text("provider", group.key.provider);
  if (section.models) object.Text("model", group.key.model);
  if (section.tiers) object.Text("tier", group.key.tier);
  object.Flag("equal", group.different == 0);
  object.Text("side", !group.here ? "there" : !group.there ? "here" : "both");
  std::vector<std::string_view> different;
  EachMeasure(group.different, [&](UsageMeasure measure) { different.push_back(UsageMeasureName(measure)); });
  object.List("different", different,
              [](std::string& to, std::string_view name) { AppendJsonString(to, name); });
  AppendAmountsJson(object.Key("here"), section.measures, group.charged.amounts);
  AppendAmountsJson(object.Key("there"), section.measures, group.billed);
  object.Text("charged_usd", WideText(group.charged.charged_pico, kUsdDecimals));
  object.Whole("unsettled", group.charged.unsettled);
  object.Text("unsettled_at_most_usd", WideText(group.charged.unsettled_pico, kUsdDecimals));
  object.Whole("partial", group.charged.cut);
  object.Whole("estimated", group.charged.estimated);
  object.Whole("unpriced", group.charged.unpriced);
  object.Whole("failed", group.charged.failed);
  object.Whole("over_midnight", group.charged.over_midnight);
  object.Text("uncertain_at_most_usd", WideText(group.charged.uncertain_pico, kUsdDecimals));
  object.List("price_versions", group.charged.price_versions,
              [](std::string& to, const std::string& version) { AppendJsonString(to, version); });
  object.List("causes", group.causes,
              [](std::string& to, const std::string& cause) { AppendJsonString(to, cause); });
}

}  // namespace

std::string ReconcileJson(const Reconciliation& made) {
  std::string out;
  {
    JsonObject object(out);
    object.Text("schema", "gpulens.cost_reconcile/1");
    object.Flag("equal", made.equal());
    object.Text("zone", ZoneText(made.zone_s));
    object.List("sections", made.sections, [](std::string& to, const ReconcileSection& section) {
      JsonObject one(to);
      one.Text("format", section.format);
      one.List("files", section.files,
               [](std::string& at, const std::string& file) { AppendJsonString(at, file); });
      one.Time("since", section.begin_s * kReconcileSecondNs);
      one.Time("until", section.end_s * kReconcileSecondNs);
      one.Count("groups_different", section.different);
      AppendAmountsJson(one.Key("here"), section.measures, section.charged);
      AppendAmountsJson(one.Key("there"), section.measures, section.billed);
      one.List("groups", section.groups,
               [&](std::string& at, const ReconcileGroup& group) { AppendGroupJson(at, section, group); });
    });
    object.List("notes", made.notes,
                [](std::string& to, const std::string& note) { AppendJsonString(to, note); });
  }
  return out + "\n";
}

std::string ReconcileCsv(const Reconciliation& made) {
  std::string out = "format,day,provider,model,tier,measure,here,there,difference,equal,causes\n";
  for (const ReconcileSection& section : made.sections) {
    for (const ReconcileGroup& group : section.groups) {
      const std::string causes = Joined(group.causes, " ");
      EachMeasure(section.measures, [&](UsageMeasure measure) {
        const bool money = measure == UsageMeasure::kPico;
        const auto text = [&](Int128 amount) { return WideText(amount, money ? kUsdDecimals : 0); };
        const Int128 here = group.charged.amounts[measure], there = group.billed[measure];
        const bool equal = !Has(group.different, measure);
        const std::string cells[] = {section.format,     DayText(group.key.day),
                                     group.key.provider, group.key.model,
                                     group.key.tier,     std::string(UsageMeasureName(measure))};
        for (const std::string& cell : cells) AppendCsvField(out, cell), out += ',';
        out += text(here) + "," + text(there) + "," + text(here - there) + (equal ? ",true," : ",false,");
        AppendCsvField(out, equal ? std::string() : causes);
        out += '\n';
      });
    }
  }
  return out;
}

}  // namespace gpulens
