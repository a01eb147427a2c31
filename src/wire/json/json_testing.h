// For tests: a strict JSON reader that also finds doubled keys, and snapshots made of a few sources.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/parse.h"
#include "base/text.h"
#include "core/frame_writer.h"

namespace gpulens::json_testing {

// A value that was read; kMissing if it is absent.
struct Json {
  enum Type { kMissing, kNull, kBool, kNumber, kString, kArray, kObject } type = kMissing;
  std::string text;  // of a number as written, of a string decoded
  bool yes = false;
  std::vector<std::string> keys;  // of an object, in the order of its items
  std::vector<Json> items;

  const Json& operator[](std::string_view key) const {
    static const Json none;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] == key) return items[i];
    }
    return none;
  }
  const Json& operator[](size_t i) const {
    static const Json none;
    return i < items.size() ? items[i] : none;
  }
  bool here() const { return type != kMissing; }
  double number() const { return type == kNumber ? ParseDouble(text).value_or(-12345) : -12345; }
};

class JsonReader {
 public:
  // Nothing, and why, for invalid JSON, invalid UTF-8 and a key twice.
  static std::optional<Json> Read(std::string_view text, std::string* why = nullptr) {
    JsonReader reader(text);
    Json value = reader.Value();
    if (!IsUtf8(text)) reader.scan_.Fail("no UTF-8");
    const Status status = reader.scan_.Finish();
    if (status.ok()) return value;
    if (why) *why = status.detail + ": " + std::string(text.substr(0, 400));
    return std::nullopt;
  }

 private:
  explicit JsonReader(std::string_view text) : scan_(text) {}
  Json Value() {
    Json value;
    std::string_view text;
    switch (scan_.Peek()) {
      case JsonScanner::kObject: value.type = Json::kObject; break;
      case JsonScanner::kArray: value.type = Json::kArray; break;
      case JsonScanner::kString: value.type = Json::kString; break;
      case JsonScanner::kNumber: value.type = Json::kNumber; break;
      case JsonScanner::kNull: value.type = Json::kNull; break;
      case JsonScanner::kNothing: break;
      default: value.type = Json::kBool; value.yes = scan_.Peek() == JsonScanner::kTrue;
    }
    bool begun = false;
    if (value.type == Json::kString) {
      if (scan_.String(text)) value.text = text;
    } else if (value.type == Json::kNumber) {
      if (scan_.Number(text)) value.text = text;
    } else if (value.type == Json::kArray) {
      for (scan_.Enter(); scan_.NextItem(begun);) value.items.push_back(Value());
    } else if (value.type == Json::kObject) {
      for (scan_.Enter(); scan_.NextMember(begun, text);) {
        if (value[text].here()) scan_.Fail("a key twice");
        value.keys.emplace_back(text);
        value.items.push_back(Value());
      }
    } else {
      scan_.Word();
    }
    return value;
  }

  JsonScanner scan_;
};

// One source with its table and writer: declare, Begin, Set, then Entry.
struct TestSource {
  explicit TestSource(std::string name) : writer(table, std::chrono::seconds(10), std::move(name)) {}
  SnapshotEntry Entry(Precedence precedence = Precedence::kNative, bool overdue = false) {
    Ref<const Frame> frame = writer.Finish();
    std::string_view source = frame->source;
    return {std::move(frame), source, precedence, overdue};
  }
  SeriesTable table;
  FrameWriter writer;
};

inline Ref<Snapshot> MakeSnapshot(uint64_t tick, Instant closed_at, std::vector<SnapshotEntry> frames) {
  Ref<Snapshot> snapshot = MakeRef<Snapshot>();
  snapshot->tick = tick;
  snapshot->closed_at = closed_at;
  snapshot->frames = std::move(frames);
  return snapshot;
}

inline EntityRef Gpu(int64_t index) {
  return MakeRef<const Entity>("gpu", AttributeSet({{"gpu.index", index}}));
}

}  // namespace gpulens::json_testing
