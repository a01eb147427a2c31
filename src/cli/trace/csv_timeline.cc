#include "base/parse.h"
#include "cli/common/output.h"
#include "cli/trace/trace_builder.h"
#include "wire/json/json_text.h"

namespace gpulens {

CsvTimelineWriter::CsvTimelineWriter(const TimelineFacts& facts) {
  out_ += "time,end,track,what,name,value,unit,attributes\r\n";
  for (const auto& [key, value] : facts) {
    out_ += ",,,fact,";
    AppendCsvField(out_, TimelineText(key));
    out_ += ',';
    AppendCsvField(out_, TimelineText(value));
    out_ += ",,\r\n";
  }
}

void CsvTimelineWriter::Row(uint32_t number, int64_t unix_ns, int64_t end_ns, std::string_view what,
                            std::string_view name, const double* value, const AttributeSet& attributes) {
  AppendRfc3339(out_, unix_ns);
  out_ += ',';
  if (end_ns != 0) AppendRfc3339(out_, end_ns);
  out_ += ',';
  AppendCsvField(out_, paths_[number - 1]);
  out_.append(",").append(what).append(",");
  AppendCsvField(out_, name);
  out_ += ',';
  if (value != nullptr) AppendJsonNumber(out_, *value);
  out_ += ',';
  AppendCsvField(out_, track(number).unit);
  out_ += ',';
  if (!attributes.empty()) {
    std::string text;
    AppendJsonAttributes(text, attributes);
    AppendCsvField(out_, text);
  }
  out_ += "\r\n";
}

void CsvTimelineWriter::WriteTrack(uint32_t number) { paths_.push_back(PathOf(number, " > ")); }

void CsvTimelineWriter::WriteCount(uint32_t number, int64_t unix_ns, double value) {
  Row(number, unix_ns, 0, "value", track(number).name, &value, {});
}

void CsvTimelineWriter::WriteBegin(uint32_t number, int64_t unix_ns, std::string_view name,
                                   const AttributeSet& attributes) {
  open_[number].push_back({unix_ns, std::string(name), attributes});
}

void CsvTimelineWriter::WriteEnd(uint32_t number, int64_t unix_ns) {
  std::vector<Open>& open = open_[number];
  Row(number, open.back().begin_ns, unix_ns, "slice", open.back().name, nullptr, open.back().attributes);
  open.pop_back();
}

void CsvTimelineWriter::WriteMark(uint32_t number, int64_t unix_ns, std::string_view name,
                                  const AttributeSet& attributes) {
  Row(number, unix_ns, 0, "event", name, nullptr, attributes);
}

}  // namespace gpulens
