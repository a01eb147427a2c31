// Any bytes as output of one of Slurm's programs; the first byte selects which.
#include <cmath>

#include "base/check.h"
#include "base/text.h"
#include "sources/slurm/parse/scontrol.h"
#include "sources/slurm/parse/table.h"
#include "sources/slurm/parse/words.h"

namespace {

using namespace gpulens::slurm;

void Words(std::string_view text) {
  CHECK(gpulens::IsUtf8(CleanText(text)));
  for (auto value : {ParseSpan(text), ParseSize(text), ParseCount(text), TresOf(text, "mem")})
    CHECK(!value || (std::isfinite(*value) && *value >= 0));
  if (auto indices = ParseIndices(text)) CHECK(indices->size() <= kMostIndices);
  if (auto time = ParseTime(text)) CHECK(*time >= 0);
  static_cast<void>(HostListHas(text, "node0012"));
  for (const Gres& gres : ParseGres(text)) CHECK(!gres.name.empty() && std::isfinite(gres.count));
}

void Tables(std::string_view text) {
  for (std::string_view delimiter : {"|", "|#"}) {
    auto table = ParseTable(text, delimiter, 4096);
    if (!table) continue;
    for (const auto& row : table->rows) CHECK(row.size() == table->columns.size());
  }
  // In two pieces it is the same as in one.
  size_t rows = 0;
  TableReader reader("|", {"A", "B", "C"}, true, [&](std::span<const std::string_view> values) {
    CHECK(values.size() == 3);
    return ++rows < 4096;
  });
  reader.Add(text.substr(0, text.size() / 2));
  reader.Add(text.substr(text.size() / 2));
  static_cast<void>(reader.Finish());
  constexpr std::string_view kColumns[] = {"A", "B", "C"};
  auto whole = ParseRows(text, "|", kColumns, 4096);
  CHECK(!whole || whole->rows.size() == rows);
}

void Control(std::string_view text) {
  for (const Job& job : ParseJobs(text)) {
    CHECK(job.id != 0);
    if (auto gpus = GpusOn(job, "node1")) CHECK(!gpus->empty() || job.detail.size() > 0);
  }
  for (const auto& record : ParseOneLineRecords(text)) CHECK(!record.empty() && record.size() <= kMostFields);
  CHECK(ParseConfig(text).size() <= kMostFields);
}

void Diagnosis(std::string_view text) {
  for (const auto& sdiag : {ParseSdiagText(text), ParseSdiagJson(text)}) {
    if (sdiag) CHECK(!sdiag->jobs_running || *sdiag->jobs_running >= 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: Words(text); break;
    case 1: Tables(text); break;
    case 2: Control(text); break;
    default: Diagnosis(text); break;
  }
  return 0;
}
