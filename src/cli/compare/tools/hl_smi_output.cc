#include "base/parse.h"
#include "base/text.h"
#include "cli/compare/tools/tool_output.h"
#include "sources/hl_smi/hl_smi.h"

namespace gpulens::compare {
namespace {

std::vector<std::string_view> CellsOf(std::string_view line) {
  std::vector<std::string_view> cells;
  while (!line.empty() && cells.size() < hl_smi::kMostColumns) cells.push_back(Trim(TakeUntil(line, ',')));
  return cells;
}

}  // namespace

// "memory.used [MiB]" over "672 MiB": the unit stands in the cell, else in the header.
Result<std::vector<ToolField>> ReadHlSmi(std::string_view csv) {
  if (csv.size() > hl_smi::kMostOutput) return Status{Code::kExhausted, "hl-smi: too much output"};
  if (!IsUtf8(csv)) return Status{Code::kDataLoss, "hl-smi: the output is not UTF-8"};
  std::vector<std::string_view> header = CellsOf(TakeUntil(csv, '\n'));
  size_t index_column = header.size();
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i] == "index") index_column = i;
  }
  if (index_column == header.size()) return Status{Code::kDataLoss, "hl-smi: no column `index`"};
  std::vector<ToolField> fields;
  size_t cards = 0;
  while (!csv.empty()) {
    std::vector<std::string_view> cells = CellsOf(TakeUntil(csv, '\n'));
    if (cells.empty()) continue;
    if (cells.size() != header.size())
      return Status{Code::kDataLoss, "hl-smi: a row with a different number of columns"};
    if (++cards > hl_smi::kMostCards) return Status{Code::kExhausted, "hl-smi: too many cards"};
    for (size_t i = 0; i < cells.size(); ++i) {
      std::string_view unit = header[i], name = Trim(TakeUntil(unit, '['));
      std::string text(cells[i]);
      unit = TakeUntil(unit, ']');
      if (!unit.empty() && ParseDouble(text)) text += " " + std::string(unit);
      fields.push_back({"gpu:" + std::string(cells[index_column]), std::string(name), std::move(text)});
    }
  }
  return fields;
}

}  // namespace gpulens::compare
