// Property: a page, scraped and encoded again, is the same, in each of the three formats.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "scrape/scrape_testing.h"

namespace gpulens {
namespace {

using scrape_testing::PageFixture;
using scrape_testing::PageWords;
using Format = ExpositionFormat;

std::string Escape(const std::string& text, bool quotes) {
  std::string out;
  for (char c : text) {
    if (c == '\\') out += "\\\\";
    else if (c == '\n') out += "\\n";
    else if (c == '"' && quotes) out += "\\\"";
    else out += c;
  }
  return out;
}

std::string Text() {
  static const std::vector<std::string> kPieces = {"a", "Z9", " ", "\\", "\"", "\n", "é",  "中",  "{",
                                                   "}", ",",  "=", "#",  "\t", "\r", "le", "\x01"};
  std::string out;
  for (int n = *rc::gen::inRange(0, 6); n > 0; --n) out += *rc::gen::elementOf(kPieces);
  return out;
}

double Value() {
  switch (*rc::gen::inRange(0, 6)) {
    case 0: return std::nan("");
    case 1: return *rc::gen::element(-1.0, 1.0) * INFINITY;
    case 2: return *rc::gen::arbitrary<double>();
    case 3: return -0.0;
    default: return static_cast<double>(*rc::gen::arbitrary<int>());
  }
}

std::string Number(double value) {
  char text[kNumberBytes];
  return {text, WriteNumber(text, value)};
}

// Writes random pages of one format that are right in it.
class PageMaker {
 public:
  explicit PageMaker(Format format) : format_(format), open_(format == Format::kOpenMetrics100) {}

  std::string Make() {
    int families = *rc::gen::inRange(1, 6);
    for (int i = 0; i < families; ++i) Family(i);
    if (open_) out_ += "# EOF\n";
    return out_;
  }

 private:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  bool utf8() const { return format_ != Format::kText004; }

  void Family(int number) {
    std::vector<std::string> types = {"counter", "gauge", "histogram", "summary",
                                      open_ ? "unknown" : "untyped"};
    if (open_) types.insert(types.end(), {"info", "stateset", "gaugehistogram"});
    std::string type = *rc::gen::elementOf(types);
    std::string name =
        "m" + std::to_string(number) + *rc::gen::element<std::string>("", "_x", ":y", "_count");
    if (utf8() && *rc::gen::arbitrary<bool>()) name += *rc::gen::element<std::string>(".é", " b\"\\");
    std::string unit;
    if (open_ && type != "info" && type != "stateset" && *rc::gen::arbitrary<bool>()) unit = "seconds";
    if (!unit.empty()) name += "_" + unit;
    std::string family = name;
    if (type == "counter" && !open_ && *rc::gen::arbitrary<bool>()) family = name = name + "_total";
    else if (type == "counter" && open_) name += "_total";
    if (type == "info") name += "_info";
    std::string help = Text();
    if (!help.empty() && help.find('\r') == help.npos && help.front() != ' ' && help.front() != '\t')
      out_ += "# HELP " + Shown(family) + " " + Escape(help, open_) + "\n";
    bool typed = type != "unknown" && type != "untyped";
    if (typed || *rc::gen::arbitrary<bool>()) out_ += "# TYPE " + Shown(family) + " " + type + "\n";
    if (!unit.empty()) out_ += "# UNIT " + Shown(family) + " " + unit + "\n";
    std::set<Labels> seen;
    for (int n = *rc::gen::inRange(1, 4); n > 0; --n) {
      Labels labels = MakeLabels();
      if (type == "stateset") labels.emplace_back(family, "state" + std::to_string(n));
      if (seen.insert(labels).second) Samples(family, name, type, labels);
    }
  }

  void Samples(const std::string& family, const std::string& name, const std::string& type,
               const Labels& labels) {
    if (type == "histogram" || type == "gaugehistogram") return Histogram(family, type, labels);
    if (type == "summary") return Summary(family, labels);
    double value = type == "info" ? 1 : type == "stateset" ? *rc::gen::inRange(0, 2) : Value();
    Line(name, labels, {}, Number(value) + (type == "counter" ? Exemplar() : ""));
    if (type == "counter") Created(family, labels);
  }

  void Histogram(const std::string& family, const std::string& type, const Labels& labels) {
    std::set<double> bounds;
    for (int n = *rc::gen::inRange(0, 5); n > 0; --n) bounds.insert(*rc::gen::inRange(-20, 99) / 8.0);
    if (*rc::gen::arbitrary<bool>()) bounds.insert(INFINITY);
    for (double bound : bounds) {
      std::string shown = Number(bound);
      if (open_ && std::isfinite(bound) && shown.find('.') == shown.npos) shown += ".0";
      Line(family + "_bucket", labels, "le=\"" + shown + "\"", Number(Value()) + Exemplar());
    }
    bool gauge = type == "gaugehistogram";
    if (*rc::gen::arbitrary<bool>()) Line(family + (gauge ? "_gsum" : "_sum"), labels, {}, Number(Value()));
    if (bounds.empty() || *rc::gen::arbitrary<bool>())
      Line(family + (gauge ? "_gcount" : "_count"), labels, {}, Number(Value()));
    if (!gauge) Created(family, labels);
  }

  void Summary(const std::string& family, const Labels& labels) {
    for (double q : {0.5, 0.99}) {
      if (*rc::gen::arbitrary<bool>())
        Line(family, labels, "quantile=\"" + Number(q) + "\"", Number(Value()));
    }
    Line(family + "_sum", labels, {}, Number(Value()));
    if (*rc::gen::arbitrary<bool>()) Line(family + "_count", labels, {}, Number(Value()));
    Created(family, labels);
  }

  void Created(const std::string& family, const Labels& labels) {
    if (!open_ || !*rc::gen::arbitrary<bool>()) return;
    Line(family + "_created", labels, {}, std::to_string(*rc::gen::inRange(1, 2'000'000'000)) + ".125");
  }

  std::string Exemplar() {
    if (!open_ || *rc::gen::inRange(0, 3) != 0) return {};
    std::string out =
        " # {trace_id=\"" + Escape(Text(), true) + "\"} " + Number(*rc::gen::inRange(0, 99) / 4.0);
    if (*rc::gen::arbitrary<bool>()) out += " 1700000000.25";
    return out;
  }

  Labels MakeLabels() {
    std::vector<std::string> names = {"a", "b", "job", "_z"};
    if (utf8()) names.insert(names.end(), {"ü", "x.y", "q\"\\"});
    std::set<std::string> chosen;
    for (int n = *rc::gen::inRange(0, 4); n > 0; --n) chosen.insert(*rc::gen::elementOf(names));
    Labels labels;
    for (const std::string& name : chosen) labels.emplace_back(name, "v" + Text());
    return labels;
  }

  static bool IsLegacy(const std::string& name) {
    return name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_:") == name.npos;
  }
  std::string Shown(const std::string& name) const {
    return IsLegacy(name) ? name : "\"" + Escape(name, true) + "\"";
  }

  void Line(const std::string& name, const Labels& labels, const std::string& bound,
            const std::string& number) {
    std::vector<std::string> parts;
    if (!IsLegacy(name)) parts.push_back(Shown(name));
    for (const auto& [key, value] : labels) {
      bool quoted = !IsLegacy(key) || key.find(':') != key.npos;
      parts.push_back((quoted ? "\"" + Escape(key, true) + "\"" : key) + "=\"" + Escape(value, true) + "\"");
    }
    if (!bound.empty()) parts.push_back(bound);
    if (IsLegacy(name)) out_ += name;
    for (size_t i = 0; i < parts.size(); ++i) out_ += (i == 0 ? "{" : ",") + parts[i];
    out_ += (parts.empty() ? " " : "} ") + number + "\n";
  }

  const Format format_;
  const bool open_;
  std::string out_;
};

void CheckIdentity(Format format) {
  // The collector's memory of earlier pages must not show, so one target reads several.
  PageFixture fixture;
  for (int pages = *rc::gen::inRange(1, 4); pages > 0; --pages) {
    std::string page = PageMaker(format).Make();
    fixture.Scrape(page, format);
    PageWords before(page, format);
    RC_ASSERT(before.report.bad_lines == 0u);
    std::string again = fixture.Render(format);
    PageWords after(again, format);
    RC_LOG() << "page:\n" << page << "again:\n" << again;
    RC_ASSERT(after.report.bad_lines == 0u);
    RC_ASSERT(before.families == after.families);
    RC_ASSERT(before.samples == after.samples);
  }
}

TEST(EncodeAfterParse, IsIdentityInText004) {
  EXPECT_TRUE(rc::check([] { CheckIdentity(Format::kText004); }));
}
TEST(EncodeAfterParse, IsIdentityInText100) {
  EXPECT_TRUE(rc::check([] { CheckIdentity(Format::kText100); }));
}
TEST(EncodeAfterParse, IsIdentityInOpenMetrics) {
  EXPECT_TRUE(rc::check([] { CheckIdentity(Format::kOpenMetrics100); }));
}

}  // namespace
}  // namespace gpulens
