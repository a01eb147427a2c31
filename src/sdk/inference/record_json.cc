#include "sdk/inference/record_json.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::sdk {
namespace {

using telemetry::RecordColumn, telemetry::RecordNumbers, telemetry::TextColumn;

constexpr size_t kMostNameBytes = 64;  // of an unknown name in an error

// Members that describe the row instead of holding a column's value.
constexpr std::string_view kId = "id", kMeasured = "measured", kOutcome = "outcome";

Status Wrong(std::string_view name, std::string_view why) {
  std::string detail = "\"";
  AppendPrintable(detail, name.substr(0, kMostNameBytes));
  return {Code::kInvalidArgument, detail + "\" " + std::string(why)};
}

class RecordReader {
 public:
  explicit RecordReader(const JsonDocument& json) noexcept : json_(json) {}

  Result<JsonRecord> Read() {
    const auto names = json_.Names("");
    if (!names) return Status{Code::kInvalidArgument, "a record must be a JSON object"};
    for (const std::string& name : *names) RETURN_IF_ERROR(Member(name));
    if (exported_) {
      ForgetUnmeasured();
    } else {
      if (std::ranges::find(*names, "token_counting_version") == names->end())
        out_.numbers.token_counting_version = kTokensCounted;
      telemetry::Derive(out_.numbers);
    }
    RETURN_IF_ERROR(Check());
    return std::move(out_);
  }

 private:
  static std::string Pointer(std::string_view name) { return "/" + std::string(name); }

  Status Member(const std::string& name) {
    if (name == kId || name == kMeasured) return Mark(name);
    if (name == kOutcome) return SetOutcome();
    const auto columns = telemetry::RecordColumns();
    const auto column = std::ranges::find(columns, std::string_view(name), &RecordColumn::name);
    if (column == columns.end()) return Wrong(name, "is not a column of a record");
    if (json_.IsNull(Pointer(name))) return Ok();
    if (const auto* text = std::get_if<TextColumn>(&column->at)) return SetText(name, *text);
    if (const auto* real = std::get_if<double RecordNumbers::*>(&column->at)) return SetReal(name, *real);
    return SetWhole(name, *std::get_if<int64_t RecordNumbers::*>(&column->at));
  }

  Status Mark(const std::string& name) {
    const auto number = json_.Integer(Pointer(name));
    if (!number && !json_.IsNull(Pointer(name))) return Wrong(name, "must be an integer or null");
    if (name == kMeasured) measured_ = number;
    exported_ = true;
    return Ok();
  }

  Status SetOutcome() {
    const std::string pointer = Pointer(kOutcome);
    if (json_.IsNull(pointer)) return Ok();
    const auto word = json_.Text(pointer);
    for (const Outcome outcome : {Outcome::kOk, Outcome::kError, Outcome::kCancelled}) {
      if (word != OutcomeName(outcome)) continue;
      out_.numbers.outcome = static_cast<int64_t>(outcome);
      return Ok();
    }
    return Wrong(kOutcome, "must be \"ok\", \"error\" or \"cancelled\"");
  }

  Status SetText(const std::string& name, TextColumn which) {
    auto text = json_.Text(Pointer(name));
    if (!text) return Wrong(name, "must be a string or null");
    out_.texts[static_cast<size_t>(which)] = *std::move(text);
    return Ok();
  }

  Status SetReal(const std::string& name, double RecordNumbers::* where) {
    const auto number = json_.Number(Pointer(name));
    if (!number || !std::isfinite(*number))
      return Wrong(name, "must be a number that a double can hold, or null");
    out_.numbers.*where = *number;
    return Ok();
  }

  Status SetWhole(const std::string& name, int64_t RecordNumbers::* where) {
    const bool flag = where == &RecordNumbers::is_warmup || where == &RecordNumbers::is_streaming;
    auto number = json_.Integer(Pointer(name));
    if (const auto truth = json_.Truth(Pointer(name)); flag && truth) number = *truth ? 1 : 0;
    if (!number)
      return Wrong(name, flag ? "must be true, false, an integer or null" : "must be an integer or null");
    if (*number < 0) return Wrong(name, "is negative");
    out_.numbers.*where = *number;
    return Ok();
  }

  // Clears values that the table's reader (store/telemetry/rows.h) treats as not measured.
  void ForgetUnmeasured() noexcept {
    const auto columns = telemetry::RecordColumns();
    for (size_t i = 0; i < columns.size(); ++i) {
      if (!columns[i].masked) continue;
      if (measured_ && (*measured_ >> i & 1) != 0) continue;
      if (const auto* real = std::get_if<double RecordNumbers::*>(&columns[i].at)) {
        double& value = out_.numbers.*(*real);
        if (measured_ || value == 0) value = kNotMeasured;
      } else if (const auto* whole = std::get_if<int64_t RecordNumbers::*>(&columns[i].at)) {
        int64_t& value = out_.numbers.*(*whole);
        if (measured_ || value == 0) value = telemetry::kNoCount;
      }
    }
  }

  Status Check() const {
    telemetry::RecordRow row = out_.row();
    if (std::isnan(row.numbers.timestamp)) row.numbers.timestamp = 0;  // the store dates it
    if (const std::string_view why = telemetry::WhyNot(row); !why.empty())
      return {Code::kInvalidArgument, "a record cannot have " + std::string(why)};
    const std::string_view metadata = row.text(TextColumn::kMetadata);
    if (metadata.empty()) return Ok();
    const auto object = JsonDocument::Parse(metadata);
    if (!object) return Wrong("metadata", "must be the text of a JSON object: " + object.error().detail);
    return object->Names("") ? Ok() : Wrong("metadata", "must be the text of a JSON object");
  }

  const JsonDocument& json_;
  JsonRecord out_;
  bool exported_ = false;
  std::optional<int64_t> measured_;
};

}  // namespace

telemetry::RecordRow JsonRecord::row() const noexcept {
  telemetry::RecordRow row{.numbers = numbers};
  std::ranges::copy(texts, row.texts.begin());
  return row;
}

Result<JsonRecord> ReadRecordJson(std::string_view json) {
  if (json.size() > kMostRecordBytes) {
    return Status{Code::kInvalidArgument, "a record of " + std::to_string(json.size()) + " bytes; at most " +
                                              std::to_string(kMostRecordBytes) + " are read"};
  }
  const auto document = JsonDocument::Parse(json);
  if (!document) return Status{Code::kInvalidArgument, document.error().detail};
  return RecordReader(*document).Read();
}

}  // namespace gpulens::sdk
