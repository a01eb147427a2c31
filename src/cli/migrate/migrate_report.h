// What `gpulens migrate check` and `gpulens migrate table` print. Pure; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "migrate/check.h"

namespace gpulens {

struct MigrateReport {
  const migrate::Exporter* exporter = nullptr;
  size_t files = 0, without_queries = 0, other_sources = 0;
  struct BadFile {
    std::string file, why;
  };
  std::vector<BadFile> bad_files;  // cannot be read
  std::vector<migrate::CheckedQuery> queries;
  migrate::Needs needs;
  bool has_page = false;
  std::string page;                            // its name
  std::set<std::string, std::less<>> on_page;  // names of families with series

  size_t Count(migrate::Verdict verdict) const noexcept;
  // Whether the page has the metric, by its name or that of its family.
  bool IsOnPage(std::string_view metric) const;
};

// With `all`, also the queries that keep working and those of others.
std::string MigrateText(const MigrateReport& report, bool all);
std::string MigrateJson(const MigrateReport& report);
// 0: all queries keep working with the printed configuration; 1: some do not.
int MigrateResult(const MigrateReport& report) noexcept;

// `format`: table, md or json.
std::string MigrateTable(const migrate::Exporter& exporter, std::string_view format);

}  // namespace gpulens
