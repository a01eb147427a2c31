#include "migrate/queries.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/yaml/yaml.h"

namespace gpulens::migrate {
namespace {

// Rows in rows in libraries: real dashboards have some ten levels.
constexpr size_t kMaxJsonDepth = 64;

// The beginning of a title or a name, in whole characters: each query of a panel has a copy.
std::string NameOf(std::string_view text) {
  constexpr size_t kMaxNameBytes = 500;
  size_t end = std::min(text.size(), kMaxNameBytes);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end));
}

// Whether queries of a data source of this type are PromQL. Unknown types are believed to be.
bool MayBePrometheus(std::string_view type) {
  static constexpr std::string_view kOthers[] = {"loki",
                                                 "tempo",
                                                 "elasticsearch",
                                                 "influxdb",
                                                 "graphite",
                                                 "cloudwatch",
                                                 "mysql",
                                                 "postgres",
                                                 "grafana-postgresql-datasource",
                                                 "mssql",
                                                 "jaeger",
                                                 "zipkin",
                                                 "opensearch",
                                                 "grafana-clickhouse-datasource",
                                                 "vertamedia-clickhouse-datasource",
                                                 "frser-sqlite-datasource",
                                                 "stackdriver",
                                                 "opentsdb",
                                                 "grafana-pyroscope-datasource",
                                                 "victoriametrics-logs-datasource",
                                                 "testdata",
                                                 "__expr__",
                                                 "grafana-azure-monitor-datasource"};
  return std::ranges::find(kOthers, type) == std::end(kOthers);
}

// A query on the way, until the object around it is read: its title may come after it.
struct Pending {
  FoundQuery query;
  std::string source;  // the type of the data source
};

class DashboardReader {
 public:
  DashboardReader(std::string_view text, const std::string& file, FoundQueries& out)
      : json_(text, kMaxJsonDepth), file_(file), out_(out) {}

  Status Read() {
    if (json_.Peek() == JsonScanner::kArray) {
      json_.Array([&] { Value("", false); });
    } else {
      Value("", false);
    }
    const Status status = json_.Finish();
    for (Pending& pending : pending_) {
      if (!MayBePrometheus(pending.source)) {
        ++out_.other_sources;
        continue;
      }
      pending.query.file = file_;
      if (pending.query.place == pending.query.title) pending.query.place.clear();
      out_.queries.push_back(std::move(pending.query));
    }
    return status;
  }

 private:
  void Value(std::string_view key, bool in_templating) {
    const JsonScanner::Kind kind = json_.Peek();
    if (kind == JsonScanner::kObject) {
      Object(key, in_templating);
    } else if (kind == JsonScanner::kArray) {
      const std::string name(key);
      json_.Array([&] { Value(name, in_templating); });
    } else {
      json_.Skip();
    }
  }

  void Object(std::string_view own_key, bool in_templating) {
    const size_t first = pending_.size();
    std::string title, name, source, expr, query, legend, type;
    bool has_panels = false;
    json_.Object([&](std::string_view member) {
      const std::string key(member);
      const JsonScanner::Kind kind = json_.Peek();
      if (kind == JsonScanner::kString) {
        const std::string_view text = json_.Text();
        if (key == "title") title = NameOf(text);
        else if (key == "name") name = NameOf(text);
        else if (key == "type") type = text;
        else if (key == "legendFormat") legend = text;
        else if (key == "query") query = text;
        // `expression` is what Grafana's server-side expressions have, too.
        else if (key == "expr") expr = text;
      } else if (key == "datasource" && kind == JsonScanner::kObject) {
        json_.Object([&](std::string_view of_source) {
          if (of_source == "type") source = NameOf(json_.Text());
        });
      } else if (key == "query" && kind == JsonScanner::kObject && in_templating) {
        json_.Object([&](std::string_view of_query) {
          if (of_query == "query") query = json_.Text();
        });
      } else {
        has_panels = has_panels || key == "panels" || key == "elements";
        Value(key, in_templating || key == "templating" || key == "variables");
      }
    });
    const bool is_variable = in_templating && type == "query" && !query.empty();
    for (const std::string* text : {&expr, is_variable ? &query : nullptr}) {
      if (!text || text->empty()) continue;
      if (pending_.size() >= kMaxQueries)
        return static_cast<void>(json_.Fail("more than 50000 queries", Code::kExhausted));
      Pending pending;
      pending.query.text = *text;
      pending.query.legend = legend;
      if (is_variable) pending.query.place = "variable $" + name;
      pending_.push_back(std::move(pending));
    }
    const bool is_dashboard = has_panels && own_key != "panels" && type != "row";
    for (size_t i = first; i < pending_.size(); ++i) {
      FoundQuery& found = pending_[i].query;
      if (is_dashboard) {
        if (found.title.empty()) found.title = title;
      } else if (found.place.empty()) {
        found.place = !title.empty() ? title : own_key == "list" ? name : std::string();
      }
      if (pending_[i].source.empty()) pending_[i].source = source;
    }
  }

  JsonScanner json_;
  const std::string& file_;
  FoundQueries& out_;
  std::vector<Pending> pending_;
};

constexpr YamlLimits kRuleLimits{
    .bytes = 4u << 20, .values = 400'000, .depth = 32, .key_bytes = 1024, .anchors = true};

// The templates of a rule: labels and annotations.
std::string TemplatesOf(const YamlNode& rule) {
  std::string out;
  for (const std::string_view key : {"labels", "annotations"}) {
    const YamlNode* map = rule.Find(key);
    if (!map || map->kind != YamlNode::kMap) continue;
    for (const YamlNode::Member& member : map->members) {
      if (member.value->kind == YamlNode::kScalar && member.value->text.find("{{") != std::string::npos)
        out += (out.empty() ? "" : "\n") + member.key + ": " + member.value->text;
      if (out.size() > kMaxRuleTexts) return out;  // is refused
    }
  }
  return out;
}

// What one file may still have.
struct RuleRoom {
  size_t rules = kMaxQueries, bytes = kMaxRuleTexts;
};

Status AddGroups(const YamlNode& groups, const std::string& file, RuleRoom& room, FoundQueries& out) {
  for (const YamlNode* group : groups.items) {
    const YamlNode* rules = group->kind == YamlNode::kMap ? group->Find("rules") : nullptr;
    if (!rules || rules->kind != YamlNode::kList) continue;
    for (const YamlNode* rule : rules->items) {
      if (rule->kind != YamlNode::kMap) continue;
      FoundQuery query;
      query.text = rule->TextOf("expr");
      if (query.text.empty()) continue;
      if (room.rules-- == 0) return {Code::kExhausted, "more than 50000 rules"};
      query.file = file;
      query.title = NameOf(group->TextOf("name"));
      const std::string alert = rule->TextOf("alert"), record = rule->TextOf("record");
      query.place = NameOf(alert.empty() ? "record " + record : "alert " + alert);
      query.legend = TemplatesOf(*rule);
      const size_t bytes = query.text.size() + query.legend.size();
      if (bytes > room.bytes) return {Code::kExhausted, "more than 16 MiB of queries"};
      room.bytes -= bytes;
      out.queries.push_back(std::move(query));
    }
  }
  return Ok();
}

}  // namespace

Status FindInDashboard(std::string_view text, const std::string& file, FoundQueries& out) {
  if (text.size() > kMaxDashboardBytes) return {Code::kExhausted, "larger than 16 MiB"};
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return DashboardReader(text, file, out).Read();
}

Status FindInRules(std::string_view text, const std::string& file, FoundQueries& out) {
  if (text.size() > kRuleLimits.bytes) return {Code::kExhausted, "larger than 4 MiB"};
  bool found = false;
  RuleRoom room;
  std::string document;
  auto read_document = [&]() -> Status {
    if (document.find_first_not_of(" \t\r\n") == std::string::npos) return Ok();
    ASSIGN_OR_RETURN(const YamlTree tree, ReadYaml(document, kRuleLimits, ""));
    document.clear();
    const YamlNode& top = tree.top();
    if (top.kind != YamlNode::kMap) return Ok();
    const YamlNode* spec = top.Find("spec");
    const YamlNode* groups = spec && spec->kind == YamlNode::kMap ? spec->Find("groups") : top.Find("groups");
    if (!groups || groups->kind != YamlNode::kList) return Ok();
    found = true;
    return AddGroups(*groups, file, room, out);
  };
  while (!text.empty()) {
    std::string_view line = TakeUntil(text, '\n');
    if (line == "---" || line.starts_with("--- ") || line == "---\r") {
      RETURN_IF_ERROR(read_document());
      document.clear();
    } else {
      document.append(line) += '\n';
    }
  }
  RETURN_IF_ERROR(read_document());
  if (!found) return {Code::kUnavailable, "no rule groups"};
  return Ok();
}

}  // namespace gpulens::migrate
