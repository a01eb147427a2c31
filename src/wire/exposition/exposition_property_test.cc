// Properties: a model rendered in any of the formats parses back to itself, and a ScrapedPage that has
// read any number of mutated pages equals a fresh parse of the last one.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "wire/exposition/exposition_testing.h"

namespace gpulens {
namespace {

using exposition_testing::Lines;

struct ModelSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
  std::optional<int64_t> timestamp_ms;
};
struct ModelFamily {
  std::string name, help;
  ExpositionType type = ExpositionType::kGauge;
  std::vector<ModelSample> samples;
};

std::string Escape(const std::string& text, bool quote) {
  std::string out;
  for (char c : text) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '"' && quote) out += "\\\"";
    else out += c;
  }
  return out;
}

bool IsPlainName(const std::string& name) {
  for (size_t i = 0; i < name.size(); ++i) {
    bool letter = std::isalpha(static_cast<unsigned char>(name[i])) || name[i] == '_';
    if (!letter && (i == 0 || !std::isdigit(static_cast<unsigned char>(name[i])))) return false;
  }
  return !name.empty();
}

std::string Name(const std::string& name) {
  return IsPlainName(name) ? name : "\"" + Escape(name, true) + "\"";
}

std::string Number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string Render(const std::vector<ModelFamily>& families, bool open) {
  std::string out;
  for (const ModelFamily& family : families) {
    out += "# TYPE " + Name(family.name) + " " + std::string(ExpositionTypeName(family.type)) + "\n";
    out += "# HELP " + Name(family.name) + " " + Escape(family.help, open) + "\n";
    for (const ModelSample& sample : family.samples) {
      bool plain = IsPlainName(sample.name);
      std::string inside = plain ? "" : Name(sample.name);
      for (const auto& [name, value] : sample.labels) {
        if (!inside.empty()) inside += ",";
        inside += Name(name) + "=\"" + Escape(value, true) + "\"";
      }
      out += plain ? sample.name : "";
      if (!inside.empty()) out += "{" + inside + "}";
      out += " " + Number(sample.value);
      if (sample.timestamp_ms && !open) out += " " + std::to_string(*sample.timestamp_ms);
      if (sample.timestamp_ms && open) out += " " + Number(static_cast<double>(*sample.timestamp_ms) / 1000);
      out += "\n";
    }
  }
  return open ? out + "# EOF\n" : out;
}

rc::Gen<std::string> TextGen() {
  return rc::gen::container<std::string>(rc::gen::elementOf(std::string("abcXYZ019_ :,{}=#\"\\\n\t.-/")));
}
rc::Gen<std::string> NameGen() {
  return rc::gen::map(rc::gen::pair(rc::gen::elementOf(std::string("abzAZ_")), TextGen()),
                      [](const auto& parts) { return std::string(1, parts.first) + parts.second; });
}
rc::Gen<double> ValueGen() {
  return rc::gen::oneOf(rc::gen::map(rc::gen::inRange(-1000, 100000), [](int i) { return i / 8.0; }),
                        rc::gen::map(rc::gen::arbitrary<uint64_t>(), [](uint64_t bits) {
                          double value = std::bit_cast<double>(bits);
                          return value == value ? value : std::numeric_limits<double>::quiet_NaN();
                        }));
}

std::vector<ModelFamily> Families() {
  std::vector<ModelFamily> families;
  std::set<std::string> names;
  int count = *rc::gen::inRange(0, 5);
  for (int i = 0; i < count; ++i) {
    ModelFamily family;
    // A digit at the end keeps one family's name from being another's with a suffix.
    family.name = *NameGen() + std::to_string(i);
    family.help = *TextGen();
    // Blanks around a help text are not kept, and of an empty one nothing is.
    family.help = "x" + family.help + "x";
    bool histogram = *rc::gen::arbitrary<bool>();
    family.type = histogram ? ExpositionType::kHistogram : ExpositionType::kGauge;
    int series = *rc::gen::inRange(0, 4);
    for (int s = 0; s < series; ++s) {
      ModelSample sample;
      sample.labels.emplace_back("id", std::to_string(s));
      int labels = *rc::gen::inRange(0, 3);
      for (int l = 0; l < labels; ++l) sample.labels.emplace_back(*NameGen() + std::to_string(l), *TextGen());
      sample.value = *ValueGen();
      if (*rc::gen::arbitrary<bool>()) sample.timestamp_ms = *rc::gen::inRange<int64_t>(-1000, 4102444800000);
      sample.name = family.name + (histogram ? "_bucket" : "");
      if (histogram) sample.labels.emplace_back("le", Number(*rc::gen::inRange(-5, 5)));
      family.samples.push_back(sample);
    }
    families.push_back(family);
  }
  return families;
}

struct Rebuild final : ExpositionHandler {
  void OnFamily(uint32_t, const ExpositionFamily& family) override {
    families.push_back({family.name, family.help, family.type, {}});
  }
  void OnSample(const SampleView& sample) override {
    ModelSample one{std::string(sample.name), {}, sample.value, sample.timestamp_ms};
    for (const LabelView& label : sample.labels) one.labels.emplace_back(label.name, label.value);
    families[sample.family].samples.push_back(one);
  }
  std::vector<ModelFamily> families;
};

std::string Show(const std::vector<ModelFamily>& families) {
  std::string out;
  for (const ModelFamily& family : families) {
    out += family.name + "|" + family.help + "|" + std::string(ExpositionTypeName(family.type)) + "\n";
    for (const ModelSample& sample : family.samples) {
      out += " " + sample.name;
      for (const auto& [name, value] : sample.labels) out += "|" + name + "=" + value;
      out += "|" + exposition_testing::Hex(sample.value) + "|" +
             exposition_testing::TimeText(sample.timestamp_ms) + "\n";
    }
  }
  return out;
}

TEST(ExpositionProperty, ARenderedModelParsesBack) {
  EXPECT_TRUE(rc::check([] {
    std::vector<ModelFamily> model = Families();
    bool open = *rc::gen::arbitrary<bool>();
    std::string page = Render(model, open);
    Rebuild rebuilt;
    auto report = ParseExposition(page, open ? ExpositionFormat::kOpenMetrics100 : ExpositionFormat::kText100,
                                  {}, rebuilt);
    RC_ASSERT(report.ok());
    RC_ASSERT(report->bad_lines == 0u);
    RC_ASSERT(Show(rebuilt.families) == Show(model));
  }));
}

std::string Joined(const Lines& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

// One change of a page: lines taken out, doubled, swapped, cut, given other numbers, or new.
void Mutate(Lines& lines) {
  static const Lines kFresh = {"fresh{a=\"1\"} 5",
                               "# TYPE fresh counter",
                               "fresh_total 6",
                               "broken{",
                               "# HELP a0 other",
                               "f_bucket{le=\"2\"} 1",
                               "# TYPE f histogram",
                               "f_bucket{le=\"2.0\"} 9",
                               "# TYPE f summary",
                               "",
                               "fresh{a=\"1\"} 5 17",
                               "# EOF",
                               "f_sum 1 # {x=\"y\"} 2",
                               "fresh{b=\"\",a=\"1\"} 8",
                               "f_count 0x1",
                               "g_sum 1",
                               "g_bucket{le=\"1\"} 1",
                               "g_bucket{le=\"x\"} 1",
                               "# TYPE g_bucket untyped",
                               "# TYPE g_count untyped",
                               "# TYPE g gauge",
                               "g_count 4"};
  if (lines.empty()) lines.push_back("seed 1");
  size_t at = *rc::gen::inRange<size_t>(0, lines.size());
  size_t other = *rc::gen::inRange<size_t>(0, lines.size());
  switch (*rc::gen::inRange(0, 6)) {
    case 0: lines.erase(lines.begin() + static_cast<ptrdiff_t>(at)); break;
    case 1: lines.insert(lines.begin() + static_cast<ptrdiff_t>(at), lines[other]); break;
    case 2: std::swap(lines[at], lines[other]); break;
    case 3: lines.insert(lines.begin() + static_cast<ptrdiff_t>(at), *rc::gen::elementOf(kFresh)); break;
    case 4:
      std::reverse(lines.begin() + static_cast<ptrdiff_t>(std::min(at, other)),
                   lines.begin() + static_cast<ptrdiff_t>(std::max(at, other)));
      break;
    default:
      for (std::string& line : lines) {
        if (!line.empty() && line[0] != '#' && line.back() >= '0' && line.back() < '9') ++line.back();
      }
  }
}

TEST(ExpositionProperty, AScrapedPageEqualsAFreshParse) {
  EXPECT_TRUE(rc::check([] {
    bool open = *rc::gen::arbitrary<bool>();
    ExpositionFormat format = open ? ExpositionFormat::kOpenMetrics100 : ExpositionFormat::kText100;
    std::string rendered = Render(Families(), open);
    Lines lines;
    for (std::string_view rest = rendered; !rest.empty();) {
      size_t cut = rest.find('\n');
      lines.emplace_back(rest.substr(0, cut));
      rest.remove_prefix(cut + 1);
    }
    ExpositionLimits limits;
    if (*rc::gen::inRange(0, 4) == 0) limits.samples = 8;
    if (*rc::gen::inRange(0, 4) == 0) limits.families = 5;
    ScrapedPage page(limits);
    int updates = *rc::gen::inRange(2, 8);
    for (int i = 0; i < updates; ++i) {
      std::string body = Joined(lines);
      if (!body.empty() && *rc::gen::inRange(0, 8) == 0) body.pop_back();
      (void)page.Update(body, format);
      std::string difference = exposition_testing::Difference(page, body, format, limits);
      RC_ASSERT(difference == "");
      int changes = *rc::gen::inRange(0, 4);
      for (int c = 0; c < changes; ++c) Mutate(lines);
    }
  }));
}

}  // namespace
}  // namespace gpulens
