// The same as otlp_splitter_property_test.cc for remote write. Series are compared with symbols replaced by
// their text.
#include <gtest/gtest.h>

#include <random>

#include "wire/remote_write/remote_write_in_testing.h"
#include "wire/split/remote_write_splitter.h"
#include "wire/split/split_testing.h"

namespace gpulens {
namespace {

using protozero::pbf_reader;
using remote_write_in_testing::First;
using remote_write_in_testing::Message;
using remote_write_in_testing::Pairs;
using remote_write_in_testing::Sample;
using remote_write_in_testing::Second;
using split_testing::Content;
using split_testing::ItemModel;
using split_testing::Whole;

class WriteMaker {
 public:
  explicit WriteMaker(uint64_t seed) : random_(seed) {}
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  std::string Make(RemoteWriteVersion version) {
    First first;
    Second second;
    std::string out;
    const bool is_first = version == RemoteWriteVersion::k1;
    for (int i = Below(12); i > 0; --i) {
      Pairs labels = Labels();
      std::string parts;
      for (int s = Below(4); s > 0; --s) parts += Sample(s);
      if (Below(4) == 0) parts += Message(is_first ? 4 : 3, "\x20\x02");
      if (Below(4) == 0) parts += Message(77, "unknown");
      if (is_first) {
        if (Below(4) == 0) parts += First::Exemplar({{"trace_id", "t"}}, 1, 2);
        out += First().Series(labels, parts).bytes();
        if (Below(6) == 0) out += First().Metadata(1, "m", "Help.", "By").bytes();
      } else {
        if (Below(4) == 0) parts += second.Exemplar({{"trace_id", "t" + std::to_string(Below(3))}}, 1, 2);
        second.Series(labels, parts,
                      {Below(4), Below(2) == 0 ? "" : "Help " + std::to_string(Below(4)), "By"});
      }
      if (Below(6) == 0) out += Message(99, "between");
    }
    if (is_first) return out;
    // Unknown fields come first; symbols come before or after the series that refer to them.
    const std::string all = second.bytes();
    const size_t symbols = all.find(std::string("\x22\x00", 2));
    return Below(2) == 0 ? out + all : out + all.substr(symbols) + all.substr(0, symbols);
  }

 private:
  Pairs Labels() {
    Pairs out = {{"__name__", "m" + std::to_string(Below(3))}};
    for (const char* name : {"a_b", "a.b", "instance", "job", "t"})
      if (Below(2) == 0)
        out.emplace_back(name, Below(8) == 0 ? "" : std::string(1, static_cast<char>('0' + Below(4))));
    if (Below(4) == 0) std::shuffle(out.begin(), out.end(), random_);
    return out;
  }
  std::mt19937_64 random_;
};

class WriteModel {
 public:
  WriteModel(RemoteWriteVersion version, SplitHash hash)
      : first_(version == RemoteWriteVersion::k1), hash_(hash) {}

  std::vector<ItemModel> Read(std::string_view request) {
    for (pbf_reader reader(request.data(), request.size()); reader.next();)
      if (!first_ && reader.tag() == 4) symbols_.push_back(reader.get_string());
      else reader.skip();
    std::vector<ItemModel> out;
    for (pbf_reader reader(request.data(), request.size()); reader.next();) {
      if (reader.tag() == (first_ ? 1u : 5u)) Series(reader.get_message(), out.emplace_back());
      else if (first_ || reader.tag() != 4) others += Whole(reader);
      else reader.skip();
    }
    return out;
  }
  std::string others;

 private:
  void Series(pbf_reader series, ItemModel& out) {
    out.items = 0;
    uint64_t sum = 0;
    Pairs labels;
    while (series.next()) {
      const uint32_t tag = series.tag();
      if (tag == 1 && first_) {
        const std::string whole = Whole(series);
        out.text += whole;
        auto& [name, value] = labels.emplace_back();
        const std::string content = Content(whole);
        for (pbf_reader label(content); label.next();) {
          std::string& to = label.tag() == 1 ? name : value;
          to = label.get_string();
        }
      } else if (tag == 1) {
        for (const std::string& text : Texts(series)) {
          out.text += "'" + text + "'";
          if (labels.empty() || !half_) labels.emplace_back(text, "");
          else labels.back().second = text;
          half_ = !half_;
        }
      } else if (tag == 4 && !first_) {
        pbf_reader exemplar = series.get_message();
        while (exemplar.next()) {
          if (exemplar.tag() != 1) out.text += Whole(exemplar);
          else
            for (const std::string& text : Texts(exemplar)) out.text += "'" + text + "'";
        }
      } else if (tag == 5 && !first_) {
        pbf_reader about = series.get_message();
        while (about.next()) {
          if (about.tag() == 1) out.text += Whole(about);
          else {
            out.text += std::to_string(about.tag());
            out.text += "'" + symbols_.at(about.get_uint32()) + "'";
          }
        }
      } else {
        out.items += tag == 2 || tag == (first_ ? 4u : 3u);
        out.text += Whole(series);
      }
    }
    for (const auto& [name, value] : labels) {
      if (value.empty()) continue;
      out.values[name] = value;
      if (hash_ == SplitHash::kSeries || name == "job" || name == "instance") sum += PairHash(name, value);
    }
    out.hash = MixBits(sum);
  }
  std::vector<std::string> Texts(pbf_reader& field) {
    std::vector<std::string> out;
    for (uint32_t ref : field.get_packed_uint32()) out.push_back(symbols_.at(ref));
    return out;
  }

  const bool first_;
  const SplitHash hash_;
  bool half_ = false;
  std::vector<std::string> symbols_;
};

void CheckWriteParts(uint64_t seed) {
  WriteMaker maker(seed);
  const auto version = maker.Below(2) == 0 ? RemoteWriteVersion::k1 : RemoteWriteVersion::k2;
  const SplitRule rule =
      split_testing::MakeRule({"a.b", "a_b", "t", "job", "__name__", "none"},
                              {"*", "?", "1", "m*", "*2", "x"}, [&](int n) { return maker.Below(n); });
  const std::string request = maker.Make(version);
  WriteModel model(version, rule.hash);
  const auto named = [](const std::string& name) { return name == "a.b" ? "a_b" : name; };
  const split_testing::Model expected = split_testing::Apply(model.Read(request), rule, named);

  static RemoteWriteSplitter splitter;
  static std::vector<SplitPart> parts, again;
  uint32_t left_out = 0, none = 0;
  ASSERT_TRUE(splitter.Split(version, request, rule, parts, left_out).ok());
  ASSERT_EQ(left_out, expected.left_out);
  ASSERT_EQ(parts.size(), expected.parts.size());
  if (parts.size() == 1 && expected.all_stay) {
    ASSERT_EQ(parts[0].body, request);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSERT_EQ(split_testing::KeyOf(parts[i]), expected.parts[i].key);
    WriteModel part(version, rule.hash);
    std::vector<std::string> texts;
    for (ItemModel& item : part.Read(parts[i].body)) texts.push_back(std::move(item.text));
    ASSERT_EQ(texts, expected.parts[i].texts);
    ASSERT_EQ(part.others, model.others);
    ASSERT_EQ(parts[i].items, expected.parts[i].items);
    ASSERT_TRUE(RemoteWriteSplitter().Split(version, parts[i].body, rule, again, none).ok());
    ASSERT_EQ(again.size(), 1u);
    ASSERT_EQ(none, 0u);
    ASSERT_EQ(again[0].body, parts[i].body);
  }
}

void CheckChangedWrite(uint64_t seed) {
  WriteMaker maker(seed);
  const auto version = maker.Below(2) == 0 ? RemoteWriteVersion::k1 : RemoteWriteVersion::k2;
  const std::string request = maker.Make(version);
  for (int i = 0; i < 20 && !request.empty(); ++i) {
    std::string changed = request;
    changed[static_cast<size_t>(maker.Below(static_cast<int>(request.size())))] =
        static_cast<char>(maker.Below(256));
    std::vector<SplitPart> parts, again;
    uint32_t left_out = 0;
    const SplitRule rule{.by = "t", .hash = SplitHash::kSeries, .shards = 3};
    RemoteWriteSplitter splitter;
    const Status status = splitter.Split(version, changed, rule, parts, left_out);
    ASSERT_TRUE(status.ok() || (status.code == Code::kDataLoss && parts.empty()));
    for (const SplitPart& part : parts)
      ASSERT_TRUE(splitter.Split(version, part.body, rule, again, left_out).ok());
  }
}

TEST(RemoteWriteSplitterProperty, PartsEqualTheReference) {
  for (uint64_t seed = 0; seed < 1500 && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    CheckWriteParts(seed);
  }
}

TEST(RemoteWriteSplitterProperty, ChangedBytesAreRefusedOrSplit) {
  for (uint64_t seed = 0; seed < 300 && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    CheckChangedWrite(seed);
  }
}

}  // namespace
}  // namespace gpulens
