// Any bytes as a page in any format: no crash, no endless loop, and what is reported adds up.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/text.h"
#include "wire/exposition/exposition_line.h"
#include "wire/exposition/exposition_parser.h"

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

struct Watcher final : gpulens::ExpositionHandler {
  void OnFamily(uint32_t id, const gpulens::ExpositionFamily& family) override {
    Require(id == families++, "family ids in order");
    Require(!family.name.empty(), "family has a name");
  }
  void OnSample(const gpulens::SampleView& sample) override {
    ++samples;
    Require(sample.family < families, "family is known");
    Require(!sample.name.empty() && gpulens::IsUtf8(sample.name), "name is text");
    Require(!std::isnan(sample.bound), "bound is a number");
    for (const gpulens::LabelView& label : sample.labels)
      Require(gpulens::IsUtf8(label.value), "label is text");
  }
  void OnBadLine(const gpulens::BadLine& line) override {
    ++bad;
    Require(line.number > last_line && line.excerpt.size() <= 80, "bad lines in order");
    last_line = line.number;
  }
  size_t families = 0, samples = 0, bad = 0, last_line = 0;
};

void CompareWithStrtod(std::string_view text) {
  std::string number(text.substr(0, text.find_first_of(std::string_view(" \t\r\n\0", 5))));
  double value;
  const char* end = number.data() + number.size();
  if (number.empty() || gpulens::ReadExpositionNumber(number.data(), end, value) != end) return;
  char* stop = nullptr;
  double expected = std::strtod(number.c_str(), &stop);
  Require(stop == number.c_str() + number.size(), "strtod takes it too");
  Require(std::isnan(value) ? std::isnan(expected)
                            : value == expected && std::signbit(value) == std::signbit(expected),
          "the same number as strtod");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  std::string_view page(reinterpret_cast<const char*>(data), size);
  CompareWithStrtod(page);
  ExpositionLimits limits;
  limits.samples = 50;
  limits.labels = 8;
  limits.line_bytes = 2048;
  limits.families = 20;
  for (auto format :
       {ExpositionFormat::kText004, ExpositionFormat::kText100, ExpositionFormat::kOpenMetrics100}) {
    Watcher watcher;
    auto report = ParseExposition(page, format, limits, watcher);
    if (!report) {
      Require(report.status().code == Code::kExhausted && watcher.samples == 0, "above a limit");
      continue;
    }
    Require(report->samples == watcher.samples && report->bad_lines == watcher.bad, "counts agree");
  }
  (void)DetectExpositionFormat(page);
  return 0;
}
