#include <cstdio>

#include "base/text.h"
#include "wire/json/json_text.h"
#include "wire/perfetto/timeline.h"

namespace gpulens {
namespace {

// Microseconds with the nanoseconds behind the point: exact, unlike a double.
void AppendMicroseconds(std::string& out, int64_t unix_ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(unix_ns / 1000),
                static_cast<long long>(unix_ns % 1000));
  out += text;
}

}  // namespace

ChromeTraceWriter::ChromeTraceWriter(const TimelineFacts& facts) {
  out_ += R"({"displayTimeUnit":"ms","otherData":{)";
  for (const auto& [key, value] : facts) {
    if (out_.back() != '{') out_ += ',';
    AppendJsonString(out_, TimelineText(key));
    out_ += ':';
    AppendJsonString(out_, TimelineText(value));
  }
  out_ += "},\"traceEvents\":[\n";
}

// Writes up to the name; the caller ends the object.
void ChromeTraceWriter::Head(const char* phase, uint32_t number, int64_t unix_ns, std::string_view name) {
  if (!first_) out_ += ",\n";
  first_ = false;
  out_.append(R"({"ph":")").append(phase).append(R"(","pid":)");
  out_ += std::to_string(processes_[number - 1]);
  out_.append(R"(,"tid":)").append(std::to_string(number)).append(R"(,"ts":)");
  AppendMicroseconds(out_, unix_ns);
  if (name.empty()) return;
  out_ += R"(,"name":)";
  AppendJsonString(out_, name);
}

void ChromeTraceWriter::WriteTrack(uint32_t number) {
  const TimelineTrack& one = track(number);
  uint32_t process = number;
  if (one.kind != TimelineTrack::Kind::kGroup && one.parent != 0) process = processes_[one.parent - 1];
  processes_.push_back(process);
  if (one.kind == TimelineTrack::Kind::kCounter) return;  // its name is in each of its events
  const bool is_process = process == number;
  Head("M", number, 0, is_process ? "process_name" : "thread_name");
  out_ += R"(,"args":{"name":)";
  AppendJsonString(out_, is_process ? PathOf(number, " › ") : one.name);
  out_ += "}}";
  Head("M", number, 0, is_process ? "process_sort_index" : "thread_sort_index");
  out_.append(R"(,"args":{"sort_index":)").append(std::to_string(one.rank)).append("}}");
}

void ChromeTraceWriter::WriteCount(uint32_t number, int64_t unix_ns, double value) {
  const TimelineTrack& one = track(number);
  // Chrome knows a counter by its name within the process.
  const bool is_below_slices = one.parent != 0 && track(one.parent).kind == TimelineTrack::Kind::kSlices;
  Head("C", number, unix_ns, is_below_slices ? track(one.parent).name + " " + one.name : one.name);
  out_ += R"(,"args":{)";
  const std::string unit = TimelineUnit(one.unit);
  AppendJsonString(out_, unit.empty() ? "value" : unit);
  out_ += ':';
  AppendJsonNumber(out_, value);
  out_ += "}}";
}

void ChromeTraceWriter::WriteBegin(uint32_t number, int64_t unix_ns, std::string_view name,
                                   const AttributeSet& attributes) {
  Head("B", number, unix_ns, name);
  out_ += R"(,"args":)";
  AppendJsonAttributes(out_, attributes);
  out_ += '}';
}

void ChromeTraceWriter::WriteEnd(uint32_t number, int64_t unix_ns) {
  Head("E", number, unix_ns, {});
  out_ += '}';
}

void ChromeTraceWriter::WriteMark(uint32_t number, int64_t unix_ns, std::string_view name,
                                  const AttributeSet& attributes) {
  Head("i", number, unix_ns, name);
  out_ += R"(,"s":"t","args":)";
  AppendJsonAttributes(out_, attributes);
  out_ += '}';
}

void ChromeTraceWriter::WriteLast() { out_ += "\n]}\n"; }

}  // namespace gpulens
