// Prints what our parser reads from an exposition page on standard input, one JSON object per line,
// for comparison with other parsers: exposition_differential.py.
//   exposition_dump text|text100|openmetrics < page
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/text.h"
#include "wire/exposition/exposition_parser.h"

namespace gpulens {
namespace {

void AppendNumber(std::string& out, double value) {
  char text[64];
  int length = std::snprintf(text, sizeof text, "%.17g", value);
  out += '"';
  out.append(text, static_cast<size_t>(length));
  out += '"';
}

void AppendLabels(std::string& out, std::span<const LabelView> labels) {
  out += '[';
  for (const LabelView& label : labels) {
    if (out.back() != '[') out += ',';
    out += '[';
    AppendJsonString(out, label.name);
    out += ',';
    AppendJsonString(out, label.value);
    out += ']';
  }
  out += ']';
}

class Printer final : public ExpositionHandler {
 public:
  void OnFamily(uint32_t /*id*/, const ExpositionFamily& family) override {
    names_.push_back(family.name);
    std::string out = "{\"family\":";
    AppendJsonString(out, family.name);
    out += ",\"type\":";
    AppendJsonString(out, family.typed ? ExpositionTypeName(family.type) : "");
    out += ",\"help\":";
    AppendJsonString(out, family.help);
    out += ",\"unit\":";
    AppendJsonString(out, family.unit);
    Print(out);
  }

  void OnSample(const SampleView& sample) override {
    std::string out = "{\"sample\":";
    AppendJsonString(out, sample.name);
    out += ",\"of\":";
    AppendJsonString(out, names_[sample.family]);
    out += ",\"labels\":";
    AppendLabels(out, sample.labels);
    out += ",\"value\":";
    AppendNumber(out, sample.value);
    if (sample.timestamp_ms) out += ",\"timestamp_ms\":" + std::to_string(*sample.timestamp_ms);
    if (sample.exemplar) {
      out += ",\"exemplar\":{\"labels\":";
      AppendLabels(out, sample.exemplar->labels);
      out += ",\"value\":";
      AppendNumber(out, sample.exemplar->value);
      if (sample.exemplar->timestamp_ms) {
        out += ",\"timestamp_ms\":" + std::to_string(*sample.exemplar->timestamp_ms);
      }
      out += '}';
    }
    Print(out);
  }

  void OnBadLine(const BadLine& line) override {
    std::string out = "{\"bad\":" + std::to_string(line.number) + ",\"error\":";
    AppendJsonString(out, LineErrorName(line.error));
    out += ",\"excerpt\":";
    AppendJsonString(out, line.excerpt);
    Print(out);
  }

 private:
  static void Print(std::string& out) {
    out += "}\n";
    std::fwrite(out.data(), 1, out.size(), stdout);
  }

  std::vector<std::string> names_;
};

int Run(std::string_view format_word) {
  ExpositionFormat format = ExpositionFormat::kText004;
  if (format_word == "text100") {
    format = ExpositionFormat::kText100;
  } else if (format_word == "openmetrics") {
    format = ExpositionFormat::kOpenMetrics100;
  } else if (format_word != "text") {
    std::fputs("usage: exposition_dump text|text100|openmetrics < page\n", stderr);
    return 2;
  }
  std::string page;
  char buffer[1 << 16];
  for (ssize_t got; (got = read(STDIN_FILENO, buffer, sizeof buffer)) > 0;) {
    page.append(buffer, static_cast<size_t>(got));
  }
  Printer printer;
  auto report = ParseExposition(page, format, {}, printer);
  if (!report) {
    std::fprintf(stderr, "%s\n", report.error().detail.c_str());
    return 1;
  }
  std::printf("{\"samples\":%zu,\"bad_lines\":%zu,\"truncated\":%s}\n", report->samples, report->bad_lines,
              report->truncated ? "true" : "false");
  return 0;
}

}  // namespace
}  // namespace gpulens

int main(int argc, char** argv) { return gpulens::Run(argc == 2 ? argv[1] : ""); }
