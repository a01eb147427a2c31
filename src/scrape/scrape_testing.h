// For tests of this folder: a page through the collector's parse part and out again through an encoder.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "names/naming.h"
#include "scrape/page_series.h"
#include "wire/exposition/exposition_parser.h"
#include "wire/exposition/text_page.h"

namespace gpulens::scrape_testing {

// One target whose pages are handed in.
class PageFixture {
 public:
  explicit PageFixture(uint32_t limit = UINT32_MAX, AttributeSet target = {{"target", std::string_view("t")}},
                       const ExpositionLimits& limits = {}, bool honor_timestamps = true)
      : page(limits, honor_timestamps),
        table(SeriesTable::Options{.limit = limit}),
        writer(table, std::chrono::seconds(30), "scrape/t"),
        series(page, MakeRef<Entity>("target", std::move(target))) {}

  Ref<const Frame> Scrape(std::string_view body, ExpositionFormat format = ExpositionFormat::kText004) {
    clock.Advance(std::chrono::seconds(15));
    writer.Begin(clock.Now());
    last = page.Update(body, format);
    if (last.code != Code::kExhausted) series.Write(last.ok(), writer);
    return frame = writer.Finish();
  }
  // A run whose scrape failed.
  Ref<const Frame> Miss() {
    clock.Advance(std::chrono::seconds(15));
    writer.Begin(clock.Now());
    return frame = writer.Finish();
  }
  // The last frame as a page, without the label "target" unless `with_target`.
  std::string Render(ExpositionFormat format, bool with_target = false) const {
    TextPage encoder(
        {format, NameEscaping::kUtf8}, [with_target](const SeriesInfo& info, std::vector<NamedSeries>& out) {
          NameNative(info, out);
          if (with_target) return;
          std::erase_if(out.back().labels, [](const auto& label) { return label.first == "target"; });
        });
    Snapshot snapshot;
    snapshot.frames.push_back({frame, frame->source, Precedence::kPassThrough, false});
    std::string text;
    encoder.Render(snapshot, text);
    return text;
  }

  ManualClock clock;
  ScrapedPage page;
  SeriesTable table;
  FrameWriter writer;
  PageSeries series;
  Status last;
  Ref<const Frame> frame;
};

// The samples of a page as written, and its families: for comparing pages.
class PageWords final : public ExpositionHandler {
 public:
  PageWords(std::string_view body, ExpositionFormat format) {
    auto result = ParseExposition(body, format, ExpositionLimits{}, *this);
    CHECK(result.ok());
    report = *result;
  }
  void OnFamily(uint32_t, const ExpositionFamily& family) override {
    names_.push_back(family.name);
    all_[family.name] = std::string(ExpositionTypeName(family.type)) + "|" + family.help + "|" + family.unit;
  }
  void OnSample(const SampleView& sample) override {
    const std::string& family = names_[sample.family];
    families[family] = all_[family];
    std::vector<std::string> labels;
    for (const LabelView& label : sample.labels) {
      if (label.value.empty() || label.name == BoundLabel(sample.role)) continue;
      labels.push_back(std::string(label.name) + "=" + std::string(label.value));
    }
    std::sort(labels.begin(), labels.end());
    std::string key = std::string(sample.name) + " " + std::to_string(sample.bound);
    for (const std::string& label : labels) key += "\x1f" + label;
    std::string value = Number(sample.value);
    if (sample.exemplar) {
      value += " # " + Number(sample.exemplar->value) + "@" +
               std::to_string(sample.exemplar->timestamp_ms.value_or(-1));
      for (const LabelView& label : sample.exemplar->labels) {
        value += "\x1f" + std::string(label.name) + "=" + std::string(label.value);
      }
    }
    duplicates += !samples.emplace(key, value).second;
  }

  ExpositionReport report;
  std::map<std::string, std::string> samples, families;  // families with a sample
  size_t duplicates = 0;

 private:
  static std::string Number(double value) {
    char text[kNumberBytes];
    return {text, WriteNumber(text, value)};
  }
  std::vector<std::string> names_;
  std::map<std::string, std::string> all_;
};

}  // namespace gpulens::scrape_testing
