// Any Accept and any names, labels and help texts: the page that is made for them is read back whole in each
// format and escaping, with no name twice on a line and, unless quotes are allowed, with legacy names alone.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "core/frame_writer.h"
#include "wire/exposition/exposition_format.h"
#include "wire/exposition/exposition_parser.h"
#include "wire/exposition/naming_testing.h"
#include "wire/exposition/text_page.h"

namespace {

using namespace gpulens;

constexpr char kBetween = '\x1e';  // texts of the input

class Reader final : public ExpositionHandler {
 public:
  explicit Reader(PageForm form) : form_(form) {}
  void OnFamily(uint32_t, const ExpositionFamily&) override {}
  void OnSample(const SampleView& sample) override {
    ++samples;
    CHECK(IsUtf8(sample.name) && (Quotes() || IsLegacyMetricName(sample.name)));
    std::set<std::string_view> names;
    for (const LabelView& label : sample.labels) {
      CHECK(names.insert(label.name).second && label.name != "__name__");
      CHECK(IsUtf8(label.value) && (Quotes() || IsLegacyLabelName(label.name)));
    }
  }
  // A gauge h_bucket next to a histogram h has no bound, and escaping makes names longer than our own reader
  // accepts, in comments too; other readers accept them.
  void OnBadLine(const BadLine& line) override {
    CHECK(line.error == LineError::kBadBound || line.error == LineError::kTooLong);
    unread += !line.excerpt.starts_with('#');
  }
  size_t samples = 0, unread = 0;

 private:
  bool Quotes() const { return form_.escaping == NameEscaping::kUtf8; }
  const PageForm form_;
};

std::string_view TakeText(std::string_view& rest) {
  const std::string_view text = rest.substr(0, rest.find(kBetween));
  rest.remove_prefix(std::min(rest.size(), text.size() + 1));
  return text;
}

// Families of four texts each: name with a first byte for the kind, help, a label's name, another's.
Ref<Snapshot> MakeSnapshot(std::string_view rest) {
  SeriesTable table;
  FrameWriter writer(table, std::chrono::seconds(10));
  writer.Begin(ManualClock().Now());
  for (int i = 0; i < 8 && !rest.empty(); ++i) {
    const auto kind = static_cast<Kind>(static_cast<unsigned char>(rest[0]) % 9);
    rest.remove_prefix(1);
    const std::string_view name = TakeText(rest), help = TakeText(rest), key = TakeText(rest),
                           other = TakeText(rest);
    const MetricDesc* row = table.Own({.name = name, .unit = key, .help = help, .kind = kind});
    SeriesTable::Form form;
    if (kind == Kind::kHistogram || kind == Kind::kGaugeHistogram || kind == Kind::kSummary) {
      auto shape = MakeRef<Shape>();
      shape->bounds = {0.5, 1};
      form.shape = shape;
    }
    const Series series = table.Declare(*row, {}, {{key, help}, {other, name}}, form);
    if (form.shape) static_cast<void>(writer.Cells(series));
    else writer.Set(series, i);
  }
  Ref<Snapshot> snapshot = MakeRef<Snapshot>();
  snapshot->frames.push_back({writer.Finish(), "fuzz", Precedence::kNative, false});
  return snapshot;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const Negotiated wanted = Negotiate(TakeText(rest));
  CHECK(DetectExpositionFormat(wanted.content_type) == wanted.form.format);
  CHECK(wanted.content_type.ends_with("; escaping=" + std::string(NameEscapingWord(wanted.form.escaping))));
  const Ref<Snapshot> snapshot = MakeSnapshot(rest);
  std::string text;
  for (ExpositionFormat format :
       {ExpositionFormat::kText004, ExpositionFormat::kText100, ExpositionFormat::kOpenMetrics100}) {
    for (size_t escaping = 0; escaping < kNameEscapings; ++escaping) {
      const PageForm form(format, static_cast<NameEscaping>(escaping));
      TextPage page(form, wire_testing::NameVerbatim);
      page.Render(*snapshot, text);
      Reader reader(form);
      const auto report = ParseExposition(text, format, {}, reader);
      CHECK(report.ok() && !report->truncated && !report->open_end);
      CHECK(reader.samples + reader.unread == page.samples());
    }
  }
  return 0;
}
