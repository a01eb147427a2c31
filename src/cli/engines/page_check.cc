#include "cli/engines/page_check.h"

#include <algorithm>

#include "base/text.h"
#include "scrape/engine/engine_families.h"

namespace gpulens {
namespace {

using engine_page::Engine;
using engine_page::EngineRow;
using engine_page::KnownFamily;

std::string_view TypeName(const ExpositionFamily& family) noexcept {
  return family.typed ? ExpositionTypeName(family.type) : "untyped";
}

std::string TypesOf(const EngineRow& row) {
  std::string out;
  for (auto type : {ExpositionType::kCounter, ExpositionType::kGauge, ExpositionType::kHistogram,
                    ExpositionType::kSummary, ExpositionType::kUnknown}) {
    if (!row.Takes(type)) continue;
    if (!out.empty()) out += " or ";
    out += type == ExpositionType::kUnknown ? "untyped" : ExpositionTypeName(type);
  }
  return out;
}

std::string ReasonOf(std::span<const EngineRow> rows) {
  for (const EngineRow& row : rows) {
    if (row.use == engine_page::Use::kIgnore) return std::string(row.note);
  }
  return {};
}

CheckedFamily Check(const ExpositionFamily& family, const KnownFamily& known) {
  CheckedFamily out;
  out.name = family.name;
  out.kind = known.kind;
  out.type = TypeName(family);
  if (known.engine) out.engine = known.engine->name;
  if (known.other_type) out.expected = TypesOf(known.rows.front());
  switch (known.kind) {
    case KnownFamily::kMapped:
      for (const EngineRow& row : known.rows) {
        if (row.metric &&
            std::find(out.metrics.begin(), out.metrics.end(), row.metric->name) == out.metrics.end())
          out.metrics.push_back(row.metric->name);
      }
      break;
    case KnownFamily::kAlias: out.text = known.rows.front().alias_of; break;
    case KnownFamily::kIgnored: out.text = ReasonOf(known.rows); break;
    case KnownFamily::kUnknown: out.text = engine_page::GuessRow(family); break;
    case KnownFamily::kPass:
    case KnownFamily::kGone: break;
  }
  return out;
}

std::string Plural(size_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

void AppendPadded(std::string& out, std::string_view text, size_t width) {
  size_t before = out.size();
  AppendPrintable(out, text);
  size_t shown = out.size() - before;
  out.append(shown + 2 < width ? width - shown : 2, ' ');
}

// One list of families with what is said of each.
void AppendSection(std::string& out, const PageCheck& check, KnownFamily::Kind kind, std::string_view head) {
  size_t count = check.Count(kind);
  if (count == 0) return;
  out += "\n" + std::string(head) + ": " + std::to_string(count) + "\n";
  size_t width = 0;
  for (const CheckedFamily& family : check.families) {
    if (family.kind == kind) width = std::max(width, std::min<size_t>(family.name.size(), 60));
  }
  for (const CheckedFamily& family : check.families) {
    if (family.kind != kind) continue;
    if (kind == KnownFamily::kUnknown) {
      // Tabs as they stand in the tables; the name is from outside.
      for (char c : family.text) {
        if (c == '\t') out += c;
        else AppendPrintable(out, std::string_view(&c, 1));
      }
      out += '\n';
      continue;
    }
    out += "  ";
    std::string what = family.text;
    for (std::string_view metric : family.metrics) what += (what.empty() ? "" : " ") + std::string(metric);
    if (what.empty()) AppendPrintable(out, family.name);
    else AppendPadded(out, family.name, width + 2);
    out += what + "\n";
  }
}

std::string Recognised(const PageCheck& check) {
  std::string out;
  for (const Engine* engine : check.engines) {
    size_t families = static_cast<size_t>(
        std::count_if(check.families.begin(), check.families.end(),
                      [&](const CheckedFamily& family) { return family.engine == engine->name; }));
    out += (out.empty() ? "" : ", ") + std::string(engine->name) + " (" + std::string(engine->layer) + ", " +
           Plural(families, "family", "families") + ")";
  }
  return out;
}

void AppendFieldIfAny(std::string& out, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  out += ',';
  AppendJsonString(out, key);
  out += ':';
  AppendJsonString(out, value);
}

}  // namespace

size_t PageCheck::Count(KnownFamily::Kind kind) const noexcept {
  return static_cast<size_t>(std::count_if(families.begin(), families.end(),
                                           [&](const CheckedFamily& family) { return family.kind == kind; }));
}

PageCheck CheckPage(std::string source, const ScrapedPage& page, const engine_page::PageFamilies& families) {
  PageCheck check;
  check.source = std::move(source);
  check.engines.assign(families.engines().begin(), families.engines().end());
  for (size_t i = 0; i < page.families().size(); ++i) {
    if (page.families()[i].alive) check.families.push_back(Check(page.families()[i], families.families()[i]));
  }
  std::sort(check.families.begin(), check.families.end(),
            [](const CheckedFamily& a, const CheckedFamily& b) { return a.name < b.name; });
  const ExpositionReport& report = page.report();
  check.samples = report.samples;
  check.bad_lines = report.bad_lines;
  check.duplicates = report.duplicates;
  check.over_limit = report.samples_over_limit;
  check.cut = report.truncated;
  if (!page.bad_examples().empty()) {
    const auto& bad = page.bad_examples().front();
    check.first_bad =
        "line " + std::to_string(bad.line) + " (" + std::string(LineErrorName(bad.error)) + "): ";
    AppendPrintable(check.first_bad, bad.excerpt);
  }
  return check;
}

std::string CheckText(const PageCheck& check) {
  std::string out;
  AppendPrintable(out, check.source);
  out += ": " + Plural(check.families.size(), "family", "families") + ", " +
         Plural(check.samples, "sample", "samples") + "\n";
  out += check.engines.empty() ? "no engine is recognised   list the known ones: gpulens engines list; a "
                                 "page without prefixes needs --engine\n"
                               : "recognised: " + Recognised(check) + "\n";
  if (check.bad_lines > 0)
    out += "cannot be read: " + Plural(check.bad_lines, "line", "lines") + ", the first is " +
           check.first_bad + "\n";
  if (check.duplicates > 0) out += "duplicates: " + Plural(check.duplicates, "sample", "samples") + "\n";
  if (check.over_limit > 0)
    out += "above the limit, not read: " + Plural(check.over_limit, "sample", "samples") + "\n";
  if (check.cut) out += "the page is truncated: OpenMetrics without # EOF\n";
  AppendSection(out, check, KnownFamily::kMapped, "mapped");
  AppendSection(out, check, KnownFamily::kAlias, "skipped, another name of");
  AppendSection(out, check, KnownFamily::kPass, "no role, shown with pass_through");
  AppendSection(out, check, KnownFamily::kIgnored, "ignored");
  AppendSection(out, check, KnownFamily::kUnknown, "unknown, with a row for src/scrape/engine/tables");
  bool first = true;
  for (const CheckedFamily& family : check.families) {
    if (family.expected.empty()) continue;
    if (first) out += "\nwith a TYPE other than the table's:\n";
    first = false;
    out += "  ";
    AppendPrintable(out, family.name);
    out += " is " + std::string(family.type) + ", expected " + family.expected + "\n";
  }
  return out;
}

std::string CheckJson(const PageCheck& check) {
  std::string out = "{\"schema\":\"gpulens.engines.check/1\"";
  AppendFieldIfAny(out, "source", check.source);
  out += ",\"engines\":[";
  for (const Engine* engine : check.engines) {
    out += out.back() == '[' ? "{\"name\":" : ",{\"name\":";
    AppendJsonString(out, engine->name);
    AppendFieldIfAny(out, "layer", engine->layer);
    out += '}';
  }
  out += "],\"samples\":" + std::to_string(check.samples) +
         ",\"bad_lines\":" + std::to_string(check.bad_lines) +
         ",\"duplicates\":" + std::to_string(check.duplicates) +
         ",\"over_limit\":" + std::to_string(check.over_limit) +
         ",\"cut\":" + (check.cut ? "true" : "false") + ",\"counts\":{";
  for (auto kind : {KnownFamily::kMapped, KnownFamily::kAlias, KnownFamily::kPass, KnownFamily::kIgnored,
                    KnownFamily::kUnknown}) {
    if (out.back() != '{') out += ',';
    AppendJsonString(out, engine_page::KindName(kind));
    out += ':' + std::to_string(check.Count(kind));
  }
  out += "},\"families\":[";
  for (const CheckedFamily& family : check.families) {
    out += out.back() == '[' ? "\n{\"name\":" : ",\n{\"name\":";
    AppendJsonString(out, family.name);
    AppendFieldIfAny(out, "type", family.type);
    AppendFieldIfAny(out, "verdict", engine_page::KindName(family.kind));
    AppendFieldIfAny(out, "engine", family.engine);
    AppendFieldIfAny(out, "expected_type", family.expected);
    constexpr std::string_view kTextKeys[] = {"", "row", "", "alias_of", "", "reason"};
    if (!kTextKeys[family.kind].empty()) AppendFieldIfAny(out, kTextKeys[family.kind], family.text);
    if (!family.metrics.empty()) {
      out += ",\"metrics\":[";
      for (std::string_view metric : family.metrics) {
        if (out.back() != '[') out += ',';
        AppendJsonString(out, metric);
      }
      out += ']';
    }
    out += '}';
  }
  return out + "\n]}\n";
}

int CheckResult(const PageCheck& check) noexcept {
  return check.engines.empty() || check.Count(KnownFamily::kUnknown) > 0 ? 1 : 0;
}

}  // namespace gpulens
