// Finds the PromQL queries in files of others: dashboards of Grafana (any version of its schema, also as its
// API exports them), rule files of Prometheus, PrometheusRule objects, and Grafana's own alert rules as JSON.
// Bytes from outside: everything has a limit. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::migrate {

struct FoundQuery {
  std::string file;    // as the caller calls it
  std::string title;   // of the dashboard, or the rule group
  std::string place;   // of the panel, the variable or the rule
  std::string text;    // the query
  std::string legend;  // or the templates of an alert, which name labels
};

struct FoundQueries {
  std::vector<FoundQuery> queries;
  size_t other_sources = 0;  // queries to data sources that are no Prometheus: Loki, SQL
};

inline constexpr size_t kMaxDashboardBytes = 16u << 20;
inline constexpr size_t kMaxQueries = 50'000;  // of one file
// All queries and templates of one file with rules, in which an alias repeats a text.
inline constexpr size_t kMaxRuleTexts = 16u << 20;

// Adds the queries of a JSON file. kDataLoss: no JSON; kExhausted: a limit. What was found before stays in
// `out`.
Status FindInDashboard(std::string_view text, const std::string& file, FoundQueries& out);

// Adds the queries of a YAML file with rules; documents are separated by `---`. kInvalidArgument: no YAML;
// kUnavailable: neither rule groups nor a PrometheusRule; kExhausted: a limit.
Status FindInRules(std::string_view text, const std::string& file, FoundQueries& out);

}  // namespace gpulens::migrate
