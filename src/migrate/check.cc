#include "migrate/check.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "base/parse.h"
#include "base/text.h"
#include "catalog/all.h"
#include "catalog/exported_name.h"
#include "migrate/promql.h"

namespace gpulens::migrate {
namespace {

// Labels that Prometheus adds.
constexpr std::string_view kAddedLabels[] = {"job", "instance", "__name__", "le", "quantile"};
// Functions and aggregations whose result does not depend on the unit.
constexpr std::string_view kWithoutUnit[] = {"count",
                                             "group",
                                             "absent",
                                             "timestamp",
                                             "count_over_time",
                                             "present_over_time",
                                             "absent_over_time",
                                             "changes",
                                             "resets",
                                             "label_values"};

bool Has(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out += '"';
}

// " * 100" or " / 1048576".
std::string FactorText(std::string_view factor) {
  return factor.starts_with("1/") ? " / " + std::string(factor.substr(2)) : " * " + std::string(factor);
}

struct Edit {
  TextSpan at;
  std::string text;
};

std::string Edited(std::string_view text, std::vector<Edit> edits) {
  // Equal places keep their order: what is put in front of a name comes before it.
  std::vector<std::pair<size_t, size_t>> order;
  for (size_t i = 0; i < edits.size(); ++i) order.emplace_back(edits[i].at.begin, i);
  std::sort(order.begin(), order.end());
  std::string out;
  size_t done = 0;
  for (const auto& [begin, index] : order) {
    const Edit& edit = edits[index];
    if (begin < done) continue;
    out.append(text.substr(done, begin - done)).append(edit.text);
    done = edit.at.end;
  }
  return out.append(text.substr(done));
}

// The labels of theirs by ours: "-" where there is none.
using LabelMap = std::map<std::string, std::string, std::less<>>;

LabelMap LabelsOfRow(const TableRow& row) {
  LabelMap labels;
  for (const Pair& pair : PairsOf(row.labels)) labels.emplace(pair.key, LabelOf(pair.value));
  return labels;
}

// Whether series under the name set can have the label.
bool IsServedLabel(const Successor& successor, std::string_view label) {
  if (successor.served.empty()) return true;
  const MetricNaming* naming = FindNaming(successor.names);
  for (const NamingRow* row : successor.served) {
    if (row->all_attributes || row->other_attributes) return true;
    for (const NamingLabel& known : row->labels) {
      if (known.label == label) return true;
    }
    for (const NamingLabel& known : naming ? naming->labels : std::span<const NamingLabel>()) {
      if (known.label == label) return true;
    }
  }
  return false;
}

class QueryCheck {
 public:
  QueryCheck(const Exporter& exporter, CheckedQuery& out, Needs& needs)
      : exporter_(exporter), out_(out), needs_(needs) {}

  void Run() {
    const std::string& text = out_.query.text;
    auto read = ReadQuery(text);
    if (!read) {
      out_.verdict = Verdict::kUnread;
      return Note("cannot be read: " + read.error().detail);
    }
    parts_ = *std::move(read);
    for (const Selector& selector : parts_.selectors) Select(selector);
    Match();
    for (const Mapped& mapped : mapped_) Map(mapped);
    for (const LabelUse& use : parts_.labels) Rename(use);
    if (variable_) {
      out_.verdict = Verdict::kUnread;
      Note("the name of a metric is in a variable or a pattern: look at its values");
    } else if (missing_) {
      out_.verdict = Verdict::kMissing;
    } else if (!edits_.empty()) {
      out_.verdict = Verdict::kChanges;
      out_.replacement = Edited(text, edits_);
      Legend();
    } else if (theirs_) {
      out_.verdict = Verdict::kKeeps;
    } else if (parts_.selectors.empty() && parts_.bare_variable) {
      out_.verdict = Verdict::kUnread;
      Note("the query is a variable: look at its values");
    }
    if (out_.verdict == Verdict::kKeeps || out_.verdict == Verdict::kChanges) {
      needs_.names.insert(names_.begin(), names_.end());
      needs_.level = std::max(needs_.level, level_);
    }
  }

 private:
  void Note(std::string note) {
    if (!note.empty() && std::ranges::find(out_.notes, note) == out_.notes.end())
      out_.notes.push_back(std::move(note));
  }

  void Select(const Selector& selector) {
    if (selector.metric.empty()) {
      // A selector by labels alone ({job="x"}) names no metric.
      variable_ = variable_ || selector.variable_name;
      successors_.push_back(nullptr);
      return;
    }
    auto [known, is_new] = found_.try_emplace(selector.metric);
    if (is_new) known->second = FindSuccessor(exporter_, selector.metric);
    const Successor& successor = known->second;
    successors_.push_back(&successor);
    if (successor.kind == Successor::kOther) return;
    theirs_ = true;
    const bool seen = std::ranges::any_of(
        out_.metrics, [&](const CheckedMetric& metric) { return metric.name == selector.metric; });
    if (!seen) out_.metrics.push_back({selector.metric, successor.metric, successor.note});
    if (successor.kind == Successor::kMissing) {
      missing_ = true;
      return;
    }
    names_.insert(std::string(successor.names));
    if (successor.native) level_ = std::max(level_, successor.native->level);
    // Labels that the name set does not have come from the scrape, or nowhere.
    if (successor.kind == Successor::kServed) {
      for (const Matcher& matcher : selector.matchers) NeedLabel(successor, matcher.label);
      return;
    }
    Note(successor.note);
    mapped_.push_back({successor, &selector, LabelsOfRow(*successor.row), {}});
  }

  // A replacement and the labels that its series have and the original's did not.
  struct Mapped {
    const Successor& successor;
    const Selector* selector;
    LabelMap labels;
    std::map<std::string, std::string> extra;  // with the value, where the row fixes it
    std::set<std::string> pinned = {};         // of `extra`, those that the row fixes
    std::vector<std::string> dropped = {};     // of `extra`, since other metrics of the query lack them
  };

  // Operators match series by all labels, so those that only one side has must go.
  void Match() {
    if (parts_.selectors.size() < 2) return;
    for (Mapped& mapped : mapped_) {
      std::set<std::string> known;
      for (const auto& [theirs, ours] : mapped.labels) known.insert(ours);
      for (const std::string_view key : mapped.successor.native->keys) {
        if (!known.contains(LabelOf(key))) mapped.extra.emplace(LabelOf(key), "");
      }
      for (const Pair& pair : PairsOf(mapped.successor.row->where)) {
        mapped.extra[LabelOf(pair.key)] = pair.value;
        mapped.pinned.insert(LabelOf(pair.key));
      }
    }
    for (Mapped& mapped : mapped_) {
      for (const auto& [label, value] : mapped.extra) {
        const bool everywhere = mapped_.size() == parts_.selectors.size() &&
                                std::ranges::all_of(mapped_, [&](const Mapped& other) {
                                  const auto found = other.extra.find(label);
                                  return found != other.extra.end() && found->second == value;
                                });
        if (!everywhere) mapped.dropped.push_back(label);
      }
    }
  }

  void NeedLabel(const Successor& successor, const std::string& label) {
    if (label.empty() || label == successor.metric || Has(kAddedLabels, label) ||
        IsServedLabel(successor, label))
      return;
    Note("the label " + label + " is not on the page: Prometheus has to add it (relabel_configs)");
  }

  void Map(const Mapped& mapped) {
    const Successor& successor = mapped.successor;
    const Selector& selector = *mapped.selector;
    const LabelMap& labels = mapped.labels;
    for (const auto& [theirs, ours] : labels) {
      if (theirs != ours) labels_.emplace(theirs, ours);
    }
    for (const Pair& pair : PairsOf(successor.row->labels))
      attributes_[std::string(pair.key)].push_back({pair.value, successor.native});
    const bool renamed = successor.metric != selector.metric;
    std::string matchers;
    bool changed = !successor.row->where.empty();
    auto add = [&](std::string_view matcher) {
      matchers.append(matchers.empty() ? "" : ", ").append(matcher);
    };
    for (size_t i = 0; i < selector.matchers.size(); ++i) {
      const Matcher& matcher = selector.matchers[i];
      const std::string_view text = out_.query.text;
      const std::string_view rest = text.substr(matcher.rest.begin, matcher.rest.end - matcher.rest.begin);
      if (static_cast<int>(i) == selector.name_matcher) {
        changed = changed || renamed;
        if (matcher.op.empty()) add(Quoted(successor.metric));
        else add("__name__=" + Quoted(successor.metric));
        continue;
      }
      const auto label = labels.find(matcher.label);
      if (label == labels.end() || label->second == matcher.label) {
        if (label == labels.end()) NeedMappedLabel(mapped, matcher.label);
        add(text.substr(matcher.all.begin, matcher.all.end - matcher.all.begin));
        continue;
      }
      changed = true;
      UseLabel(matcher.label);
      if (label->second == "-") {
        Note("the label " + matcher.label + " has no counterpart: its condition is left out");
      } else {
        add(label->second + std::string(rest));
      }
    }
    for (const Pair& pair : PairsOf(successor.row->where)) add(LabelOf(pair.key) + "=" + Quoted(pair.value));
    const bool scaled = !successor.row->factor.empty() && !Has(kWithoutUnit, selector.function);
    if (scaled && selector.value.empty()) Note("its unit changes: ours" + FactorText(successor.row->factor));
    const bool scale = scaled && !selector.value.empty();
    const bool drop = !mapped.dropped.empty() && selector.operand && !selector.value.empty();
    const TextSpan before = {selector.value.begin, selector.value.begin},
                   behind = {selector.value.end, selector.value.end};
    if (scale) {
      // Behind group_left without parentheses these would be its labels.
      for (const TextSpan& gap : parts_.bare_groups) {
        if (gap.end == before.begin) edits_.push_back({{gap.begin, gap.begin}, "()"});
      }
      edits_.push_back({before, "("});
    }
    if (drop) {
      std::string dropped;
      for (const std::string& label : mapped.dropped) {
        dropped += (dropped.empty() ? "" : ", ") + label;
        if (!mapped.pinned.contains(label))
          Note("the series of all " + label + " are added up: choose one where that is wrong");
      }
      edits_.push_back({before, "sum without (" + dropped + ") ("});
    }
    if (renamed && !selector.name.empty()) edits_.push_back({selector.name, successor.metric});
    if (changed) {
      const size_t after = selector.name.end;
      edits_.push_back({selector.braces.empty() ? TextSpan{after, after} : selector.braces,
                        matchers.empty() ? std::string() : "{" + matchers + "}"});
    }
    if (drop) edits_.push_back({behind, ")"});
    if (scale) edits_.push_back({behind, FactorText(successor.row->factor) + ")"});
  }

  void NeedMappedLabel(const Mapped& mapped, const std::string& label) {
    if (label.empty() || Has(kAddedLabels, label)) return;
    for (const std::string_view key : mapped.successor.native->keys) {
      if (LabelOf(key) == label) return;
    }
    Note("the label " + label + " is not on the page: Prometheus has to add it (relabel_configs)");
  }

  // A label that is on a native series at a higher level only needs that level.
  void UseLabel(std::string_view theirs) {
    const auto found = attributes_.find(theirs);
    if (found == attributes_.end()) return;
    for (const auto& [attribute, native] : found->second) {
      if (attribute == "instance")
        Note("the value of instance is HOST:PORT of the scrape, not the name of the host");
      if (!ShowsAttribute(*native, attribute, MetricLevel::kStandard)) level_ = MetricLevel::kAll;
    }
  }

  // A label outside of selectors becomes what it is on the metrics that it is about.
  void Rename(const LabelUse& use) {
    const size_t last = std::min(use.last, parts_.selectors.size());
    std::set<std::string> names;
    const Mapped* lacks = nullptr;
    for (const Mapped& mapped : mapped_) {
      const auto index = static_cast<size_t>(mapped.selector - parts_.selectors.data());
      if (index < use.first || index >= last) continue;
      const auto found = mapped.labels.find(use.label);
      if (found == mapped.labels.end()) lacks = &mapped;
      names.insert(found == mapped.labels.end() ? use.label : found->second);
    }
    std::set<const Successor*> others;  // that keep their labels
    for (size_t i = use.first; i < last; ++i) {
      if (!successors_[i] || successors_[i]->kind != Successor::kMapped) others.insert(successors_[i]);
    }
    const auto name =
        std::find_if(names.rbegin(), names.rend(), [&](const auto& one) { return one != use.label; });
    if (name == names.rend()) {
      for (const Successor* other : others) {
        if (other && other->kind == Successor::kServed) NeedLabel(*other, use.label);
      }
      if (others.empty() && lacks) NeedMappedLabel(*lacks, use.label);
      return;
    }
    if (names.size() > 1)
      Note("the label " + use.label + " becomes different labels of its metrics: look at it");
    if (*name == "-") return Note("the label " + use.label + " has no counterpart: take it out");
    UseLabel(use.label);
    if (!others.empty())
      Note("the label " + use.label +
           " is also one of a metric that keeps it: rename one of them by label_replace");
    edits_.push_back({use.at, use.quoted ? Quoted(*name) : *name});
  }

  void Legend() {
    const std::string legend =
        RenameInTemplate(out_.query.legend, [&](std::string_view label) -> std::string {
          const auto found = labels_.find(label);
          return found == labels_.end() || found->second == "-" ? std::string() : found->second;
        });
    if (legend != out_.query.legend) out_.legend = legend;
  }

  struct Attribute {
    std::string_view key;
    const MetricDesc* native;
  };

  const Exporter& exporter_;
  CheckedQuery& out_;
  Needs& needs_;
  QueryParts parts_;
  std::vector<Edit> edits_;
  std::map<std::string, Successor> found_;    // by metric
  std::vector<const Successor*> successors_;  // by selector; null: it names no metric
  std::vector<Mapped> mapped_;
  LabelMap labels_;  // of all metrics that are replaced, for legends
  std::map<std::string, std::vector<Attribute>, std::less<>> attributes_;
  std::set<std::string> names_;
  MetricLevel level_ = MetricLevel::kEssential;
  bool theirs_ = false, missing_ = false, variable_ = false;
};

std::string LabelsText(const TableRow& row) {
  std::string out;
  for (const Pair& pair : PairsOf(row.labels)) {
    if (pair.value == "-" || LabelOf(pair.value) == pair.key) continue;
    out.append(out.empty() ? "" : ", ").append(pair.key).append(" → ") += LabelOf(pair.value);
  }
  return out;
}

std::string QueryOfRow(const TableRow& row, const MetricDesc& native) {
  std::string out, where;
  AppendPrometheusName(out, native);
  for (const Pair& pair : PairsOf(row.where))
    where += (where.empty() ? "" : ",") + LabelOf(pair.key) + "=" + Quoted(pair.value);
  if (!where.empty()) out += "{" + where + "}";
  return row.factor.empty() ? out : out + FactorText(row.factor);
}

// The native series from which a name set makes this row, in its unit.
std::string QueryOfNaming(const NamingRow& row) {
  std::string out, where;
  if (row.native->translated_only) return {};
  AppendPrometheusName(out, *row.native);
  for (const NamingWhere& one : row.where) {
    if (!one.key.empty()) where += (where.empty() ? "" : ",") + LabelOf(one.key) + "=" + Quoted(one.value);
  }
  if (!where.empty()) out += "{" + where + "}";
  if (row.scale == 1 || row.scale == 0) return out;
  char text[40];
  if (row.scale > 1) {
    std::snprintf(text, sizeof text, " * %.10g", row.scale);
  } else {
    std::snprintf(text, sizeof text, " / %.10g", 1 / row.scale);
  }
  return out + text;
}

}  // namespace

std::string_view VerdictName(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::kKeeps: return "keeps";
    case Verdict::kChanges: return "changes";
    case Verdict::kMissing: return "missing";
    case Verdict::kUnread: return "unread";
    case Verdict::kOther: break;
  }
  return "other";
}

std::vector<std::string> Needs::Names() const {
  std::vector<std::string> out;
  // Over native names, which l9gpu has but for a few, both would be native without these.
  if (names.contains(kNativeNaming) && !names.contains("l9gpu")) out.emplace_back(kNativeNaming);
  for (const std::string& name : names) {
    if (name != kNativeNaming) out.push_back(name);
  }
  return out;
}

CheckedQuery CheckQuery(const Exporter& exporter, FoundQuery query, Needs& needs) {
  CheckedQuery out;
  out.query = std::move(query);
  QueryCheck(exporter, out, needs).Run();
  return out;
}

std::vector<TableLine> TableOf(const Exporter& exporter) {
  std::vector<TableLine> out;
  for (const std::string_view names : exporter.namings) {
    const MetricNaming* naming = FindNaming(names);
    // The second one has the same rows under other names.
    if (!naming || !naming->renames.empty()) continue;
    std::set<std::string> seen;
    for (const NamingRow& row : naming->rows) {
      if (row.name.empty()) continue;
      TableLine line{PrometheusNameOf(*naming, row), QueryOfNaming(row), {}, {}};
      if (line.becomes.empty()) line.note = "under this name only";
      if (seen.insert(line.name + '\n' + line.becomes).second) out.push_back(std::move(line));
    }
  }
  for (const TableRow& row : exporter.rows) {
    TableLine line{std::string(row.name), {}, LabelsText(row), std::string(row.note)};
    if (const MetricDesc* native = FindMetric(row.native)) line.becomes = QueryOfRow(row, *native);
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace gpulens::migrate
