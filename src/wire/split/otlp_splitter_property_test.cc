// Compares splitting of random requests by random rules with a reference implementation that reads with
// protozero.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <tuple>

#include "base/hash.h"
#include "wire/otlp/otlp_in_testing.h"
#include "wire/split/otlp_splitter.h"
#include "wire/split/split_testing.h"

namespace gpulens {
namespace {

using otlp_in_testing::Maker;
using protozero::pbf_reader;
using split_testing::ItemModel;
using split_testing::Model;
using split_testing::Whole;

std::string ValueText(pbf_reader value) {
  std::string out;
  while (value.next()) {
    switch (value.tag()) {
      case 1: out = value.get_string(); break;
      case 3: out = std::to_string(value.get_int64()); break;
      // The only list that the maker makes.
      case 6: out = "{\"in\":\"side\"}"; [[fallthrough]];
      default: value.skip();
    }
  }
  return out;
}

struct Attribute {
  std::string key, text, raw;
};
void ReadAttributes(pbf_reader message, uint32_t field, std::vector<Attribute>& out) {
  while (message.next()) {
    if (message.tag() != field) {
      message.skip();
      continue;
    }
    Attribute& attribute = out.emplace_back();
    for (pbf_reader pair = message.get_message(); pair.next();) {
      if (pair.tag() == 1) attribute.key = pair.get_string();
      else if (pair.tag() == 2) {
        const auto view = pair.get_view();
        attribute.raw = std::string(view);
        attribute.text = ValueText(pbf_reader(view));
      } else pair.skip();
    }
  }
}

class OtlpModel {
 public:
  OtlpModel(OtlpSignal signal, SplitHash hash) : signal_(signal), hash_(hash) {}

  std::vector<ItemModel> Read(std::string_view request) {
    Level(request, 0, "");
    return std::move(items_);
  }

 private:
  bool IsRouted(int level, uint32_t number) const {
    if (level == 3) return number == 5 || number == 7 || (number >= 9 && number <= 11);
    return number == (level == 0 || level == 4 ? 1u : 2u);
  }
  bool HoldsItems(int level) const { return level == 4 || (level == 2 && signal_ != OtlpSignal::kMetrics); }

  // Reads the other fields of a message first, then each routed message inside.
  void Level(std::string_view message, int level, std::string around) {
    pbf_reader head(message.data(), message.size());
    around += "/" + std::to_string(level);
    if (level == 1) resource_.clear(), scope_.clear();
    if (level == 2) scope_.clear();
    while (head.next()) {
      const uint32_t number = head.tag();
      if (IsRouted(level, number)) {
        head.skip();
        continue;
      }
      const std::string field = Whole(head);
      around += field;
      if ((level != 1 && level != 2) || number != 1) {
        if (level == 3 && number == 1) name_ = split_testing::Content(field);
        continue;
      }
      const std::string content = split_testing::Content(field);
      ReadAttributes(pbf_reader(content), level == 1 ? 1 : 3, level == 1 ? resource_ : scope_);
    }
    pbf_reader fields(message.data(), message.size());
    while (fields.next()) {
      if (!IsRouted(level, fields.tag())) {
        fields.skip();
        continue;
      }
      const uint32_t number = fields.tag();
      const std::string below(fields.get_view());
      if (HoldsItems(level)) Item(below, around);
      else Level(below, level + 1, around + "#" + std::to_string(number));
      if (level == 2) name_.clear();
    }
  }

  void Item(const std::string& item, const std::string& around) {
    // The field number of the metric's data is the last number in `around`.
    uint32_t field = signal_ == OtlpSignal::kLogs ? 6 : 9;
    if (signal_ == OtlpSignal::kMetrics) {
      const size_t end = around.rfind("/4");
      const size_t begin = around.rfind('#', end);
      const std::string data = around.substr(begin + 1, end - begin - 1);
      field = data == "9" ? 9 : data == "10" ? 1 : 7;
    }
    std::vector<Attribute> own;
    ReadAttributes(pbf_reader(item), field, own);
    ItemModel& out = items_.emplace_back();
    out.text = around + item;
    for (const auto* attributes : {&own, &scope_, &resource_}) {
      std::map<std::string, std::string> last;
      for (const Attribute& attribute : *attributes) last[attribute.key] = attribute.text;
      for (const auto& [key, text] : last) out.values[key] = text;
    }
    uint64_t resource = 0, sum = 0;
    for (const Attribute& attribute : resource_) resource += PairHash(attribute.key, attribute.raw);
    for (const Attribute& attribute : own) sum += PairHash(attribute.key, attribute.raw);
    out.hash = MixBits(resource);
    if (hash_ == SplitHash::kSeries && signal_ == OtlpSignal::kMetrics)
      out.hash = MixBits(MixBits(out.hash + StableHash(name_)) + sum);
    if ((hash_ == SplitHash::kSeries || hash_ == SplitHash::kTrace) && signal_ == OtlpSignal::kTraces)
      out.hash = StableHash("0123456789abcdef");
  }

  const OtlpSignal signal_;
  const SplitHash hash_;
  std::vector<Attribute> resource_, scope_;
  std::string name_;
  std::vector<ItemModel> items_;
};

void CheckOtlpParts(uint64_t seed) {
  Maker maker(seed);
  const auto signal = static_cast<OtlpSignal>(maker.Below(3));
  const std::vector<std::string> names = {"a",         "bb",          "k8s.pod.name", "x.y",
                                          "gpu.index", "k8s.pod.uid", "none"};
  const std::vector<std::string> patterns = {"*", "1", "?", "v*", "uid-?", "*side*", "-*", "*3*", ""};
  const SplitRule rule = split_testing::MakeRule(names, patterns, [&](int n) { return maker.Below(n); });
  const std::string request = maker.Make(signal);
  const Model expected = split_testing::Apply(OtlpModel(signal, rule.hash).Read(request), rule,
                                              [](const std::string& a) { return a; });

  static OtlpSplitter splitter;
  static std::vector<SplitPart> parts, again;
  uint32_t left_out = 0, none = 0;
  const Status status = splitter.Split(signal, request, rule, parts, left_out);
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(left_out, expected.left_out);
  ASSERT_EQ(parts.size(), expected.parts.size());
  if (parts.size() == 1 && left_out == 0) {
    ASSERT_EQ(parts[0].body, request);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSERT_EQ(split_testing::KeyOf(parts[i]), expected.parts[i].key);
    std::vector<std::string> texts;
    for (ItemModel& item : OtlpModel(signal, rule.hash).Read(parts[i].body))
      texts.push_back(std::move(item.text));
    ASSERT_EQ(texts, expected.parts[i].texts);
    ASSERT_EQ(parts[i].items, texts.size());
    ASSERT_EQ(parts[i].hash, rule.hash == SplitHash::kNone ? 0 : expected.parts[i].hash);
    // A part needs no further cut.
    ASSERT_TRUE(OtlpSplitter().Split(signal, parts[i].body, rule, again, none).ok());
    ASSERT_EQ(again.size(), 1u);
    ASSERT_EQ(none, 0u);
    ASSERT_EQ(again[0].body, parts[i].body);
  }
}

// Requests with one random byte are refused, or their parts can be split again.
void CheckChangedOtlp(uint64_t seed) {
  Maker maker(seed);
  const auto signal = static_cast<OtlpSignal>(maker.Below(3));
  std::string request = maker.Make(signal);
  for (int i = 0; i < 20 && !request.empty(); ++i) {
    std::string changed = request;
    changed[static_cast<size_t>(maker.Below(static_cast<int>(request.size())))] =
        static_cast<char>(maker.Below(256));
    std::vector<SplitPart> parts, again;
    uint32_t left_out = 0;
    const SplitRule rule{.by = "a", .hash = SplitHash::kResource, .shards = 3};
    OtlpSplitter splitter;
    const Status status = splitter.Split(signal, changed, rule, parts, left_out);
    ASSERT_TRUE(status.ok() || (status.code == Code::kDataLoss && parts.empty()));
    for (const SplitPart& part : parts)
      ASSERT_TRUE(splitter.Split(signal, part.body, rule, again, left_out).ok());
  }
}

TEST(OtlpSplitterProperty, PartsEqualTheReference) {
  for (uint64_t seed = 0; seed < 1500 && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    CheckOtlpParts(seed);
  }
}

TEST(OtlpSplitterProperty, ChangedBytesAreRefusedOrSplit) {
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    CheckChangedOtlp(seed);
  }
}

}  // namespace
}  // namespace gpulens
